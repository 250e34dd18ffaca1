# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VM that cloning or importing requests, which is created as any other."""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import AnyWork
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


def of(action: StagedAction[AnyWork]) -> Answer:
    """What the playbook ``clone`` decided in this run: ``vms``, ``images``, ``leftovers`` and
    ``clone_of``, or ``import_vm``: ``vms`` and ``images``; empty in any other playbook."""
    if not action.staged:
        return {}
    return action.latest("virt_cloned", "virt_clone") or action.latest(
        "virt_imported", "virt_import"
    )
