# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Imported by Ansible before any action plugin of the collection."""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _compiled

_compiled.keep()
