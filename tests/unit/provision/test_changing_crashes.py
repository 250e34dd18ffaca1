# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changing a VM, failing at each of its effects, alone and with each effect of undoing it.

What is said of the VM afterwards is what it is, and the next run of the same request completes it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import types
import typing as t
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_executor as executor,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import effects as init
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    effects_changing_steps as changing_steps,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    BatchSettings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines, plain

_RUN = "11111111-1111-4111-8111-111111111111"
_SYSTEM = {"name": "system", "format": "raw", "size": "1M"}
_DATA = {"name": "data", "format": "raw", "size": "2M"}
_ETH0 = {"name": "eth0", "network": "lan", "mac": "52:54:00:00:00:01"}
_VM: dict[str, t.Any] = {
    "name": "web1",
    "vcpus": 1,
    "vcpus_max": 4,
    "memory": "128M",
    "memory_max": "256M",
    "nics": [_ETH0],
    "seed": False,
    "disks": [_SYSTEM, _DATA],
}
_D1, _D2 = ({"name": name, "format": "raw", "size": "1M"} for name in ("d1", "d2"))
CHANGES: dict[str, dict[str, t.Any]] = {
    "numbers": {"vcpus": 2, "memory": "192M", "memory_max": "512M"},
    "texts": {"title": "Web", "description": "one", "autostart": True, "groups": ["web"]},
    "disks": {"disks": [_D1, _D2]},
    "removed": {"disks": [{"name": "data", "state": "absent"}, _D1], "title": "Web"},
    "grown": {"disks": [{**_DATA, "size": "4M"}], "title": "Web"},
    "limited": {"disks": [{**_DATA, "total_iops_sec": 100}], "nics": [{**_ETH0, "link": False}]},
    "nics": {
        "nics": [
            {"name": "eth0", "state": "absent"},
            {"name": "eth1", "network": "lan", "mac": "52:54:00:00:00:02"},
        ]
    },
}


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr(executor, "_POLL", 0.0)
    ticks = itertools.count(0.0, 8.0)  # seconds between two looks at a guest
    clock = types.SimpleNamespace(monotonic=lambda: next(ticks), sleep=lambda _seconds: None)
    monkeypatch.setattr(changing_steps, "time", clock)
    return Machines(tmp_path, monkeypatch)


def _init(options: dict[str, t.Any], machine: Machine, **more: t.Any) -> dict[str, t.Any]:
    domains, problems = many(
        [{"disk_profile": "none", "nic_profile": "none", **options}], defaults=Defaults()
    )
    assert problems == []
    domains = [dataclasses.replace(one, domain_type="test", arch="i686") for one in domains]
    settings = BatchSettings(run=_RUN, home="hv1", pool_paths={}, base_pool="base", machine="pc")
    run = functools.partial(init.run, domains=domains, settings=settings, stage="all", check=False)
    result = machine.call(run, **more)
    assert result is not None
    return t.cast("dict[str, t.Any]", result)


def _start(machine: Machine, *, running: bool) -> None:
    result = _init({**_VM, "start": running}, machine)
    assert result.get("msg") is None
    if running:
        machine.run_devices("web1")


def _state(machine: Machine) -> dict[str, t.Any]:
    """What users can see of the VM; its files by size."""
    raw = machine.connection.conn.lookupByName("web1")
    root = str(machine.root)
    live = machine.live("web1") if raw.isActive() else "<domain/>"
    kept = machine.stored("web1")
    return {
        "inactive": _unordered(raw.XMLDesc(2).replace(root, "")),
        "live": _unordered(live.replace(root, "")),
        "autostart": raw.autostart(),
        "groups": kept.groups if kept is not None else (),
        "files": {path.name: path.stat().st_size for path in machine.pool.glob("web1_*")},
    }


def _unordered(text: str) -> list[str]:
    """Devices that were plugged again come last, at other addresses and targets."""
    root = ElementTree.fromstring(text)
    for own in root.findall("metadata"):
        root.remove(own)
    for device in root.iterfind("devices/*"):
        for tag in ("address", "alias", "backingStore", "target"):
            for element in device.findall(tag):
                device.remove(element)
    devices = root.find("devices")
    found = [ElementTree.tostring(one, encoding="unicode").strip() for one in devices or ()]
    if devices is not None:
        root.remove(devices)
    shown = plain(ElementTree.tostring(root, encoding="unicode")).values()
    return [*(one.strip() for one in shown), *sorted("".join(one.split()) for one in found)]


def _faults(machine: Machine) -> list[str]:
    """What must hold whatever failed: no file is lost that a definition names, none is orphaned."""
    found = machine.faults()
    raw = machine.connection.conn.lookupByName("web1")
    texts = [raw.XMLDesc(2), machine.live("web1")] if raw.isActive() else [raw.XMLDesc(2)]
    for text in texts:
        for source in ElementTree.fromstring(text).iterfind("devices/disk/source"):
            if not Path(source.get("file", "")).exists():
                found.append(f"{source.get('file')} is attached and gone")
    return found


@pytest.mark.parametrize(
    ("change", "running"),
    # a VM that is off is given its first disk with "removed"
    [
        (change, running)
        for change in CHANGES
        for running in (True, False)
        if running or change != "disks"
    ],
)
def test_failed_change_is_reported_as_it_is_and_completed_by_the_next(
    machines: Machines, change: str, running: bool
) -> None:
    request = {"name": "web1", **CHANGES[change]}
    with machines.new() as machine:
        _start(machine, running=running)
        before = _state(machine)
        result = _init(request, machine)
        assert result.get("msg") is None
        goal, effects = _state(machine), len(machine.effects.done)
        assert goal != before
        assert not _init(request, machine)["changed"]
    incomplete = 0

    def fail(first: int, second: int = 0) -> int:
        """The number of effects when those with these numbers fail."""
        nonlocal incomplete
        with machines.new() as machine:
            _start(machine, running=running)
            result = _init(request, machine, fail_at=first, fail_too=second)
            done = machine.effects.done
            failed = [f"{done[number - 1]!r} ({number})" for number in (first, second) if number]
            where = f"{' and '.join(failed)} failed"
            if "failed" in result:
                incomplete += _is_told(machine, result, before, where)
            else:  # a guest is asked several times to release a device
                assert "detach" in where
                assert _state(machine) == goal, where
            again = _init(request, machine)
            assert again.get("msg") is None, (where, again["msg"])
            assert _state(machine) == goal, where
            kept = machine.stored("web1")
            assert kept is not None
            assert (kept.phase, kept.owner) == (None, None), where
            assert second or not _init(request, machine)["changed"], where
        return len(done)

    for first in range(1, effects + 1):
        for second in range(first + 1, fail(first) + 1):
            fail(first, second)
    assert incomplete


def _is_told(
    machine: Machine, result: dict[str, t.Any], before: dict[str, t.Any], where: str
) -> bool:
    """Require that the result says what the VM is now; whether anything of the change remains."""
    (vm,) = result["vms"]
    assert "it fails here" in vm["msg"], where
    assert _faults(machine) == [], where
    now, kept = _state(machine), machine.stored("web1")
    same = now == before
    told = "the VM is unchanged" in vm["msg"]
    assert told == same, (where, vm["msg"], now, before)
    assert vm["changed"] != same, where
    assert kept is not None
    assert ("stays marked as being changed" in vm["msg"]) == (kept.phase == "changing"), where
    if same:
        assert kept.phase is None or " and " in where, where
    elif now["inactive"] == before["inactive"]:  # a part of it, which only the phase tells
        assert kept.phase == "changing", (where, vm["msg"])
    return not same
