# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What lxml and libvirt share in one process.

This file is private to the collection.
"""

from __future__ import annotations

import threading

# lxml installs an entity loader for the whole process while it parses. In that time libvirt's test
# driver, which reads its document in this process, must not: see _libvirt.
ENTITY_LOADER = threading.Lock()
