# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What speaks against a move, what becomes of each disk, and the command that moves."""

from __future__ import annotations

import dataclasses
import re
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    Move,
    Owner,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import CellView
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.leases import Holder
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.plan import (
    claim_uuid,
    command,
    destination_uri,
    downtimes,
    other_move,
    plan,
    seconds,
    without_seed_medium,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import (
    Destination,
    DestinationDomain,
    DestinationPool,
    MigrationDisk,
    MigrationOptions,
    NewVolume,
    Source,
    SourceSnapshot,
    Target,
    Volume,
)

GIB, MIB = 1024**3, 1024**2
UUID = "5a8c7ad0-3d5e-4f0e-9a39-0d5f8f8f0001"
PATH = "/pool/web1_system.qcow2"
BASE = f"/base/{'0' * 64}-tiny.qcow2"
OWN = OwnVolume("default", "web1_system.qcow2", PATH, "system", "disk")
DISK = MigrationDisk("vda", "disk", "file", PATH, "qcow2", 8 * GIB, 100 * MIB, own=OWN)
OVERLAY = dataclasses.replace(DISK, chain=((BASE, "qcow2"),))
OWNER = Owner("boot", 4711, 1, "run")
MOVE = Move("hv1", "hv2", "run", "no", "running")
SOURCE = Source(
    name="web1",
    uuid=UUID,
    host="hv1",
    state="running",
    active=True,
    persistent=True,
    autostart=False,
    metadata=Metadata(volumes=(OWN,), request="{}"),
    domain_type="kvm",
    arch="x86_64",
    machine="pc-q35-7.2",
    memory_mib=512,
    vcpus=1,
    disks=(DISK,),
    macs=("52:54:00:00:00:01",),
    bridges=("br0",),
    networks=("lan",),
    portgroups=(("lan", "guests"),),
    nwfilters=("clean-traffic",),
    host_uuid="host-1",
)
POOL = DestinationPool("images", "/pool", True, 4 * GIB)
TARGET = Target(
    destination=Destination("hv2", "192.0.2.12"),
    host_uuid="host-2",
    machines=("pc-i440fx-7.2", "pc-q35-7.1", "pc-q35-7.2"),
    domain_types=("kvm", "qemu"),
    free_mib=4096,
    pools=(POOL, DestinationPool("base", "/base", True, GIB, {BASE: Volume("b", BASE, GIB)})),
    networks=("lan",),
    bridges=("br0",),
)
CLAIM = DestinationDomain(
    "web1.migration",
    claim_uuid(UUID),
    False,
    "shutoff",
    files=frozenset([PATH]),
    metadata=Metadata(phase="creating", volumes=(OWN,), move=MOVE),
)
SNAPSHOTS = (SourceSnapshot("one", files=(PATH,)), SourceSnapshot("two", files=(PATH,)))
SOMEBODY = DestinationDomain("db1", "u2", True, "running", files=frozenset([PATH]))


MEDIUM = MigrationDisk("sda", "cdrom", "file", BASE, "raw")
OTHER = f"/base/{'2' * 64}-tools.iso.raw"
COMING = Destination("hv2", "192.0.2.12", incoming=(OTHER,))


def source(**changes: t.Any) -> Source:
    return dataclasses.replace(SOURCE, **changes)


def target(**changes: t.Any) -> Target:
    return dataclasses.replace(TARGET, **changes)


def disk(**changes: t.Any) -> Source:
    return source(disks=(dataclasses.replace(DISK, **changes),))


def with_file(*domains: DestinationDomain, backing: str | None = None) -> Target:
    """A destination that has a file where the volume is to be."""
    volumes = {PATH: Volume("web1_system.qcow2", PATH, 8 * GIB)}
    if backing:
        volumes["/pool/other.qcow2"] = Volume("other.qcow2", "/pool/other.qcow2", GIB, backing)
    return target(domains=domains, pools=(dataclasses.replace(POOL, volumes=volumes),))


def test_a_whole_disk() -> None:
    found = plan(SOURCE, TARGET, MigrationOptions())
    assert found.findings == []
    assert found.flow == "copy"
    assert found.volumes == [
        NewVolume("vda", "images", "web1_system.qcow2", PATH, "qcow2", 8 * GIB, 100 * MIB)
    ]
    assert found.bytes_to_copy == 100 * MIB
    assert found.old == [OWN]
    assert found.kept == []


def test_an_overlay_over_a_base_that_is_there() -> None:
    found = plan(source(disks=(OVERLAY,)), TARGET, MigrationOptions())
    assert (found.findings, found.flow) == ([], "overlay")
    assert found.volumes[0].backing == (BASE, "qcow2")


def test_without_disks_only_memory_travels() -> None:
    drive = MigrationDisk("sda", "cdrom", "file", None, None)
    found = plan(source(disks=(drive,)), TARGET, MigrationOptions())
    assert (found.findings, found.flow, found.volumes) == ([], "memory", [])


def test_one_that_is_shut_off() -> None:
    found = plan(source(state="shutoff", active=False), TARGET, MigrationOptions())
    assert (found.findings, found.flow, len(found.volumes)) == ([], "offline", 1)


def test_what_stays() -> None:
    found = plan(disk(own=None), TARGET, MigrationOptions())
    assert (found.old, found.kept) == ([], [f"{PATH}: not made for 'web1'"])
    found = plan(SOURCE, TARGET, MigrationOptions(keep_volumes=True))
    assert (found.old, found.kept) == ([], [f"{PATH}: asked for with keep_volumes"])


def test_b17_a_disk_that_both_have_stays_where_it_is() -> None:
    """B17: with shared storage no disk is copied, made or removed."""
    there = dataclasses.replace(with_file(), shared={PATH: ""})
    found = plan(SOURCE, there, MigrationOptions())
    assert (found.findings, found.flow, found.volumes, found.old) == ([], "shared", [], [])
    assert (found.shared, found.bytes_to_copy) == ([PATH], 0)
    argv = command(SOURCE, there, found, MigrationOptions(), "x")
    assert "--unsafe" in argv
    assert not [word for word in argv if "storage" in word or "disks" in word]
    assert "--unsafe" not in command(
        SOURCE, TARGET, plan(SOURCE, TARGET, MigrationOptions()), MigrationOptions(), "x"
    )


def test_tunnelled_needs_no_port_and_takes_no_disk() -> None:
    options = MigrationOptions(tunnelled=True)
    (finding,) = plan(SOURCE, TARGET, options).findings
    assert "tunnelled copies no disks, and vda would have to be copied" in finding
    found = plan(SOURCE, dataclasses.replace(with_file(), shared={PATH: ""}), options)
    assert found.findings == []
    argv = command(SOURCE, TARGET, found, options, "x")
    assert "--tunnelled" in argv
    assert argv[-2:] == ["--desturi", "qemu+tls://192.0.2.12/system"]
    assert not {"--tls", "--tls-destination", "--listen-address", "--migrateuri"} & set(argv)


def test_keys_that_have_expired() -> None:
    """Both ends' for memory and disks; a tunnel does not use them."""
    vm = source(expired=("/a.pem expired on 2026-01-02",))
    there = target(destination=Destination("hv2", "a", expired=("/b.pem expired on 2026-01-03",)))
    assert plan(vm, there, MigrationOptions()).findings == [
        "/a.pem expired on 2026-01-02 on hv1; renew it with ansible-playbook fleet.virt.renew_keys",
        "/b.pem expired on 2026-01-03 on hv2; renew it with ansible-playbook fleet.virt.renew_keys",
    ]
    tunnelled = plan(dataclasses.replace(vm, disks=()), there, MigrationOptions(tunnelled=True))
    assert tunnelled.findings == []


def test_keys_missing_on_either_end_are_refused_with_the_role() -> None:
    vm = source(missing_certificates=("QEMU's certificates client-key.pem are not in /a",))
    there = target(destination=Destination("hv2", "a", missing_certificates=("Q are not in /b",)))
    remedy = (
        "bring them there with ansible-playbook fleet.virt.setup_hypervisors"
        " (role fleet.virt.libvirt_keys)"
    )
    assert plan(vm, there, MigrationOptions()).findings == [
        f"QEMU's certificates client-key.pem are not in /a on hv1; {remedy}",
        f"Q are not in /b on hv2; {remedy}",
    ]
    tunnelled = plan(dataclasses.replace(vm, disks=()), there, MigrationOptions(tunnelled=True))
    assert tunnelled.findings == []


def test_parallel_connections() -> None:
    argv = command(
        SOURCE, TARGET, plan(SOURCE, TARGET, MigrationOptions()), MigrationOptions(), "x"
    )
    assert "--parallel" not in argv
    options = MigrationOptions(parallel_connections=4)
    argv = command(SOURCE, TARGET, plan(SOURCE, TARGET, options), options, "x")
    at = argv.index("--parallel")
    assert argv[at : at + 3] == ["--parallel", "--parallel-connections", "4"]


def test_one_disk_of_two_is_shared() -> None:
    own = OwnVolume("local", "web1_data.qcow2", "/local/web1_data.qcow2", "data", "disk")
    data = dataclasses.replace(DISK, target="vdb", path=own.path, own=own)
    vm = source(disks=(DISK, data), metadata=Metadata(volumes=(OWN, own), request="{}"))
    pools = (POOL, DestinationPool("local", "/local", True, 4 * GIB))
    found = plan(vm, target(pools=pools, shared={PATH: ""}), MigrationOptions())
    assert (found.findings, found.flow, found.old) == ([], "copy", [own])
    argv = command(vm, TARGET, found, MigrationOptions(), "x")
    assert argv[argv.index("--migrate-disks") + 1] == "vdb"


@pytest.mark.parametrize(
    ("host", "text"),
    [
        (
            dataclasses.replace(with_file(), shared={PATH: "another file"}),
            f"{PATH} on hv2: another file; make sure both have the same storage there",
        ),
        (
            dataclasses.replace(with_file(SOMEBODY), shared={PATH: ""}),
            f"{PATH} is used by db1 on hv2",
        ),
    ],
)
def test_a_disk_that_is_not_proven_to_be_shared(host: Target, text: str) -> None:
    assert plan(SOURCE, host, MigrationOptions()).findings == [text]


def test_what_is_not_attached() -> None:
    seed = OwnVolume("default", "web1_seed.iso", "/pool/web1_seed.iso", "seed", "seed")
    data = OwnVolume("default", "web1_data.qcow2", "/pool/web1_data.qcow2", "data", "disk")
    vm = source(metadata=Metadata(volumes=(OWN, seed, data), request="{}"))
    found = plan(vm, TARGET, MigrationOptions())
    assert found.old == [OWN, seed]
    assert found.kept == [f"{data.path}: made for it, but no longer one of its disks"]
    assert plan(vm, TARGET, MigrationOptions(keep_volumes=True)).old == []


def test_a_seed_medium_that_has_done_its_work_stands_in_nobodys_way() -> None:
    seed = OwnVolume("default", "s.iso", "/pool/s.iso", "seed", "seed")
    drive = MigrationDisk("sda", "cdrom", "file", "/pool/s.iso", "raw", own=seed)
    kept = Metadata(volumes=(OWN, seed), request="{}")
    vm = source(disks=(DISK, drive), metadata=kept)
    assert len(plan(vm, TARGET, MigrationOptions()).findings) == 1
    found = plan(without_seed_medium(vm), TARGET, MigrationOptions())
    assert (found.findings, found.old) == ([], [OWN])


def test_the_drive_that_keeps_a_purged_vm_from_starting_is_not_to_be_ejected() -> None:
    drive = MigrationDisk("sdzz", "cdrom", "file", "/pool/web1.fleet-virt-purging", "raw")
    kept = Metadata(phase="purging", volumes=(OWN,), request="{}")
    (said,) = plan(source(disks=(DISK, drive), metadata=kept), TARGET, MigrationOptions()).findings
    assert "in phase purging" in said
    assert said.endswith(
        "run it again to finish it (ansible-playbook fleet.virt.purge_vm -e vm_name=web1)"
    )


@pytest.mark.parametrize("device", ["cdrom", "floppy"])
@pytest.mark.parametrize(
    ("path", "host", "eject", "ejected"),
    [
        (BASE, TARGET, False, []),  # there already
        (OTHER, target(destination=COMING), False, []),  # or once it is brought
        ("/iso/i.iso", target(shared={"/iso/i.iso": ""}), False, []),
        (BASE, TARGET, True, ["sda"]),
        ("/iso/i.iso", TARGET, True, ["sda"]),
        (None, TARGET, True, []),
    ],
)
def test_medium_that_the_destination_has_goes_along_unless_ejected(
    device: str, path: str | None, host: Target, eject: bool, ejected: list[str]
) -> None:
    drive = dataclasses.replace(MEDIUM, device=device, path=path)
    move = plan(source(disks=(DISK, drive)), host, MigrationOptions(eject_media=eject))
    assert (move.findings, move.flow, move.shared) == ([], "copy", [])
    assert [drive.target for drive in move.ejected] == ejected
    assert [volume.target for volume in move.volumes] == ["vda"]


def test_seed_medium_of_an_unfinished_first_boot_is_not_ejected() -> None:
    seed = OwnVolume("default", "s.iso", "/pool/s.iso", "seed", "seed")
    drive = dataclasses.replace(MEDIUM, path=seed.path, own=seed)
    vm = source(disks=(DISK, drive), metadata=Metadata(volumes=(OWN, seed), request="{}"))
    move = plan(vm, TARGET, MigrationOptions(eject_media=True))
    assert "seed medium /pool/s.iso is still in the drive sda" in move.findings[0]


def test_what_an_earlier_attempt_left_is_made_anew() -> None:
    found = plan(SOURCE, with_file(CLAIM), MigrationOptions())
    assert found.findings == []
    assert found.volumes[0].again


VM_REFUSED: dict[str, tuple[Source, str]] = {
    "not ours": (source(metadata=None), "was not made by this collection"),
    "only seeded by us": (source(metadata=Metadata(seed="{}")), "was not made by this collection"),
    "in creation": (
        source(metadata=Metadata(phase="creating", request="{}")),
        "in phase creating",
    ),
    "being moved": (
        source(
            metadata=Metadata(phase="migrating", owner=OWNER, move=MOVE, request="{}"),
            holder=Holder(4711, "python3", "2026-01-02 03:04:05 UTC"),
        ),
        "is being moved by process 4711 .python3, since",
    ),
    "transient": (source(persistent=False), "is transient"),
    "paused": (source(state="paused"), "resume it .ansible-playbook fleet.virt.state"),
    "crashed": (source(state="crashed", active=False), "is crashed"),
    "saved": (source(managed_save=True), "has saved memory"),
    "snapshots": (source(snapshots=SNAPSHOTS), r"runs and has snapshots \(one, two\), and vda "),
    "job": (source(job="unbounded"), "has a job running"),
    "device": (source(hostdevs=("pci 0000:01:00.0",)), "host device pci 0000:01:00.0"),
    "block job": (disk(block_job=True), "has a block job running"),
    "medium": (
        source(disks=(MigrationDisk("sda", "cdrom", "file", "/iso/i.iso", "raw"),)),
        "the medium in the drive sda .*migrate_vm -e vm_name=web1 -e virt_eject_media=true",
    ),
    "medium that is not there": (
        source(disks=(dataclasses.replace(MEDIUM, path=f"/base/{'1' * 64}-i.iso.raw"),)),
        "base image 1+ of drive sda is not on hv2 as /base/1+-i.iso.raw; the playbooks",
    ),
    "medium under another name": (
        source(disks=(dataclasses.replace(MEDIUM, path=f"/other/{'0' * 64}-tiny.qcow2"),)),
        "is on hv2 as /base/0+-tiny.qcow2, and the drive names /other/",
    ),
    "SCSI device": (disk(device="lun", type="block", path="/dev/sdx"), "is of type block"),
    "seed": (
        source(
            disks=(
                MigrationDisk(
                    *("sda", "cdrom", "file", "/pool/s.iso", "raw"),
                    own=OwnVolume("default", "s.iso", "/pool/s.iso", "seed", "seed"),
                ),
            )
        ),
        "seed medium /pool/s.iso is still in the drive sda",
    ),
    "block device": (disk(type="block", path="/dev/sdx"), "is of type block"),
    "shareable": (disk(shareable=True), "is shareable"),
    "read-only": (disk(readonly=True), "is read-only"),
    "encrypted": (disk(encrypted=True), "is encrypted"),
    "transient disk": (
        # what libvirt makes for it while the VM runs, where blockpull is refused
        disk(transient=True, path="/pool/a.TRANSIENT-vm", chain=(("/pool/a.qcow2", "qcow2"),)),
        "remove <transient/> from it",
    ),
    "data file": (
        disk(data_file="/pool/web1.data"),
        "has its data in another file ./pool/web1.data., which would not go along; make it one",
    ),
    "other format": (disk(format="vmdk"), "is of format vmdk"),
    "base without a digest": (
        disk(chain=(("/pool/tiny.qcow2", "qcow2"),)),
        "is an overlay of /pool/tiny.qcow2, which is no base image",
    ),
    "two levels": (
        disk(chain=((BASE, "qcow2"), ("/base/below.qcow2", "qcow2"))),
        "below.qcow2, which is no base image",
    ),
    "base is not there": (
        disk(chain=((BASE.replace("0", "1"), "qcow2"),)),
        f"base image {'1' * 64} of disk vda is not on hv2",
    ),
}


@pytest.mark.parametrize(
    ("data", "stays"), [(f"{PATH}.data", True), ("/elsewhere/web1.data", False)]
)
def test_data_file_beside_a_disk_on_shared_storage_stays(data: str, stays: bool) -> None:
    there = dataclasses.replace(with_file(), shared={PATH: ""})
    found = plan(disk(data_file=data), there, MigrationOptions())
    assert bool(found.shared) is stays
    assert any("has its data in another file" in one for one in found.findings) is not stays


def test_base_image_that_is_coming_takes_space_of_its_file_system() -> None:
    """In check mode it is not there yet; the run finds less free space."""
    free = 4 * 64 * 1024**2
    pool = dataclasses.replace(POOL, available=free)
    vm = disk(allocation=free // 4)
    for needed, refused in (({POOL.path: free // 2}, False), ({POOL.path: free}, True)):
        for folders in ({}, needed):
            coming = dataclasses.replace(TARGET.destination, needed=folders)
            there = dataclasses.replace(TARGET, destination=coming, pools=(pool,))
            findings = " ".join(plan(vm, there, MigrationOptions()).findings)
            assert ("their base images 256 MiB" in findings) is (refused and bool(folders)), (
                findings
            )


def test_a_base_image_that_is_coming_counts_as_there() -> None:
    path = BASE.replace("0", "1")
    vm = disk(chain=((path, "qcow2"),))
    coming = dataclasses.replace(TARGET.destination, incoming=(path,))
    found = plan(vm, dataclasses.replace(TARGET, destination=coming), MigrationOptions())
    assert (list(found.findings), found.flow) == ([], "overlay")


@pytest.mark.parametrize(("vm", "text"), VM_REFUSED.values(), ids=VM_REFUSED.keys())
def test_vms_that_do_not_move(vm: Source, text: str) -> None:
    (finding,) = plan(vm, TARGET, MigrationOptions()).findings
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(finding)


HOST_REFUSED: dict[str, tuple[Target, str]] = {
    "the same": (target(host_uuid="host-1"), "is the hypervisor 'web1' is on"),
    "maintenance": (target(maintenance=True), "hv2 is in maintenance"),
    "no KVM": (target(domain_types=("qemu",)), "hv2 offers no kvm"),
    "machine": (
        target(machines=("pc-q35-7.1", "pc-i440fx-7.2")),
        r"machine type pc-q35-7.2 is not on hv2 \(it has pc-q35-7.1\)",
    ),
    "CPU": (target(cpu_problem="missing features: vme"), "lacks what .* missing features: vme"),
    "bridge": (target(bridges=("br1",)), "bridge br0 is not on hv2; it has: br1"),
    "bridge, as facts say": (
        target(bridges=None, destination=Destination("hv2", "a", ())),
        "bridge br0 is not on hv2; it has: none",
    ),
    "network": (target(networks=()), "network lan is not active on hv2"),
    "port group": (
        target(portgroups={"lan": ["office"]}),
        "network lan on hv2 has no port group guests, it has: office; add it there",
    ),
    "network filter": (
        target(nwfilters=("own",)),
        "hv2 has no network filter clean-traffic; define it there",
    ),
    "memory": (target(free_mib=511), "511 MiB of memory free, 'web1' needs 512"),
    "name": (
        target(domains=(DestinationDomain("web1", "other", False, "shutoff"),)),
        "hv2 already has a VM 'web1' .UUID other.",
    ),
    "uuid": (
        target(domains=(DestinationDomain("db1", UUID, False, "shutoff"),)),
        "already has a VM with this VM's UUID: 'db1'",
    ),
    "MAC": (
        target(domains=(DestinationDomain("db1", "u2", True, "running", ("52:54:00:00:00:01",)),)),
        "'db1' on hv2 has the MAC address 52:54:00:00:00:01",
    ),
    "no pool": (target(pools=()), "hv2 has no pool at /pool"),
    "pool inactive": (
        target(pools=(DestinationPool("images", "/pool", False),)),
        "images of hv2 is inactive",
    ),
    "pool not mounted": (
        target(
            pools=(
                DestinationPool(
                    "images", "/pool", False, absent="pool images is not mounted on hv2"
                ),
            )
        ),
        "pool images is not mounted on hv2",
    ),
    "no space": (
        target(pools=(dataclasses.replace(POOL, available=150 * MIB),)),
        "has 150 MiB free, the disks need 100 MiB and 64 MiB stay free",
    ),
    "a file that is in the way": (with_file(), "already exists on hv2, not from moving this VM"),
    "a file of somebody's, though a claim names it": (
        with_file(CLAIM, SOMEBODY),
        "already exists on hv2, and is used by db1",
    ),
    "a file that something lies on": (
        with_file(CLAIM, backing=PATH),
        "already exists on hv2, and is used by other.qcow2",
    ),
}


@pytest.mark.parametrize(("host", "text"), HOST_REFUSED.values(), ids=HOST_REFUSED.keys())
def test_hypervisors_that_do_not_take_it(host: Target, text: str) -> None:
    (finding,) = plan(SOURCE, host, MigrationOptions()).findings
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(finding)


def test_vm_in_huge_pages_needs_no_free_memory_beside_them() -> None:
    full = target(free_mib=500)
    part, whole = ({"size_kib": 0, "memory_mib": size} for size in (11, 512))
    paged = [dataclasses.replace(SOURCE, in_pages=(one,)) for one in (part, whole)]  # type: ignore[arg-type]
    found = [plan(one, full, MigrationOptions()).findings for one in paged]
    assert "500 MiB of memory free, 'web1' needs 501" in str(found[0])
    assert not found[1]


def test_space_may_be_left_open() -> None:
    full = target(pools=(dataclasses.replace(POOL, available=150 * MIB),))
    assert not plan(SOURCE, full, MigrationOptions(), space=False).findings


def test_a_domain_that_only_looks_like_a_claim_proves_nothing() -> None:
    for changes in (
        {"uuid": "another"},
        {"active": True},
        {"metadata": None},
        {"metadata": Metadata(volumes=(OWN,))},
    ):
        found = plan(SOURCE, with_file(dataclasses.replace(CLAIM, **changes)), MigrationOptions())
        assert len(found.findings) == 2, changes
        assert "not from moving this VM" in found.findings[0]
        assert "not from moving this VM" in found.findings[1]


def test_everything_at_once() -> None:
    vm = source(managed_save=True, snapshots=SNAPSHOTS, disks=(OVERLAY, DISK))
    found = plan(vm, target(pools=(), bridges=(), maintenance=True), MigrationOptions())
    assert len(found.findings) == 6


def test_the_command() -> None:
    found = plan(source(disks=(OVERLAY,)), TARGET, MigrationOptions())
    argv = command(SOURCE, TARGET, found, MigrationOptions(bandwidth=5), "qemu:///system")
    text = " ".join(argv)
    for part in (
        "virsh --connect qemu:///system --quiet migrate --live --p2p --persistent",
        "--undefinesource --abort-on-error",
        "--tls --tls-destination 192.0.2.12 --listen-address 192.0.2.12",
        "--copy-storage-inc --migrate-disks vda --bandwidth 5 --auto-converge",
        f"--domain {UUID} --desturi qemu+tls://192.0.2.12/system --migrateuri tcp://192.0.2.12",
    ):
        assert part in text
    named = target(destination=Destination("hv2", "hv2.lan", None, "192.0.2.12"))
    text = " ".join(command(SOURCE, named, found, MigrationOptions(), "x"))
    assert "--tls-destination hv2.lan --listen-address 192.0.2.12" in text
    assert text.endswith("--desturi qemu+tls://hv2.lan/system --migrateuri tcp://192.0.2.12")
    found = plan(SOURCE, TARGET, MigrationOptions())
    argv = command(SOURCE, TARGET, found, MigrationOptions(auto_converge=False), "qemu:///system")
    assert "--copy-storage-all" in argv
    assert "--auto-converge" not in argv
    argv = command(
        SOURCE, TARGET, plan(source(disks=()), TARGET, MigrationOptions()), MigrationOptions(), "x"
    )
    assert not [word for word in argv if "storage" in word or "disks" in word]


def test_addresses_in_uris() -> None:
    assert destination_uri("hv2") == "qemu+tls://hv2/system"
    assert destination_uri("2001:db8::2") == "qemu+tls://[2001:db8::2]/system"


def test_time_limit() -> None:
    found = plan(SOURCE, TARGET, MigrationOptions())
    assert seconds(found, 512, MigrationOptions()) == 1600
    assert seconds(found, 4096 - 100, MigrationOptions(seconds_per_gib=10)) == 40


@pytest.mark.parametrize(
    ("most", "limit", "stages"),
    [
        (320, 100.0, [(0, 10), (10, 20), (20, 40), (30, 80), (40, 160), (50, 320)]),
        (5, 10.0, [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]),
        (100, 10.0, [(0, 10), (1, 10), (2, 12), (3, 25), (4, 50), (5, 100)]),
    ],
)
def test_the_downtime_is_raised_in_stages(
    most: int, limit: float, stages: list[tuple[float, int]]
) -> None:
    assert downtimes(most, limit) == stages


@pytest.mark.parametrize(
    ("move", "alive", "words"),
    [
        (("hv1", "hv2"), True, None),
        (("hv1", "hv2"), False, None),
        (("hv1", "hv3"), True, "is being moved from hv1 to hv3 by another run, so not to hv2"),
        (("hv1", "hv3"), False, "unfinished move from hv1 to hv3.* fleet.virt.repair_vms"),
        (("hv4", "hv1"), True, "unfinished move from hv4 to hv1"),
    ],
)
def test_the_second_of_two_moves_is_told_of_the_first(
    move: tuple[str, str], alive: bool, words: str | None
) -> None:
    stored = Metadata(phase="migrating", move=Move(*move, "run", "no", "running"))
    text = other_move("web1", stored, "hv1", "hv2", lambda _owner: alive)
    assert (text is None) == (words is None)
    assert words is None or re.search(words, str(text))
    assert (
        other_move("web1", Metadata(move=stored.move), "hv1", "hv2", lambda _owner: alive) is None
    )


def test_checkpoint_is_no_obstacle_and_its_loss_is_reported() -> None:
    found = plan(source(checkpoints=("c1",)), TARGET, MigrationOptions())
    assert found.findings == []
    (told,) = found.kept
    assert told.startswith("checkpoint c1: libvirt does not move its record, so the next backup is")


_CELL = CellView(
    "a", ("hv1", "hv2", "hv3"), running=True, quorate=True, online=frozenset({"hv1", "hv2", "hv3"})
)
_SHARED = {PATH: ""}


def _cell_findings(**changes: t.Any) -> list[str]:
    shared = dataclasses.replace(with_file(), shared=_SHARED)
    cell = dataclasses.replace(_CELL, **changes)
    return plan(source(cell=cell), shared, MigrationOptions()).findings


def test_vm_of_cell_moves_to_member_that_is_online() -> None:
    assert _cell_findings() == []
    (problem,) = _cell_findings(members=("hv1", "hv3"))
    assert problem == (
        "hv2 is no member of the cell 'a', which restarts 'web1'; name one of hv3, or take the VM"
        " out of its cell first (ha: false)"
    )
    (problem,) = _cell_findings(online=frozenset({"hv1", "hv3"}))
    assert "hv2 is not online in the cell 'a'" in problem


@pytest.mark.parametrize("changes", [{"quorate": False}, {"running": False, "quorate": False}])
def test_vm_of_cell_without_quorum_does_not_move(changes: dict[str, t.Any]) -> None:
    (problem,) = _cell_findings(**changes)
    assert "which may be running it elsewhere" in problem


def test_vm_of_cell_is_never_copied() -> None:
    (problem,) = plan(source(cell=_CELL), TARGET, MigrationOptions()).findings
    assert problem.startswith("disk vda would be copied to hv2, and 'web1' is a VM of a cell (ha)")


def test_names_that_the_destination_lacks_and_what_never_moves_are_refused() -> None:
    lacks = target(lacking=("/opt/qemu of its emulator is no program there",))
    found = plan(source(immovable=("it has the shared memory 'a'",)), lacks, MigrationOptions())
    assert found.findings == [
        "'web1' cannot move: it has the shared memory 'a'",
        "hv2 lacks what 'web1' names: /opt/qemu of its emulator is no program there",
    ]
