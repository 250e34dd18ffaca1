# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renaming VMs, killed or failing at each of its effects, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_lease as lease
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import effects as rename
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import plan as rename_plan
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_DOMAIN = """
<domain type='test'><name>a</name><uuid>{uuid}</uuid><memory>131072</memory>
 <os><type>hvm</type><loader type='pflash'>/x</loader><nvram>{root}/a_VARS.fd</nvram></os>
 <metadata>{metadata}</metadata><devices>
 {disk}<serial type='pty'><log file='{root}/a-console.log' append='off'/><target port='0'/></serial>
 </devices></domain>
"""
_VOLUMES = {"a_system.qcow2": b"a disk", "a_loose.qcow2": b"another"}
_CALLED = {name.replace("a_", "b_", 1): content for name, content in _VOLUMES.items()}
_FILES = {"a_VARS.fd": "variables", "a-console.log": "a word"}
_MOVED = {f"{_UUID}_VARS.fd": "variables", "b-console.log": "a word"}


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr(lease, "OBSERVE", 0.0)  # whoever does not live is dead at once
    return Machines(tmp_path, monkeypatch)


def _define(machine: Machine, monkeypatch: pytest.MonkeyPatch, *, volumes: bool = False) -> Path:
    """With ``volumes`` it has two, of which one is attached."""
    folder = machine.root / "libvirt"
    folder.mkdir()
    monkeypatch.setattr(rename_plan, "LOG_FOLDER", str(folder))
    monkeypatch.setattr(rename_plan, "NVRAM_FOLDER", str(folder))
    for name, content in _FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    own: list[OwnVolume] = []
    disk = ""
    for name, content in _VOLUMES.items() if volumes else ():
        path = machine.pool / name
        path.write_bytes(content)
        own.append(OwnVolume("default", name, str(path), name[2:-6], "disk", "1"))
        disk = disk or (
            f"<disk type='file' device='disk'><source file='{path}'/><target dev='vda'/></disk>"
        )
    machine._refresh()
    kept = Metadata(request='{"name":"a"}', host_key="k", volumes=tuple(own))
    ours = _lxml.tostring(metadata.to_element(kept))
    machine.connection.conn.defineXML(
        _DOMAIN.format(uuid=_UUID, root=folder, metadata=ours, disk=disk)
    )
    return folder


def _stage(
    stage: str, *, check: bool = False, volumes: bool = False
) -> t.Callable[[Connection], dict[str, t.Any]]:
    return lambda connection: rename.run(connection, "a", "b", stage, check=check, volumes=volumes)


def _content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def _ended(machine: Machine, folder: Path, where: str = "") -> None:
    assert list(machine.domains()) == ["b"], where
    text = str(machine.connection.conn.lookupByName("b").XMLDesc(2))
    for name in _MOVED:
        assert str(folder / name) in text, where
    assert _content(folder) == _MOVED, where
    stored = machine.stored("b")
    assert stored is not None
    kept = dataclasses.replace(stored, volumes=())
    assert kept == Metadata(request='{"name":"b"}', host_key="k", renamed_from="a"), where
    assert machine.files() == {one.name: _CALLED[one.name] for one in stored.volumes}, where
    assert [one.path for one in stored.volumes if one.name == "b_system.qcow2"] == [
        path for path in _paths(text) if "system" in path
    ], where
    assert machine.faults() == [], where


def _paths(text: str) -> list[str]:
    return [str(one.get("file")) for one in _lxml.parse(text, "b").iterfind("devices/disk/source")]


def _as_before(machine: Machine, folder: Path, where: str = "") -> None:
    assert list(machine.domains()) == ["a"], where
    assert _content(folder) == _FILES, where
    stored = machine.stored("a")
    assert stored is not None
    assert (stored.phase, stored.request) == (None, '{"name":"a"}'), where
    assert machine.files() == {one.name: _VOLUMES[one.name] for one in stored.volumes}, where


