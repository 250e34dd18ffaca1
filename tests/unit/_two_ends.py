# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VM that moves between two of libvirt's test drivers, and what both have of it."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t
from collections.abc import Iterator

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    MADE,
    Metadata,
    Move,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import CLAIM
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_settle as settle,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    read_endpoints as endpoints,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.effects_jobs import (
    MigrationJob,
    new_job,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.plan import claim_uuid
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import Destination
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines
from lxml import etree

UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
OTHER = "11111111-0c57-4f3e-9f0e-0d6d5c1f2a3b"
FILES = ("web1_system.raw", "web1_data.raw")
_DOMAIN = """
<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>131072</memory>
 <os><type>hvm</type></os><metadata>{metadata}</metadata><devices>{disks}</devices></domain>
"""
_DISK = """
<disk type='file' device='disk'><source file='{path}'/><target dev='{dev}' bus='scsi'/></disk>
"""


class BothEnds(endpoints.Endpoints):
    """Both ends, of which the other is reached without TLS, if it answers."""

    there_machine: Machine
    answers = True

    @contextlib.contextmanager
    def reconnected(self) -> Iterator[tuple[Connection | None, endpoints.DestinationView]]:
        if not self.answers:
            yield None, endpoints.DestinationView(error="no answer within 10 seconds")
            return
        remote = self.there_machine.connection
        yield remote, self.destination_view(remote)


@dataclasses.dataclass
class Fleet:
    """Two hypervisors."""

    one: Machine
    two: Machine

    def volumes(self) -> tuple[OwnVolume, ...]:
        """Where they are on the first, and under the same path on the second."""
        return tuple(
            OwnVolume("default", name, f"{self.one.pool}/{name}", name[5:9], "disk", MADE)
            for name in FILES
        )

    def define(
        self,
        machine: Machine,
        state: str,
        phase: str | None,
        was: str,
        uuid: str = UUID,
        *,
        autostart: bool = False,
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
            machine.connection.conn.createXML(xml, 0).suspend()
            return
        raw = machine.connection.conn.defineXML(xml)
        raw.setAutostart(int(autostart))
        if state != "shutoff":
            raw.create()
        if state == "paused":
            raw.suspend()

    def make_volumes(self, machine: Machine) -> None:
        pool = machine.connection.conn.storagePoolLookupByName("default")
        for name in FILES:
            pool.createXML(f"<volume><name>{name}</name><capacity>4096</capacity></volume>", 0)
            (machine.pool / name).write_bytes(name.encode())

    def claim(self) -> None:
        """What keeps the place of the VM on the second, with the volumes that were made there."""
        stored = Metadata(home="hv1", phase="incoming", volumes=self.volumes())
        self.two.connection.conn.defineXML(_xml(f"web1{CLAIM}", claim_uuid(UUID), stored, ""))

    def endpoints(
        self, connection: Connection, job: MigrationJob, *, answers: bool = True
    ) -> BothEnds:
        """Both, for a call on the first."""
        both = BothEnds(connection, "web1", "hv1", job.destination)
        both.there_machine, both.answers = self.two, answers
        return both

    def settle(self, answers: bool = True, **more: t.Any) -> tuple[MigrationJob, str | None]:
        """The job, and why it was not finished; None if it was, or if it was killed."""
        job = new_job(self.one.connection, "web1", "hv1", Destination("hv2", "192.0.2.2"))

        def work(connection: Connection) -> str | None:
            both = self.endpoints(connection, job, answers=answers)
            try:
                settle.Settler(both, job, keep_volumes=False).settle(UUID, "it broke off", None)
            except PlanRefused as error:
                return f"{type(error).__name__}: {error}"
            return None

        return job, self.one.call(work, other=self.two, **more)

    def predict_settling(self) -> t.Any:
        """What settling would do."""
        job = new_job(self.one.connection, "web1", "hv1", Destination("hv2", "192.0.2.2"))
        return self.one.call(
            lambda connection: settle.Settler(
                self.endpoints(connection, job), job, keep_volumes=False
            ).predict_settling(UUID),
            other=self.two,
        )

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


def _xml(name: str, uuid: str, stored: Metadata, disks: str) -> str:
    text = etree.tostring(metadata.to_element(stored)).decode()
    return _DOMAIN.format(name=name, uuid=uuid, metadata=text, disks=disks)


@contextlib.contextmanager
def two_ends(
    machines: Machines, here: t.Any, there: t.Any, was: str = "running"
) -> Iterator[Fleet]:
    """Two ends: states and phases of the VM, None where it is not."""
    with machines.new() as one, machines.new(one.pool) as two:
        fleet = Fleet(one, two)
        fleet.make_volumes(one)
        fleet.make_volumes(two)
        fleet.claim()
        if here is not None:
            fleet.define(one, *here, was)
        if there is not None:
            fleet.define(two, *there[:2], was, *there[2:])
        yield fleet
