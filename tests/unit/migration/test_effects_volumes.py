# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which volumes of a move that is undone are removed, on two of libvirt's test drivers."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import struct
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _libvirt
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_definitions as domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    BEGUN,
    MADE,
    NOT_MADE,
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import CLAIM
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_settle as settle,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_volumes as volumes,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.plan import claim_uuid
from ansible_collections.fleet.virt.tests.unit._crash import Machines
from ansible_collections.fleet.virt.tests.unit._two_ends import FILES, UUID, Fleet, two_ends

_SYSTEM, _DATA = FILES
_DOMAIN = """
<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>131072</memory>
 <os><type>hvm</type></os><devices>{disks}</devices></domain>
"""
_DISK = """
<disk type='file' device='disk'><source file='{}'/><target dev='sda' bus='scsi'/></disk>
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """A move that broke off, and both of whose volumes were made on the destination."""
    monkeypatch.setattr(settle, "_SETTLE", 0.05)
    monkeypatch.setattr(settle, "_POLL", 0.01)
    monkeypatch.setattr(settle.migration_job, "clear", lambda _uuid: None)
    with two_ends(Machines(tmp_path, monkeypatch), ("running", "migrating"), None) as found:
        yield found


def _other(fleet: Fleet, path: str) -> t.Any:
    """A VM on the destination that uses the file."""
    text = _DOMAIN.format(name="other", uuid=claim_uuid(claim_uuid(UUID)), disks=_DISK.format(path))
    return fleet.two.connection.conn.defineXML(text)


def _stays(fleet: Fleet, why: str, name: str = _SYSTEM) -> None:
    """The move is undone, and of its volumes that one stays, and is named."""
    job, told = fleet.settle()
    assert job.kept == [f"{fleet.one.pool}/{name} on hv2: {why}"]
    assert f"keeps running on hv1; not removed: {job.kept[0]}. Fix the cause" in str(told)
    assert sorted(fleet.two.files()) == [name]
    assert f"web1{CLAIM}" not in fleet.two.domains()


def _noted(fleet: Fleet, made: str, volume_format: str | None = None) -> None:
    """The claim notes this of its first volume."""
    connection = fleet.two.connection
    dom = lookup.find_domain(connection, f"web1{CLAIM}")
    assert dom is not None
    stored = lookup.read_metadata(connection, dom)
    assert stored is not None
    first, *others = stored.volumes
    own = (dataclasses.replace(first, made=made), *others)
    disk = {"name": first.target, "size": 1, "format": volume_format}
    request = json.dumps({"disks": [disk]}) if volume_format else None
    noted = dataclasses.replace(stored, volumes=own, request=request)
    lookup.write_metadata(connection, dom, noted, lookup.AFFECT_CONFIG)


def test_both_are_removed(fleet: Fleet) -> None:
    job, told = fleet.settle()
    assert (job.kept, fleet.two.files()) == ([], {})
    assert "and hv2 was cleaned up" in str(told)


def test_one_that_a_vm_uses(fleet: Fleet) -> None:
    _other(fleet, f"{fleet.one.pool}/{_SYSTEM}")
    _stays(fleet, "used by domain 'other'")


def test_one_that_a_snapshot_of_a_vm_uses(fleet: Fleet) -> None:
    other = _other(fleet, f"{fleet.one.pool}/{_SYSTEM}")
    other.snapshotCreateXML("<domainsnapshot><name>first</name></domainsnapshot>", 0)
    _other(fleet, "/elsewhere")
    _stays(fleet, "used by snapshot first of domain 'other'")


def test_one_that_an_image_is_based_on(fleet: Fleet) -> None:
    pool = fleet.two.connection.conn.storagePoolLookupByName("default")
    below = f"<path>{fleet.one.pool}/{_SYSTEM}</path><format type='raw'/>"
    pool.createXML(
        "<volume><name>theirs.raw</name><capacity>4096</capacity>"
        f"<backingStore>{below}</backingStore></volume>",
        0,
    )
    _stays(fleet, f"backs {fleet.one.pool}/theirs.raw")


def test_one_that_was_not_created(fleet: Fleet) -> None:
    _noted(fleet, NOT_MADE)
    why = "it appeared after the name was claimed and before the volume was created"
    _stays(fleet, why)


def test_one_whose_lock_cannot_be_asked_for(fleet: Fleet) -> None:
    """The test driver resizes nothing; QEMU's own lock is tested in the laboratory."""
    pool = fleet.two.connection.conn.storagePoolLookupByName("default")
    pool.storageVolLookupByName(_SYSTEM).delete(0)
    pool.createXML(
        f"<volume><name>{_SYSTEM}</name><capacity>4096</capacity>"
        "<target><format type='qcow2'/></target></volume>",
        0,
    )
    _noted(fleet, MADE, "qcow2")
    job, _told = fleet.settle()
    (kept,) = job.kept
    assert f"{_SYSTEM} on hv2: whether it is in use cannot be determined (" in kept
    assert sorted(fleet.two.files()) == [_SYSTEM]


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """This machine, the destination of a move whose source is lost."""
    monkeypatch.setattr(Connection, "local", True)
    # the test driver knows no NVRAM and no checkpoints
    monkeypatch.setattr(domains, "_UNDEFINE", 1 | 2)
    monkeypatch.setattr(_libvirt, "DOMAIN_UNDEFINE_NVRAM", 0)
    (tmp_path / "pool").mkdir()
    node = tmp_path / "node.xml"
    node.write_text(
        "<node><pool type='dir'><name>default</name>"
        f"<target><path>{tmp_path}/pool</path></target></pool></node>"
    )
    with connect(f"test://{node}", 10) as connection:
        yield connection


@pytest.mark.parametrize("locked", [True, False])
def test_one_on_this_machine_that_a_program_has_locked(
    local: Connection, tmp_path: Path, locked: bool
) -> None:
    file = tmp_path / "pool" / "web1_system.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", file, "1M"], check=True)
    pool = local.conn.storagePoolLookupByName("default")
    pool.createXML(f"<volume><name>{file.name}</name><capacity>4096</capacity></volume>", 0)
    own = OwnVolume("default", file.name, str(file), "vda", "disk", BEGUN)
    local.conn.defineXML(_DOMAIN.format(name=f"web1{CLAIM}", uuid=claim_uuid(UUID), disks=""))
    dom = lookup.find_domain(local, f"web1{CLAIM}")
    assert dom is not None
    stored = Metadata(phase="creating", volumes=(own,))
    lookup.write_metadata(local, dom, stored, lookup.AFFECT_CONFIG)
    with file.open("r+b") as opened:
        if locked:
            lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 100, 1, 0)
            fcntl.fcntl(opened, fcntl.F_OFD_SETLK, lock)
        stay = volumes.drop_claim(local, "web1", UUID, volumes=True)
    removed = "libvirt has removed it, but it still exists"  # the test driver touches no file
    assert [one.reason for one in stay] == [
        f"in use (locked) by a program; see fuser -v {file}" if locked else removed
    ]
    assert (file.name in pool.listVolumes()) is locked
    assert lookup.find_domain(local, f"web1{CLAIM}") is None
