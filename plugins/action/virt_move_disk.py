# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.answers import GroupedVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move import verb
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move.facts import (
    DiskMovedVm,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import SelectingWork
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import VerbAction


class ActionModule(VerbAction[SelectingWork, GroupedVm, DiskMovedVm]):
    """Moving a disk, as it is declared."""

    WORK = SelectingWork
    VERB = verb.VERB
