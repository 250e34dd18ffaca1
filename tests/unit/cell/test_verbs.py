# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every verb does with a VM of a cell: none is forgotten."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _fleet
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_verb as verb

# Its cell leaves the VM alone while it is changed
HELD = {
    "adoption.effects._AdoptionJob",
    "disk_move.effects._DiskJob",
    "migration.effects_move.Moving",
    "provision.effects_batch.ProvisionJob",
    "provision.effects_batch.CreationJob",
    "provision.effects_changing.ChangeJob",
    "purge.effects._PurgeJob",
    "rename.effects._RenameJob",
    "restore.effects._RestoreJob",
    "seeding.effects._Job",
    "snapshots.effects._SnapshotJob",
    "state.effects._StateJob",
}
# Its cell goes on restarting it if its hypervisor fails: nothing of the VM is changed
UNCHANGED = {
    "backup.effects._BackupJob",
    "restore.effects_disk._DiskJob",
    "template.effects._TemplateJob",
    "verify.effects._ProofJob",
}
WITHIN_ANOTHER = {
    "migration.effects_jobs.MigrationJob",  # Moving
    "migration.effects_settle.End",  # Moving, or the repair of one that was killed
    "restart.effects._RestartJob",  # of a VM with a hypervisor in its card, so of none of a cell
}
_ROOT = Path(__file__).parents[3]
# What each playbook does with a VM of a cell: through which job, or why it needs none
PLAYBOOKS = {
    **dict.fromkeys(("adopt",), "adoption"),
    **dict.fromkeys(("backup", "backup_turn"), "backup"),
    **dict.fromkeys(("clone", "import_vm", "provision_vm"), "provision"),
    **dict.fromkeys(("evacuate", "migrate_vm", "return_vms", "repair_vms", "rolling"), "migration"),
    "move_disk": "disk_move",
    "purge_vm": "purge",
    "rename": "rename",
    "restart_elsewhere": "restart",
    **dict.fromkeys(("restore", "restore_disk"), "restore"),
    "snapshot": "snapshots",
    "state": "state",
    "template": "template",
    "verify_backups": "verify",
    **dict.fromkeys(
        (
            *("backups", "capacity", "console", "console_log", "doctor", "host_info", "images"),
            *("list", "plan", "preflight", "query", "screenshot", "snapshots", "what_if"),
        ),
        "reads",
    ),
    **dict.fromkeys(
        (
            *("export_backup_keys", "maintenance", "prune_backups", "renew_keys", "restore_file"),
            "setup_hypervisors",
        ),
        "no VM",
    ),
}


def _works() -> Iterator[type[verb.Work]]:
    """All that steps are carried out for."""
    for module in pkgutil.walk_packages(_fleet.__path__, f"{_fleet.__name__}."):
        if module.name.rpartition(".")[2].startswith("effects"):
            importlib.import_module(module.name)
    waiting: list[type[verb.Work]] = [verb.Work]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if not inspect.isabstract(kind) and kind.__module__.startswith(_fleet.__name__):
                yield kind


def _name(kind: type[verb.Work]) -> str:
    return f"{kind.__module__[len(_fleet.__name__) + 1 :]}.{kind.__name__}"


WORKS = {_name(kind): kind for kind in _works()}


def test_every_verb_is_known_here() -> None:
    assert {*WORKS} == HELD | UNCHANGED | WITHIN_ANOTHER
    folders = {name.partition(".")[0] for name in WORKS} - {"seeding"}  # a part of provisioning
    assert {what for what in PLAYBOOKS.values() if what not in ("reads", "no VM")} == folders
    assert {*PLAYBOOKS} == {path.stem for path in (_ROOT / "playbooks").glob("*.yml")}


@pytest.mark.parametrize("name", sorted(HELD))
def test_verb_that_changes_vm_holds_it(name: str) -> None:
    kind: t.Any = WORKS[name]
    assert kind.hold is not verb.Work.hold
    assert kind.keep_cards is not verb.Work.keep_cards
    if issubclass(kind, verb.Job):
        assert kind.changes_vm
        assert (kind.hold, kind.keep_cards) == (verb.Job.hold, verb.Job.keep_cards)


@pytest.mark.parametrize("name", sorted(UNCHANGED))
def test_verb_that_changes_nothing_leaves_vm_to_its_cell(name: str) -> None:
    """But for a cell without quorum, for which nothing is done (``verb.planned``)."""
    kind: t.Any = WORKS[name]
    assert not kind.changes_vm
    assert (kind.hold, kind.keep_cards) == (verb.Job.hold, verb.Job.keep_cards)
