# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renaming VMs, killed or failing at each of its effects, on libvirt's test driver."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import Connection
from ansible_collections.fleet.virt.plugins.module_utils._effects.lifecycle import rename
from ansible_collections.fleet.virt.plugins.module_utils._effects.plan import lease
from ansible_collections.fleet.virt.plugins.module_utils._pure.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._pure.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._pure.lifecycle import rename_plan
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_DOMAIN = """
<domain type='test'><name>a</name><uuid>{uuid}</uuid><memory>131072</memory>
 <os><type>hvm</type><loader type='pflash'>/x</loader><nvram>{root}/a_VARS.fd</nvram></os>
 <metadata>{metadata}</metadata><devices>
 <serial type='pty'><log file='{root}/a-console.log' append='off'/><target port='0'/></serial>
 </devices></domain>
"""
_FILES = {"a_VARS.fd": "variables", "a-console.log": "a word"}
_MOVED = {f"{_UUID}_VARS.fd": "variables", "b-console.log": "a word"}


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr(lease, "OBSERVE", 0.0)  # whoever does not live is dead at once
    return Machines(tmp_path, monkeypatch)


def _define(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = machine.root / "libvirt"
    folder.mkdir()
    monkeypatch.setattr(rename_plan, "LOG_FOLDER", str(folder))
    monkeypatch.setattr(rename_plan, "NVRAM_FOLDER", str(folder))
    for name, content in _FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    ours = _lxml.tostring(metadata.to_element(Metadata(request='{"name":"a"}', host_key="k")))
    machine.connection.raw.defineXML(_DOMAIN.format(uuid=_UUID, root=folder, metadata=ours))
    return folder


def _stage(stage: str, *, check: bool = False) -> t.Callable[[Connection], dict[str, t.Any]]:
    return lambda connection: rename.run(connection, "a", "b", stage, check=check)


def _content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def _ended(machine: Machine, folder: Path, where: str = "") -> None:
    assert list(machine.domains()) == ["b"], where
    text = str(machine.connection.raw.lookupByName("b").XMLDesc(2))
    for name in _MOVED:
        assert str(folder / name) in text, where
    assert _content(folder) == _MOVED, where
    assert machine.stored("b") == Metadata(
        request='{"name":"b"}', host_key="k", renamed_from="a"
    ), where
    assert machine.faults() == [], where


def _as_before(machine: Machine, folder: Path, where: str = "") -> None:
    assert list(machine.domains()) == ["a"], where
    assert _content(folder) == _FILES, where
    stored = machine.stored("a")
    assert stored is not None
    assert (stored.phase, stored.request) == (None, '{"name":"a"}'), where


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


@pytest.mark.parametrize("how", ["kill_at", "fail_at"])
@pytest.mark.parametrize("stages", [("all",), ("take", "finish")])
def test_killed_or_failed_anywhere_the_next_ends_it(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, stages: tuple[str, ...], how: str
) -> None:
    counts = []
    with machines.new() as machine:
        folder = _define(machine, monkeypatch)
        for stage in stages:
            result = machine.call(_stage(stage))
            assert result is not None
            assert not result.get("failed"), result
            counts.append(len(machine.effects.done))
        _ended(machine, folder)
    assert counts[0] >= 7
    for number in range(1, sum(counts) + 1):
        with machines.new() as machine:
            folder = _define(machine, monkeypatch)
            at = number
            for stage, count in zip(stages, counts):
                if at <= count:
                    break
                machine.call(_stage(stage))
                at -= count
            result = machine.call(_stage(stage), **{how: at})
            where = f"{stage}, {how} {at}: {machine.effects.done[at - 1 :]}"
            if result is not None and stage != "finish" and result.get("failed"):
                _as_before(machine, folder, where)
            for next_stage in stages:
                result = machine.call(_stage(next_stage))
                assert result is not None, where
                assert not result.get("failed"), (where, result)
            _ended(machine, folder, where)


def test_a_name_that_is_somebodys_is_given_back(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed anywhere, too: the same again renames it, or the name is given back again."""
    with machines.new() as machine:
        folder = _define(machine, monkeypatch)
        machine.call(_stage("take"))
        stored = machine.stored("b")
        assert stored is not None
        assert stored.phase == "renaming"
        result = machine.call(_stage("withdraw"))
        assert result is not None
        assert not result.get("failed"), result
        count = len(machine.effects.done)
        _given_back(machine, folder)
    for number in range(1, count + 1):
        with machines.new() as machine:
            folder = _define(machine, monkeypatch)
            machine.call(_stage("take"))
            machine.call(_stage("withdraw"), kill_at=number)
            for stage in ("take", "finish"):
                result = machine.call(_stage(stage))
                assert result is not None
                assert not result.get("failed"), (number, result)
            _ended(machine, folder)


def _given_back(machine: Machine, folder: Path) -> None:
    """As before, but for the firmware's variables, whose name is nobody else's."""
    assert list(machine.domains()) == ["a"]
    assert _content(folder) == {f"{_UUID}_VARS.fd": "variables", "a-console.log": "a word"}
    stored = machine.stored("a")
    assert stored == Metadata(request='{"name":"a"}', host_key="k")


def test_a_vm_of_nobody_is_left_alone(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    with machines.new() as machine:
        _define(machine, monkeypatch)
        result = machine.call(
            lambda connection: rename.run(connection, "theirs", "b", "all", check=False)
        )
        assert result is not None
        assert result["failed"]
        assert "adopt it first" in result["msg"]
        assert machine.effects.done == []
