# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import FleetModule


class ActionModule(FleetModule):
    """The module does everything; this sanitises its result."""
