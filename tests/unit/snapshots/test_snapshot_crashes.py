# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshots, killed or failing at each call of libvirt's, on its test driver."""

from __future__ import annotations

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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import effects as snapshot
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import external as files
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.facts import (
    SnapshotRequest,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_DOMAIN = """
<domain type='test'><name>a</name><uuid>6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b</uuid>
 <memory>65536</memory><os><type>hvm</type></os>
 <metadata>{metadata}</metadata><devices>
 <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{disk}'/>
 <target dev='vda' bus='virtio'/></disk></devices></domain>
"""
_THEIRS = "<domainsnapshot><name>theirs</name></domainsnapshot>"
_MADE = Metadata(request="{}", volumes=(OwnVolume("default", "a", "/p/a", "vda", "disk"),))


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return Machines(tmp_path, monkeypatch)


def _verb(
    wanted: SnapshotRequest, *, check: bool = False
) -> t.Callable[[Connection], dict[str, t.Any]]:
    return lambda connection: snapshot.run(connection, ["a"], wanted, check=check)


def _define(machine: Machine, *names: str, then: Metadata = _MADE) -> None:
    """The VM with ``names``, taken while its metadata was ``then``, and one of somebody's."""
    conn = machine.connection.conn

    def define(stored: Metadata) -> None:
        ours = _lxml.tostring(metadata.to_element(stored))
        conn.defineXML(_DOMAIN.format(metadata=ours, disk=machine.root / "a.qcow2"))

    define(then)
    conn.lookupByName("a").snapshotCreateXML(_THEIRS, 0)
    for name in names:
        result = machine.call(_verb(SnapshotRequest(name)))
        assert result is not None
        assert not result.get("failed"), result.get("msg")
    define(_MADE)


def _names(machine: Machine) -> list[str]:
    listed = machine.connection.conn.lookupByName("a").listAllSnapshots(0)
    return sorted(one.getName() for one in listed)


_OF_LIBVIRT = {"kind": "internal", "managed": False}
_WAYS = [
    (SnapshotRequest("c", keep=1), ["c", "theirs"], 3),
    (SnapshotRequest("theirs", "absent", children=True), [], 3),
    (SnapshotRequest("b", "absent"), ["a", "theirs"], 1),
    (SnapshotRequest("theirs", "absent"), ["a", "b"], 1),
]


@pytest.mark.parametrize("how", ["kill_at", "fail_at"])
@pytest.mark.parametrize(("wanted", "names", "count"), _WAYS)
def test_killed_or_failed_anywhere_the_next_ends_it(
    machines: Machines, wanted: SnapshotRequest, names: list[str], count: int, how: str
) -> None:
    with machines.new() as machine:
        _define(machine, "a", "b")
        asked = machine.call(_verb(wanted, check=True))
        assert machine.effects.done == []
        assert _names(machine) == ["a", "b", "theirs"]
        assert machine.call(_verb(wanted)) == asked
        assert _names(machine) == names
        assert len(machine.effects.done) == count
        again = machine.call(_verb(wanted))
        assert again is not None
        assert not again["changed"]
        assert machine.effects.done == []
    for number in range(1, count + 1):
        with machines.new() as machine:
            _define(machine, "a", "b")
            result = machine.call(_verb(wanted), **{how: number})
            assert (result is None) == (how == "kill_at")
            assert result is None or result["failed"]
            result = machine.call(_verb(wanted))
            assert result is not None
            assert not result.get("failed"), (number, result)
            assert _names(machine) == names
            assert machine.stored("a") == _MADE
            assert machine.faults() == []


# How much is done on libvirt of today; older ones are told once what the disks lie on
_ALONE = [
    (SnapshotRequest("c", disk_only=True), ["a", "b", "c"], 1),
    (SnapshotRequest("c", disk_only=True, keep=2), ["b", "c"], 3),
    (SnapshotRequest("a", "absent"), ["b"], 2),
    (SnapshotRequest("b", "absent"), ["a"], 2),
    (SnapshotRequest("a", "absent", children=True), [], 4),
]


@pytest.mark.parametrize("how", ["kill_at", "fail_at"])
@pytest.mark.parametrize(("wanted", "names", "count"), _ALONE)
def test_those_in_files_of_their_own_killed_or_failed_anywhere(
    machines: Machines, wanted: SnapshotRequest, names: list[str], count: int, how: str
) -> None:
    """What was begun to be merged is never gone back to, and what lies below is said before."""

    def begin(machine: Machine) -> None:
        conn, ours = machine.connection.conn, _lxml.tostring(metadata.to_element(_MADE))
        conn.defineXML(_DOMAIN.format(metadata=ours, disk=machine.root / "a.qcow2"))
        for name in ("a", "b"):
            result = machine.call(_verb(SnapshotRequest(name, disk_only=True)))
            assert result is not None
            assert not result.get("failed"), result.get("msg")

    with machines.new() as machine:
        begin(machine)
        asked = machine.call(_verb(wanted, check=True))
        assert machine.effects.done == []
        assert _names(machine) == ["a", "b"]
        assert machine.call(_verb(wanted)) == asked
        assert _names(machine) == names
        if count > 1 and machine.connection.conn.getLibVersion() < files.CAN_REVERT:
            count += 1
        assert len(machine.effects.done) == count, machine.effects.done
        again = machine.call(_verb(wanted))
        assert again is not None
        assert not again["changed"]
        assert machine.effects.done == []
    for number in range(1, count + 1):
        with machines.new() as machine:
            begin(machine)
            machine.call(_verb(wanted), **{how: number})
            done = " ".join(machine.effects.done[: number - 1])
            for name in ("a", "b"):
                if f"mark snapshot {name} as being merged" in done and name in _names(machine):
                    back = machine.call(_verb(SnapshotRequest(name, "reverted"), check=True))
                    assert back is not None
                    assert "no longer usable" in str(back["msg"])
            result = machine.call(_verb(wanted))
            assert result is not None
            assert not result.get("failed"), (number, result)
            assert _names(machine) == names
            assert machine.stored("a") == _MADE
            assert machine.faults() == []


def test_what_needs_a_file_beside_the_disks_is_left_alone(machines: Machines) -> None:
    """A file in the way of a new one, and files of which others have made use."""
    with machines.new() as machine:
        _define(machine)
        machine.connection.conn.lookupByName("a").snapshotLookupByName("theirs").delete(0)
        (machine.root / "a.b.qcow2").write_bytes(b"somebody's")
        result = machine.call(_verb(SnapshotRequest("b", disk_only=True)))
        assert result is not None
        assert "a.b.qcow2 already exists" in str(result["msg"])
        taken = machine.call(_verb(SnapshotRequest("c", disk_only=True)))
        assert taken is not None
        assert taken["changed"], taken
        other = _DOMAIN.replace(">a<", ">b<").replace("6f3a0d4c", "6f3a0d4d")
        machine.connection.conn.defineXML(
            other.format(metadata="", disk=machine.root / "a.c.qcow2")
        )
        result = machine.call(_verb(SnapshotRequest("c", "absent")))
        assert result is not None
        assert "needed by others: used by domain 'b'" in str(result["msg"])
        assert _names(machine) == ["c"]


def test_going_back_keeps_what_the_vm_owns(machines: Machines) -> None:
    """Killed between noting it and going back, too."""
    wanted = SnapshotRequest("a", "reverted")
    then = Metadata(request="{}", tags=("then",))
    for number in (0, 1, 2):
        with machines.new() as machine:
            _define(machine, "a", then=then)
            machine.call(_verb(wanted), kill_at=number)
            result = machine.call(_verb(wanted))
            assert result is not None
            assert result["changed"], result
            assert machine.stored("a") == Metadata(
                request="{}", tags=("then",), volumes=_MADE.volumes
            )
            assert _names(machine) == ["a", "theirs"]


def test_what_is_listed(machines: Machines) -> None:
    with machines.new() as machine:
        _define(machine, "a")
        for names in (["a", "nobody"], []):
            found = machine.call(lambda connection, names=names: snapshot.look(connection, names))
            assert found is not None
            vms = [vm for vm in t.cast("list[t.Any]", found["vms"]) if vm["name"] == "a"]
            assert [
                {key: one[key] for key in ("name", "parent", "current", "kind", "managed")}
                for one in vms[0]["snapshots"]
            ] == [
                {**_OF_LIBVIRT, "name": "theirs", "parent": None, "current": False},
                {**_OF_LIBVIRT, "name": "a", "parent": "theirs", "current": True, "managed": True},
            ]