def test_check_mode_says_what_is_done(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    with machines.new() as machine:
        folder = _define(machine, monkeypatch)
        asked = machine.call(_stage("all", check=True))
        assert machine.effects.done == []
        _as_before(machine, folder)
        done = machine.call(_stage("all"))
        assert asked == done
        _ended(machine, folder)
        again = machine.call(_stage("all"))
        assert again is not None
        assert not again["changed"]
        assert machine.effects.done == []


@pytest.mark.parametrize("volumes", [False, True])
def test_steps_of_the_stages_are_those_of_check_mode(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, volumes: bool
) -> None:
    with machines.new() as machine:
        _define(machine, monkeypatch, volumes=volumes)
        (predicted,) = (machine.call(_stage("take", check=True, volumes=volumes)) or {})["vms"]
        assert machine.effects.done == []
        done = [machine.call(_stage(stage, volumes=volumes)) for stage in ("take", "finish")]
        entries = [entry for result in done if result is not None for entry in result["vms"]]
        assert [step for entry in entries for step in entry["steps"]] == predicted["steps"]
        assert entries[0]["kept"] == predicted["kept"]


@pytest.mark.parametrize("how", ["kill_at", "fail_at"])
@pytest.mark.parametrize("stages", [("all",), ("take", "finish")])
@pytest.mark.parametrize("volumes", [False, True])
def test_killed_or_failed_anywhere_the_next_ends_it(
    machines: Machines,
    monkeypatch: pytest.MonkeyPatch,
    stages: tuple[str, ...],
    how: str,
    volumes: bool,
) -> None:
    counts = []
    with machines.new() as machine:
        folder = _define(machine, monkeypatch, volumes=volumes)
        for stage in stages:
            result = machine.call(_stage(stage, volumes=volumes))
            assert result is not None
            assert not result.get("failed"), result
            counts.append(len(machine.effects.done))
        _ended(machine, folder)
    assert counts[0] >= 7
    for number in range(1, sum(counts) + 1):
        with machines.new() as machine:
            folder = _define(machine, monkeypatch, volumes=volumes)
            at = number
            for stage, count in zip(stages, counts):
                if at <= count:
                    break
                machine.call(_stage(stage, volumes=volumes))
                at -= count
            result = machine.call(_stage(stage, volumes=volumes), **{how: at})
            where = f"{stage}, {how} {at}: {machine.effects.done[at - 1 :]}"
            if result is not None and stage != "finish" and result.get("failed"):
                _as_before(machine, folder, where)
            for next_stage in stages:
                result = machine.call(_stage(next_stage, volumes=volumes))
                assert result is not None, where
                assert not result.get("failed"), (where, result)
            _ended(machine, folder, where)


def test_volumes_are_renamed_later_too_and_never_below_others(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines.new() as machine:
        folder = _define(machine, monkeypatch, volumes=True)
        copy = machine.root / "base" / "copy.qcow2"
        copy.parent.mkdir(exist_ok=True)
        disk = machine.pool / "a_system.qcow2"
        subprocess.run(["qemu-img", "create", "-qf", "raw", disk, "1M"], check=True)
        made = ["qemu-img", "create", "-qf", "qcow2", "-b", disk, "-F", "raw", copy]
        subprocess.run(made, check=True)
        refused = machine.call(_stage("all", volumes=True))
        assert refused is not None
        assert refused["failed"]
        assert f"{disk}: backs {copy}" in refused["msg"]
        assert machine.effects.done == []
        copy.unlink()
        disk.write_bytes(_VOLUMES[disk.name])
        machine.call(_stage("all"))
        assert machine.files() == _VOLUMES
        done = machine.call(_stage("all", volumes=True))
        assert done is not None
        assert done["changed"], done
        _ended(machine, folder)
        again = machine.call(_stage("all", volumes=True))
        assert again is not None
        assert not again["changed"], again


def test_a_name_that_is_somebodys_is_given_back(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed anywhere, too: the same again renames it, or the name is given back again."""
    with machines.new() as machine:
        folder = _define(machine, monkeypatch, volumes=True)
        machine.call(_stage("take", volumes=True))
        stored = machine.stored("b")
        assert stored is not None
        assert stored.phase == "renaming"
        result = machine.call(_stage("withdraw", volumes=True))
        assert result is not None
        assert not result.get("failed"), result
        count = len(machine.effects.done)
        _given_back(machine, folder)
    for number in range(1, count + 1):
        with machines.new() as machine:
            folder = _define(machine, monkeypatch, volumes=True)
            machine.call(_stage("take", volumes=True))
            machine.call(_stage("withdraw", volumes=True), kill_at=number)
            for stage in ("take", "finish"):
                result = machine.call(_stage(stage, volumes=True))
                assert result is not None
                assert not result.get("failed"), (number, result)
            _ended(machine, folder)


def _given_back(machine: Machine, folder: Path) -> None:
    """As before, but for the firmware's variables, whose name is nobody else's."""
    assert list(machine.domains()) == ["a"]
    assert _content(folder) == {f"{_UUID}_VARS.fd": "variables", "a-console.log": "a word"}
    stored = machine.stored("a")
    assert stored is not None
    assert dataclasses.replace(stored, volumes=()) == Metadata(request='{"name":"a"}', host_key="k")
    assert machine.files() == {one.name: _VOLUMES[one.name] for one in stored.volumes}
    assert machine.faults() == []


def _unadopted(machine: Machine) -> None:
    """A domain as virsh made it, whose name is outside the rules of the collection."""
    ours = _lxml.tostring(metadata.to_element(Metadata()))
    text = _DOMAIN.format(uuid=_UUID, root=machine.root, metadata=ours, disk="")
    text = text.replace(f"<metadata>{ours}</metadata>", "")
    machine.connection.conn.defineXML(text.replace("<name>a<", f"<name>{_FOREIGN}<"))


_FOREIGN = "Windows Server 2019"


def _rename_foreign(stage: str) -> t.Callable[[Connection], dict[str, t.Any]]:
    return lambda connection: rename.run(connection, _FOREIGN, "b", stage, check=False)


def test_vm_not_adopted_killed_anywhere_is_renamed_and_stays_unadopted(machines: Machines) -> None:
    with machines.new() as machine:
        _unadopted(machine)
        machine.call(_rename_foreign("all"))
        count = len(machine.effects.done)
    assert count >= 3
    for number in range(1, count + 1):
        with machines.new() as machine:
            _unadopted(machine)
            machine.call(_rename_foreign("all"), kill_at=number)
            for changed in (number < count, False):
                result = machine.call(_rename_foreign("all"))
                assert result is not None
                assert not result.get("failed"), (number, result)
                assert result["changed"] or not changed
            assert list(machine.domains()) == ["b"]
            assert machine.stored("b") == Metadata(renamed_from=_FOREIGN)


def test_vm_not_adopted_whose_new_name_is_taken_is_as_before(machines: Machines) -> None:
    with machines.new() as machine:
        _unadopted(machine)
        machine.call(_rename_foreign("take"))
        assert list(machine.domains()) == ["b"]
        result = machine.call(_rename_foreign("withdraw"))
        assert result is not None
        assert not result.get("failed"), result
        assert list(machine.domains()) == [_FOREIGN]
        assert machine.stored(_FOREIGN) is None
