# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VMs move with their snapshots, and what is said of those that do not."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import records
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.plan import (
    command,
    plan,
    without_seed_medium,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import (
    Destination,
    DestinationPool,
    MigrationDisk,
    MigrationOptions,
    Source,
    SourceSnapshot,
    Target,
    Volume,
)

GIB, MIB = 1024**3, 1024**2
LOCAL, SHARED, LOWER = "/pool/web1.qcow2", "/nfs/web1.one.qcow2", "/nfs/web1.qcow2"
MEDIUM, SEED = "/base/tools.iso", "/pool/web1_seed.iso"
OWN = OwnVolume("default", "web1.qcow2", LOCAL, "system", "disk")
ON_LOCAL = MigrationDisk("vda", "disk", "file", LOCAL, "qcow2", 8 * GIB, 9 * MIB, own=OWN)
ON_SHARED = MigrationDisk(
    "vdb", "disk", "file", SHARED, "qcow2", 8 * GIB, 9 * MIB, chain=((LOWER, "qcow2"),)
)
INTERNAL = SourceSnapshot("one", machines=("pc-q35-7.2",), files=(LOCAL,))
EXTERNAL = SourceSnapshot("two", external=True, files=(LOWER, SHARED))
REMOVAL = (
    "(ansible-playbook fleet.virt.snapshot -e vm_name=web1 -e virt_snapshot=NAME"
    " -e virt_snapshot_state=absent)"
)
TARGET = Target(
    destination=Destination("hv2", "192.0.2.12"),
    host_uuid="host-2",
    machines=("pc-q35-7.2",),
    domain_types=("kvm",),
    pools=(
        DestinationPool("images", "/pool", True, 4 * GIB),
        DestinationPool(
            "nfs", "/nfs", True, GIB, {path: Volume(path, path, GIB) for path in (SHARED, LOWER)}
        ),
    ),
    shared={SHARED: "", LOWER: ""},
)


def vm(state: str, *disks: MigrationDisk, **more: t.Any) -> Source:
    return Source(
        *("web1", "5a8c7ad0-3d5e-4f0e-9a39-0d5f8f8f0001", "hv1", state, state == "running"),
        *(True, False, Metadata(volumes=(OWN,), request="{}"), "kvm", "x86_64", "pc-q35-7.2"),
        *(512, 1),
        **{"host_uuid": "host-1", "disks": disks, **more},
    )


def findings(source: Source, target: Target = TARGET) -> list[str]:
    return plan(source, target, MigrationOptions()).findings


def test_vm_off_with_internal_snapshots_copies_its_files() -> None:
    source = vm("shutoff", ON_LOCAL, snapshots=(INTERNAL,))
    found = plan(source, TARGET, MigrationOptions())
    assert (found.findings, found.flow) == ([], "offline")
    assert [volume.whole for volume in found.volumes] == [True]
    argv = command(source, TARGET, found, MigrationOptions(), "qemu:///system")
    text = " ".join(argv)
    assert "--offline --p2p --persistent --undefinesource --tls --tls-destination " in text
    assert "copy-storage" not in text


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_vm_on_shared_storage_takes_every_kind_of_snapshot(state: str) -> None:
    inside = dataclasses.replace(INTERNAL, files=(SHARED,))
    source = vm(state, ON_SHARED, snapshots=(inside, EXTERNAL))
    found = plan(source, TARGET, MigrationOptions())
    assert (found.findings, found.volumes, found.shared) == ([], [], [SHARED])
    assert not found.whole


def test_vm_without_snapshots_is_not_copied_as_files() -> None:
    found = plan(vm("shutoff", ON_LOCAL), TARGET, MigrationOptions())
    assert [volume.whole for volume in found.volumes] == [False]


_OFF = "(ansible-playbook fleet.virt.state -e vm_name=web1 -e vm_state=shutoff)"
REFUSED: dict[str, tuple[Source, str]] = {
    "local and running": (
        vm("running", ON_LOCAL, snapshots=(INTERNAL,)),
        "'web1' runs and has snapshots (one), and vda would be copied from hypervisor to hypervisor"
        f" without what is in them; shut it off first {_OFF}, or delete them {REMOVAL}",
    ),
    "local and external": (
        vm(
            "shutoff",
            dataclasses.replace(ON_LOCAL, chain=(("/pool/web1.base", "qcow2"),)),
            snapshots=(
                INTERNAL,
                dataclasses.replace(EXTERNAL, files=("/pool/web1.base", LOCAL)),
            ),
        ),
        "'web1' has external snapshots (two), and vda would be copied from hypervisor to"
        f" hypervisor, without the files of these; delete them first {REMOVAL}",
    ),
    "variables of the firmware": (
        vm("shutoff", ON_LOCAL, snapshots=(INTERNAL,), state_files=True),
        "'web1' has snapshots, so its files are copied while it is off, and libvirt copies UEFI"
        " variables and the state of a TPM only while it runs; delete the snapshots " + REMOVAL,
    ),
    "a machine type that is not there": (
        vm(
            "shutoff",
            ON_LOCAL,
            snapshots=(dataclasses.replace(INTERNAL, machines=("pc-q35-10.0",)),),
        ),
        "snapshot one of 'web1' has the machine type pc-q35-10.0, which is not on hv2; delete it "
        + REMOVAL,
    ),
    "a disk that was detached": (
        vm(
            "shutoff",
            ON_LOCAL,
            snapshots=(dataclasses.replace(INTERNAL, files=(LOCAL, "/pool/old.qcow2")),),
        ),
        "snapshot one of 'web1' needs /pool/old.qcow2: no disk of 'web1', and not on storage that"
        f" hv2 shares; delete the snapshot {REMOVAL}",
    ),
    "a medium that is not there": (
        vm("shutoff", ON_LOCAL, snapshots=(dataclasses.replace(INTERNAL, media=(MEDIUM,)),)),
        f"snapshot one of 'web1' has {MEDIUM} in a drive, which is not on hv2; delete the snapshot"
        f" {REMOVAL}",
    ),
    "records that are too large": (
        vm("shutoff", ON_LOCAL, snapshots=(INTERNAL,), record_bytes=70000),
        "the records of the snapshots of 'web1' take 70000 bytes, and a move keeps 61440 at most;"
        f" delete some {REMOVAL}",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_snapshots_that_cannot_move_are_refused_with_the_remedy(why: str) -> None:
    source, text = REFUSED[why]
    assert findings(source) == [text]


def test_file_below_a_shared_disk_that_is_not_shared_is_refused() -> None:
    target = dataclasses.replace(TARGET, shared={SHARED: "", LOWER: "another file there"})
    texts = findings(vm("running", ON_SHARED, snapshots=(EXTERNAL,)), target)
    assert any(f"needs {LOWER}: another file there" in text for text in texts), texts
    assert any(text.startswith(f"{LOWER} on hv2: another file there") for text in texts), texts


def test_seed_medium_that_the_move_removes_is_no_obstacle() -> None:
    seed = OwnVolume("default", "web1_seed.iso", SEED, "seed", "seed")
    source = vm("shutoff", ON_LOCAL, snapshots=(dataclasses.replace(INTERNAL, media=(SEED,)),))
    source = dataclasses.replace(source, metadata=Metadata(volumes=(OWN, seed), request="{}"))
    assert len(findings(source)) == 1
    assert findings(without_seed_medium(source)) == []


def test_records_come_back_as_they_were_packed() -> None:
    kept = records.Records("run", "b", (records.SnapshotRecord("a", "<x passwd='s3cret'/>"),))
    assert records.unpack(records.pack(kept)) == kept
    assert "s3cret" not in repr(kept)
    assert records.unpack(b"anything else") is None


def test_older_libvirt_gets_no_watchdog_that_it_does_not_know() -> None:
    xml = (
        "<domainsnapshot><domain><uuid>u</uuid><devices><watchdog model='itco'/>"
        "<watchdog model='i6300esb'/></devices></domain></domainsnapshot>"
    )
    assert "itco" in records.understood(xml, 11003000)
    old = records.understood(xml, 9000000, "claim")
    assert "itco" not in old
    assert "i6300esb" in old
    assert "<uuid>claim</uuid>" in old
