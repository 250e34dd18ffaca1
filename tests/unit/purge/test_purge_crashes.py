# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing VMs, killed or failing at each of its effects, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_file_identity as identity,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    NOT_MADE,
    Metadata,
    Owner,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_lease_holder as owner,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import effects as purge
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.plan import PurgeOptions
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines, living, plain
from lxml import etree

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_VOLUMES = {"web1_system.raw": "disk", "web1_data.raw": "disk", "web1_seed.iso": "seed"}
_DOMAIN = """
<domain type='test'><name>web1</name><uuid>{uuid}</uuid><memory>131072</memory>
 <os><type>hvm</type></os><metadata>{metadata}</metadata><devices>
 <disk type='file' device='disk'><source file='{pool}/web1_system.raw'/>
  <target dev='sda' bus='scsi'/></disk>
 <disk type='file' device='disk'><source file='{pool}/web1_data.raw'/>
  <target dev='sdb' bus='scsi'/></disk>
 <disk type='file' device='cdrom'><source file='{pool}/web1_seed.iso'/>
  <target dev='sdc' bus='scsi'/></disk></devices></domain>
"""


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return Machines(tmp_path, monkeypatch)


def _define(machine: Machine, *, start: bool = False, **more: t.Any) -> None:
    """The VM, with volumes whose files are there."""
    pool = machine.connection.conn.storagePoolLookupByName("default")
    own = []
    for name, role in _VOLUMES.items():
        path = machine.pool / name
        if not path.exists():
            pool.createXML(f"<volume><name>{name}</name><capacity>4096</capacity></volume>", 0)
            path.write_bytes(name.encode())
        made = identity.of_file(str(path))
        own.append(OwnVolume("default", name, str(path), name.split("_")[1], role, made))
    stored = Metadata(home="hv1", request="{}", volumes=tuple(own))
    stored = dataclasses.replace(stored, **more)
    text = etree.tostring(metadata.to_element(stored)).decode()
    xml = _DOMAIN.format(uuid=_UUID, metadata=text, pool=machine.pool)
    domain = machine.connection.conn.defineXML(xml)
    if start:
        domain.create()


def _purge(connection: Connection) -> dict[str, t.Any]:
    settings = purge.PurgeSettings(PurgeOptions(force=True, base_pool="base"))
    return purge.run(connection, ["web1"], settings, check=False)


def _left(machine: Machine) -> list[str]:
    """What there is of the VM."""
    return [*machine.domains(), *machine.files(), *machine.volumes(), *machine.faults()]


def _count(machines: Machines, **more: t.Any) -> int:
    """How many effects it has where nothing goes wrong."""
    with machines.new() as machine:
        _define(machine, **more)
        result = machine.call(_purge)
        assert result is not None
        assert result.get("msg") is None
        assert result["changed"]
        assert _left(machine) == []
        return len(machine.effects.done)


@pytest.mark.parametrize("start", [False, True])
def test_a_killed_purge_is_finished_by_the_next(machines: Machines, start: bool) -> None:
    effects = _count(machines, start=start)
    assert effects >= 8 + start
    for number in range(1, effects + 1):
        with machines.new() as machine:
            _define(machine, start=start)
            assert machine.call(_purge, kill_at=number) is None
            where = f"killed before {machine.effects.done[-1]!r} ({number})"
            assert machine.faults() == [], where
            result = machine.call(_purge)
            assert result is not None
            assert result.get("msg") is None, where
            assert result["changed"], where
            assert _left(machine) == [], where
            again = machine.call(_purge)
            assert again is not None
            assert not again["changed"], where
            assert machine.effects.done == [], where


def test_it_says_how_far_it_came_and_goes_on(machines: Machines) -> None:
    effects = _count(machines)
    for number in range(1, effects + 1):
        with machines.new() as machine:
            _define(machine)
            before = plain(machine.connection.conn.lookupByName("web1").XMLDesc(2))
            result = machine.call(_purge, fail_at=number)
            assert result is not None
            where = f"{machine.effects.failed!r} ({number}) failed"
            assert machine.faults() == [], where
            if result.get("failed"):
                assert "it fails here" in result["msg"], where
                # the definition is there as long as anything that it names
                domain = machine.connection.conn.lookupByName("web1")
                whole = machine.files().keys() == _VOLUMES.keys()
                if not result["changed"] and whole and number == 1:
                    assert plain(domain.XMLDesc(2)) == before, where
            result = machine.call(_purge)
            assert result is not None
            assert result.get("msg") in (None, "not there"), where
            assert _left(machine) == [], where


def test_nobody_starts_it_while_it_goes(machines: Machines) -> None:
    """From before the first volume goes its definition names a drive that cannot be opened."""
    effects = _count(machines)
    for number in range(1, effects + 1):
        with machines.new() as machine:
            _define(machine)
            machine.call(_purge, kill_at=number)
            if machine.files().keys() == _VOLUMES.keys():
                continue
            text = machine.domains()["web1"].XMLDesc(2)
            assert "startupPolicy='mandatory'" in text
            kept = machine.stored("web1")
            assert kept is not None
            assert kept.phase == "purging"
            assert not owner.is_alive(kept.owner)
            assert {one.name for one in kept.volumes} == _VOLUMES.keys()


def test_what_a_run_that_lives_is_making_is_left_alone(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: passed() * 500)  # it waits for minutes
    with living() as number:
        for phase in ("creating", "starting", "purging", "seeding"):
            with machines.new() as machine:
                _define(machine, phase=phase, owner=owner.of(number, "other"))
                before = machine.domains()["web1"].XMLDesc(2), machine.files()
                machine.connection.timeout = 1e6
                result = machine.call(_purge)
                assert result is not None
                assert result["failed"], phase
                assert machine.effects.done == [], phase
                assert (machine.domains()["web1"].XMLDesc(2), machine.files()) == before


def test_the_rest_of_a_dead_run_goes_and_what_came_later_stays(machines: Machines) -> None:
    dead = Owner(owner.boot_id(), 1, 1, "dead")
    with machines.new() as machine:
        _define(machine)
        kept = machine.stored("web1")
        assert kept is not None
        volumes = [dataclasses.replace(one, made=NOT_MADE) for one in kept.volumes[:1]]
        later = (*volumes, *kept.volumes[1:])
        _define(machine, phase="creating", owner=dead, volumes=later)
        result = machine.call(_purge)
        assert result is not None
        assert result.get("msg") is None
        assert machine.domains() == {}
        assert list(machine.files()) == ["web1_system.raw"]
        assert machine.files()["web1_system.raw"] == b"web1_system.raw"


def test_what_is_anothers_too_stops_all(machines: Machines) -> None:
    with machines.new() as machine:
        _define(machine)
        machine.connection.conn.defineXML(
            "<domain type='test'><name>clone</name><memory>131072</memory><os><type>hvm</type></os>"
            "<devices><disk type='file' device='disk'>"
            f"<source file='{machine.pool}/web1_data.raw'/><target dev='sda' bus='scsi'/>"
            "</disk></devices></domain>"
        )
        result = machine.call(_purge)
        assert result is not None
        assert result["failed"]
        assert "clone" in result["msg"]
        assert machine.effects.done == []
        assert machine.files().keys() == _VOLUMES.keys()
