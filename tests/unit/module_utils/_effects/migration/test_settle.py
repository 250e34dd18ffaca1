# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a move that broke off leads to, by what both ends have; on two of libvirt's test drivers."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import Connection
from ansible_collections.fleet.virt.plugins.module_utils._effects.migration import ends, settle
from ansible_collections.fleet.virt.plugins.module_utils._effects.migration.jobs import Job
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._pure.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._pure.base.metadata import (
    MADE,
    Metadata,
    Move,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.base.names import CLAIM
from ansible_collections.fleet.virt.plugins.module_utils._pure.migration.plan import claim_uuid
from ansible_collections.fleet.virt.plugins.module_utils._pure.migration.types import Destination
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines
from lxml import etree

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_OTHER = "11111111-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_FILES = ("web1_system.raw", "web1_data.raw")
_DOMAIN = """
<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>131072</memory>
 <os><type>hvm</type></os><metadata>{metadata}</metadata><devices>{disks}</devices></domain>
"""
_DISK = """
<disk type='file' device='disk'><source file='{path}'/><target dev='{dev}' bus='scsi'/></disk>
"""


class _Ends(ends.Ends):
    """Both ends, of which the other is reached without TLS, if it answers."""

    there_machine: Machine
    answers = True

    @contextlib.contextmanager
    def again(self) -> Iterator[tuple[Connection | None, ends.There]]:
        if not self.answers:
            yield None, ends.There(error="no answer within 10 seconds")
            return
        remote = self.there_machine.connection
        yield remote, self.there(remote)


@dataclasses.dataclass
class Fleet:
    """Two hypervisors."""

    one: Machine
    two: Machine

    def volumes(self) -> tuple[OwnVolume, ...]:
        """Where they are on the first, and under the same path on the second."""
        return tuple(
            OwnVolume("default", name, f"{self.one.pool}/{name}", name[5:9], "disk", MADE)
            for name in _FILES
        )

    def define(
        self, machine: Machine, state: str, phase: str | None, was: str, uuid: str = _UUID
    ) -> None:
        """The VM as one end has it: shutoff, running, paused or coming."""
        move = Move("hv1", "hv2", "run", "no", was) if phase else None
        kept = Metadata(home="hv1", phase=phase, move=move, volumes=self.volumes(), request="{}")
        disks = "".join(
            _DISK.format(path=one.path, dev=f"sd{letter}")
            for one, letter in zip(kept.volumes, "abc")
        )
        xml = _xml("web1", uuid, kept, disks)
        if state == "coming":
            machine.connection.raw.createXML(xml, 0).suspend()
            return
        raw = machine.connection.raw.defineXML(xml)
        if state != "shutoff":
            raw.create()
        if state == "paused":
            raw.suspend()

    def make_volumes(self, machine: Machine) -> None:
        pool = machine.connection.raw.storagePoolLookupByName("default")
        for name in _FILES:
            pool.createXML(f"<volume><name>{name}</name><capacity>4096</capacity></volume>", 0)
            (machine.pool / name).write_bytes(name.encode())

    def claim(self) -> None:
        """What keeps the place of the VM on the second, with the volumes that were made there."""
        kept = Metadata(home="hv1", phase="incoming", volumes=self.volumes())
        self.two.connection.raw.defineXML(_xml(f"web1{CLAIM}", claim_uuid(_UUID), kept, ""))

    def settle(self, answers: bool = True, **more: t.Any) -> tuple[Job, str | None]:
        """The job, and why it was not finished; None if it was, or if it was killed."""
        job = Job("web1", Destination("hv2", "192.0.2.2"))

        def work(connection: Connection) -> str | None:
            both = _Ends(connection, "web1", "hv1", job.destination)
            both.there_machine, both.answers = self.two, answers
            try:
                settle.Settler(both, job, keep_volumes=False).settle(_UUID, "it broke off", None)
            except PlanRefused as error:
                return f"{type(error).__name__}: {error}"
            return None

        return job, self.one.call(work, other=self.two, **more)

    def seen(self) -> dict[str, t.Any]:
        """What both have: states and phases of domains, and files."""
        found: dict[str, t.Any] = {}
        for name, machine in (("hv1", self.one), ("hv2", self.two)):
            for domain, raw in machine.domains().items():
                kept = machine.stored(domain)
                phase = kept.phase if kept else None
                found[f"{domain} on {name}"] = (int(raw.state(0)[0]), phase)
            found[f"files on {name}"] = sorted(machine.files())
            assert sorted(machine.files()) == sorted(machine.volumes())
        return found


def _xml(name: str, uuid: str, kept: Metadata, disks: str) -> str:
    text = etree.tostring(metadata.to_element(kept)).decode()
    return _DOMAIN.format(name=name, uuid=uuid, metadata=text, disks=disks)


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr(settle, "_SETTLE", 0.05)
    monkeypatch.setattr(settle, "_POLL", 0.01)
    monkeypatch.setattr(settle.migration_job, "clear", lambda _uuid: None)
    return Machines(tmp_path, monkeypatch)


@contextlib.contextmanager
def _fleet(machines: Machines, here: t.Any, there: t.Any, was: str = "running") -> Iterator[Fleet]:
    """Two ends: states and phases of the VM, None where it is not."""
    with machines.new() as one, machines.new() as two:
        fleet = Fleet(one, two)
        fleet.make_volumes(one)
        fleet.make_volumes(two)
        fleet.claim()
        if here is not None:
            fleet.define(one, *here, was)
        if there is not None:
            fleet.define(two, *there[:2], was, *there[2:])
        yield fleet


_RUNNING, _PAUSED, _OFF = 1, 3, 5
_M = "migrating"
_HERE = {"files on hv1": sorted(_FILES), "files on hv2": []}
_THERE = {"files on hv1": [], "files on hv2": sorted(_FILES)}
# what this end has, what the other has, what the VM was; what is said, and what both have then
_DECIDED: dict[str, tuple[t.Any, t.Any, str, str | None, dict[str, t.Any]]] = {
    "it runs here": (
        ("running", _M), None, "running", "keeps running",
        {"web1 on hv1": (_RUNNING, None), **_HERE},
    ),
    "it was stopped for the last of its memory": (
        ("paused", _M), None, "running", "keeps running",
        {"web1 on hv1": (_RUNNING, None), **_HERE},
    ),
    "it was started for the move only": (
        ("paused", _M), None, "shutoff", "remains shut off",
        {"web1 on hv1": (_OFF, None), **_HERE},
    ),
    "its hypervisor went down": (
        ("shutoff", _M), None, "running", "ran before and is shut off now",
        {"web1 on hv1": (_OFF, None), **_HERE},
    ),
    "it was shut off": (
        ("shutoff", _M), None, "shutoff", "remains shut off",
        {"web1 on hv1": (_OFF, None), **_HERE},
    ),
    "QEMU waits there for what does not come": (
        ("running", _M), ("coming", _M), "running", "keeps running",
        {"web1 on hv1": (_RUNNING, None), **_HERE},
    ),
    "it has arrived": (
        None, ("running", _M), "running", None,
        {"web1 on hv2": (_RUNNING, None), **_THERE},
    ),
    "it has arrived and its definition is here still": (
        ("shutoff", _M), ("running", _M), "running", None,
        {"web1 on hv2": (_RUNNING, None), **_THERE},
    ),
    "it has arrived, started for the move only": (
        None, ("paused", _M), "shutoff", None,
        {"web1 on hv2": (_OFF, None), **_THERE},
    ),
    "it has arrived and does not run": (
        None, ("shutoff", _M), "running", None,
        {"web1 on hv2": (_OFF, None), "files on hv1": sorted(_FILES),
         "files on hv2": sorted(_FILES)},
    ),
}  # fmt: skip
_UNDECIDED: dict[str, tuple[t.Any, t.Any, bool, str]] = {
    "it runs on both": (("running", _M), ("running", _M), True, "cannot be told"),
    "it is on neither": (None, None, True, "cannot be told"),
    "it is here and the other is silent": (("running", _M), None, False, "does not answer"),
    "it is not here and the other is silent": (None, ("running", _M), False, "cannot be told"),
    "it is there without the marks": (None, ("running", None), True, "cannot be told"),
    "another of its name is there": (
        ("running", _M), ("running", _M, _OTHER), True, "cannot be told",
    ),
    "another of its name is there, and it is gone here": (
        None, ("running", _M, _OTHER), True, "cannot be told",
    ),
    "it is there, and is somebody's here": (
        ("shutoff", None), ("running", _M), True, "a VM exists once",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _DECIDED)
def test_where_both_ends_tell(machines: Machines, name: str) -> None:
    here, there, was, says, wanted = _DECIDED[name]
    with _fleet(machines, here, there, was) as fleet:
        job, told = fleet.settle()
        assert fleet.seen() == wanted
        assert job.changed is (says is None)
        if says is None:
            assert told is None
        else:
            assert str(told).startswith("Undone: ")
            assert says in str(told)


def test_what_waits_there_and_goes_just_when_it_is_stopped_is_no_obstacle(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As QEMU does whose connection was cut: the move is undone, as if it had not waited."""
    stop = _Ends.stop

    def gone(self: _Ends, connection: Connection, raw: t.Any) -> None:
        raw.destroy()
        stop(self, connection, raw)

    monkeypatch.setattr(_Ends, "stop", gone)
    with _fleet(machines, ("running", _M), ("coming", _M)) as fleet:
        _job, told = fleet.settle()
        assert fleet.seen() == {"web1 on hv1": (_RUNNING, None), **_HERE}
        assert str(told).startswith("Undone: it broke off; 'web1' keeps running on hv1")


@pytest.mark.parametrize("name", _UNDECIDED)
def test_where_they_do_not_nothing_is_done(machines: Machines, name: str) -> None:
    here, there, answers, says = _UNDECIDED[name]
    with _fleet(machines, here, there) as fleet:
        before = fleet.seen()
        job, told = fleet.settle(answers)
        assert says in str(told)
        assert str(told).startswith("PlanRefused: ")
        assert fleet.seen() == before
        assert fleet.one.effects.done == []
        assert not job.changed


@pytest.mark.parametrize("name", _DECIDED)
def test_settling_may_be_killed_and_is_done_again(machines: Machines, name: str) -> None:
    here, there, was, _says, wanted = _DECIDED[name]
    with _fleet(machines, here, there, was) as fleet:
        fleet.settle()
        steps = fleet.one.effects.done
    assert len(steps) >= 3
    for number in range(1, len(steps) + 1):
        with _fleet(machines, here, there, was) as fleet:
            fleet.settle(kill_at=number)
            where = f"killed before {fleet.one.effects.done[-1]!r} ({number})"
            fleet.settle()
            assert fleet.seen() == wanted, where
            faults = [one for one in fleet.one.faults() if "belongs to no VM" not in one]
            assert faults == [], where
