# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restoring a disk beside its VM, killed or failing at each effect, on libvirt's test driver."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import interrupted
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    effects_archive,
    effects_disk,
    plan_disk,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options_disk import (
    RestoreDiskOptions,
    RestoreDiskWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.plan_disk import (
    DiskFacts,
    NewDisk,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

from .test_restore_crashes import _CONTENT, _UUID, _saved, made

_OPTIONS: RestoreDiskOptions = {
    "name": "web1",
    "disk": "vdb",
    "archive": None,
    "place": "/srv/backup",
    "passphrase": "x",
    "ssh_key": None,
    "pool": None,
}
_NAME = "web1_vdb-2026-11-28T065118Z.raw"
_DATA = _CONTENT["disks/vdb.raw"]
_OWN = {"web1_system.raw": b"of the VM that runs"}
_DOMAIN = "<domain type='test'><name>web1</name><uuid>{}</uuid><memory>1024</memory>"
_DOMAIN += "<os><type>hvm</type></os></domain>"


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return made(tmp_path, monkeypatch)


def _restore(**more: t.Any) -> t.Callable[[Connection], t.Mapping[str, t.Any]]:
    check = more.pop("check", False)
    work = RestoreDiskWork(stage="act", vms=[_saved("run")])
    options: t.Any = {**_OPTIONS, **more}
    return lambda connection: effects_disk.run(connection, options, work, check=check)


def _prepare(machine: Machine) -> None:
    """The VM runs, with a disk of its own."""
    machine.connection.conn.createXML(_DOMAIN.format(_UUID), 0)
    for name, content in _OWN.items():
        (machine.pool / name).write_bytes(content)


def _contents(machine: Machine) -> dict[str, bytes]:
    return {name: (machine.pool / name).read_bytes() for name in machine.files()}


def _untouched(machine: Machine, where: str) -> None:
    files = _contents(machine)
    assert {name: files.get(name) for name in _OWN} == _OWN, where
    assert [*machine.domains()] == ["web1"], where


def _done(machine: Machine, where: str = "") -> None:
    _untouched(machine, where)
    assert _contents(machine) == {**_OWN, _NAME: _DATA}, where


def test_check_mode_says_which_volume_is_made(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        asked = machine.call(_restore(check=True))
        assert machine.effects.done == []
        assert _contents(machine) == _OWN
        done = machine.call(_restore())
        assert asked is not None
        assert not asked.get("failed"), asked
        assert asked == done
        assert asked["vms"][0]["path"] == str(machine.pool / _NAME)
        _done(machine)
        again = machine.call(_restore())
        assert again is not None
        assert (again["changed"], again.get("failed", False)) == (False, False), again
        assert machine.effects.done == []


@pytest.mark.parametrize("how", ["kill_at", "fail_at"])
def test_restore_killed_or_failed_anywhere_is_finished_by_next_run(
    machines: Machines, how: str
) -> None:
    with machines.new() as machine:
        _prepare(machine)
        assert machine.call(_restore()) is not None
        count = len(machine.effects.done)
    assert count >= 6
    for number in range(1, count + 1):
        with machines.new() as machine:
            _prepare(machine)
            result = machine.call(_restore(), **{how: number})
            where = f"{how} {number}: {machine.effects.done[number - 1 :]}"
            _untouched(machine, where)
            assert _contents(machine).get(_NAME, _DATA) == _DATA, f"{where}: complete, or not there"
            if result is not None and result.get("failed"):
                left = {*_contents(machine)} - {*_OWN, _NAME, f"{_NAME}.restoring"}
                assert not left, where
            result = machine.call(_restore())
            assert result is not None, where
            assert not result.get("failed"), (where, result)
            _done(machine, where)


def test_repair_killed_anywhere_is_finished_by_next_run(machines: Machines) -> None:
    number, repaired = 0, False
    while not repaired:
        number += 1
        with machines.new() as machine:
            _prepare(machine)
            machine.call(_restore(), kill_at=4)
            repaired = machine.call(_restore(), kill_at=number) is not None
            machine.call(_restore())
            _done(machine, f"repair, {number}")
    assert number > 6


def test_plan_interrupted_anywhere_leads_to_the_disk() -> None:
    wanted = NewDisk("0::1", "default", "a.raw", "/srv/a.raw")
    begin = DiskFacts("web1")
    states = [state for _moment, state in interrupted(begin, plan_disk.plan(begin, wanted).steps)]
    assert len(states) > 4
    for state in states:
        after = state
        for step in plan_disk.plan(state, wanted).steps:
            after = step.effect(after)
        assert (after.there, after.unfinished) == (plan_disk.FILLED, None), state


def test_file_of_that_name_stays_as_it_is(machines: Machines) -> None:
    with machines.new() as machine:
        _prepare(machine)
        (machine.pool / _NAME).write_bytes(b"somebody's")
        result = machine.call(_restore())
        assert result is not None
        assert (result["changed"], result.get("failed", False)) == (False, False)
        assert (machine.pool / _NAME).read_bytes() == b"somebody's"


def test_file_that_appears_meanwhile_is_not_overwritten(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        _prepare(machine)
        pour = effects_archive.Archive.pour

        def appears(archive: t.Any, file: t.Any, into: t.Any) -> None:
            pour(archive, file, into)
            (machine.pool / _NAME).write_bytes(b"somebody's")

        monkeypatch.setattr(effects_archive.Archive, "pour", appears)
        result = machine.call(_restore())
        assert result is not None
        assert "appeared meanwhile; refusing to overwrite it" in result["msg"]
        assert (machine.pool / _NAME).read_bytes() == b"somebody's"


def test_vm_that_is_not_here_is_refused_with_the_remedy(machines: Machines) -> None:
    with machines.new() as machine:
        for check in (True, False):
            with pytest.raises(effects_disk.PlanRefused, match=r"restore the VM: .*vm_name=web1"):
                machine.call(_restore(check=check))
        assert machine.effects.done == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"disk": "vdz"}, r"has no disk 'vdz' of 'web1'; it has: system \(vda\), vdb"),
        ({"pool": "nowhere"}, r"there is no pool 'nowhere' here; choose one"),
    ],
)
def test_disk_or_pool_that_does_not_exist_is_refused(
    machines: Machines, options: dict[str, str], message: str
) -> None:
    with machines.new() as machine:
        _prepare(machine)
        refusals = []
        for check in (True, False):
            try:
                result = machine.call(_restore(check=check, **options))
                refusals.append(str((result or {}).get("msg")))
            except effects_disk.PlanRefused as error:
                refusals.append(str(error))
        assert refusals[0] == refusals[1]
        assert re.search(message, refusals[0]), refusals
        assert _contents(machine) == _OWN


def test_disk_larger_than_the_free_space_is_refused(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        _prepare(machine)
        real = effects_disk.os.statvfs(machine.pool)

        class Small:
            f_bavail, f_frsize = 1, 1

        assert real.f_bavail
        monkeypatch.setattr(effects_disk.os, "statvfs", lambda _path: Small)
        for check in (True, False):
            result = machine.call(_restore(check=check))
            assert result is not None
            assert "free, and the disk may need" in result["msg"]
        assert _contents(machine) == _OWN


def test_archive_without_the_disk_is_refused_on_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        effects_disk.read_archives, "find", lambda *_given, **_named: [_saved("run")]
    )
    access = Access("x", "/nowhere")
    assert [vm.name for vm in effects_disk.find(access, _OPTIONS, "")] == ["web1"]
    with pytest.raises(effects_disk.PlanRefused, match="no disk"):
        effects_disk.find(access, {**_OPTIONS, "disk": "vdz"}, "")
