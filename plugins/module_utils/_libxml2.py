# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lock between lxml and libvirt, which share libxml2 in one process."""

from __future__ import annotations

import threading

# While lxml parses, it installs an entity loader for the whole process. libvirt's test driver reads
# its document in this process too, and must not do so meanwhile: see _libvirt.
ENTITY_LOADER = threading.Lock()
