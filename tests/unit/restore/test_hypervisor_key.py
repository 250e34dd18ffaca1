# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The private key with which a hypervisor reaches a server of backups: what was saved with it is
restored with it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    effects,
    effects_disk,
    effects_file,
    read_archives,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import RestoreWork
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options_disk import (
    RestoreDiskWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options_file import (
    RestoreFileWork,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

from .test_disk_crashes import _OPTIONS as _OF_DISK
from .test_restore_crashes import _OPTIONS as _OF_VM
from .test_restored_file import _OPTIONS as _OF_FILE

_KEY = "/root/.ssh/backup"
_PLAYBOOKS = Path(__file__).parents[3] / "playbooks"
# A module on a hypervisor is given the passphrase; those of the controller are given its name
_GIVEN = 'passphrase: "{{ virt_backup_passphrase |'
_HANDED_ON = 'ssh_key: "{{ virt_backup_host_key | default(omit) }}"'


def _restore(machine: Machine) -> None:
    options: t.Any = {**_OF_VM, "ssh_key": _KEY}
    effects.run(machine.connection, options, RestoreWork(), check=True)


def _restore_disk(machine: Machine) -> None:
    options: t.Any = {**_OF_DISK, "ssh_key": _KEY}
    effects_disk.run(machine.connection, options, RestoreDiskWork(), check=True)


def _restore_file(_machine: Machine) -> None:
    options: t.Any = {**_OF_FILE, "ssh_key": _KEY}
    effects_file.run(options, RestoreFileWork())


@pytest.mark.parametrize("restore", [_restore, _restore_disk, _restore_file])
def test_restore_opens_repository_with_the_key_of_the_hypervisor(
    restore: t.Callable[[Machine], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []

    def find(access: Access, *_more: object, **_named: object) -> t.NoReturn:
        keys.append(access.key)
        raise PlanRefused("it was opened")

    monkeypatch.setattr(read_archives, "find", find)
    monkeypatch.setattr(effects_file, "missing", list)
    monkeypatch.setattr(effects.verb, "require_local", lambda *_: None)
    with (
        Machines(tmp_path, monkeypatch).new() as machine,
        pytest.raises(PlanRefused, match="it was opened"),
    ):
        restore(machine)
    assert keys == [_KEY]


def test_playbook_that_gives_hypervisors_the_passphrase_gives_them_the_key() -> None:
    texts = {path.name: path.read_text() for path in _PLAYBOOKS.rglob("*.yml")}
    given = {name: text for name, text in texts.items() if _GIVEN in text}
    assert len(given) == 5
    assert [name for name, text in given.items() if _HANDED_ON not in text] == []
