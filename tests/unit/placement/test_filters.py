# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every filter, both ways: what it lets pass, and the reason it gives."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.decide import (
    DiskNeed,
    HostSettings,
    PlacementHost,
    Policy,
    Request,
    claim_conflicts,
    excess,
    place,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import (
    DefinedVm,
    PageFacts,
    PoolFacts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.offers import (
    Offers,
    Wants,
)

POOL = PoolFacts("default", "/var/lib/libvirt/images", 100000, 40000, 80000, 1.0)
BASE = PoolFacts("base", "/var/lib/libvirt/base", 100000, 0, 80000, 1.0)
THIN = replace(POOL, available_mib=2048 + 512, disk_ratio=4.0)
HOST = PlacementHost(
    name="hv1",
    settings=HostSettings(zone="a", tags=frozenset({"ssd", "fast"})),
    maintenance=False,
    domain_types=frozenset({"kvm", "qemu"}),
    arch="x86_64",
    memory_total_mib=24576,
    memory_reserve_mib=576,
    memory_limit_mib=24000,
    memory_promised_mib=22976,
    vcpus_total=8,
    vcpus_max=8,
    vcpus_limit=32,
    vcpus_promised=28,
    pools=(BASE, POOL),
    networks={"nat": True, "off": False},
    bridges=frozenset({"br0", "virbr0"}),
    vms=(
        DefinedVm("web1", "u1", groups=("web",)),
        DefinedVm("db1", "u2", groups=("db",), anti_affinity=("backup",)),
    ),
)
VM = Request("new", vcpus=1, memory_mib=512)


def disks(*needs: tuple[str, int] | tuple[str, int, bool]) -> dict[str, t.Any]:
    return {"disks": tuple(DiskNeed(*need) for need in needs)}


# what differs from HOST, what differs from VM, the filter that rejects, a part of its reason
REJECTED: list[tuple[dict[str, t.Any], dict[str, t.Any], str, str]] = [
    ({}, {"host": "hv2"}, "host", "hv2, which"),
    ({"maintenance": True}, {}, "maintenance", "it is in maintenance"),
    ({"maintenance": None}, {}, "maintenance", "not known"),
    (
        {},
        {"memory_mib": 4096},
        "memory",
        "needs 4096 MiB, 1024 MiB of 24000 MiB are not promised "
        "(memory 24576 MiB x 1, 576 MiB reserved)",
    ),
    ({}, {"memory_mib": 1025}, "memory", "needs 1025 MiB, 1024 MiB of 24000"),
    (
        {"memory_promised_mib": 25000},
        {},
        "memory",
        "needs 512 MiB, 1000 MiB more than the limit of 24000 MiB are promised",
    ),
    ({"memory_limit_mib": -100, "memory_promised_mib": 0}, {}, "memory", "100 MiB more"),
    ({}, {"vcpus": 5}, "vcpus", "needs 5 vCPUs, 4 vCPUs of 32 vCPUs are not promised (8 CPUs x 4)"),
    ({"vcpus_promised": 0}, {"vcpus": 9}, "vcpus", "needs 9 vCPUs, one VM can have at most 8 here"),
    ({"vcpus_max": 2}, {"vcpus": 3}, "vcpus", "one VM can have at most 2 here"),
    (
        {},
        disks(("default", 60001)),
        "storage",
        "needs 60001 MiB in pool default, 60000 MiB of 100000 MiB are not promised",
    ),
    ({}, disks(("default", 30001), ("default", 30000)), "storage", "needs 60001 MiB"),
    ({}, disks(("gold", 1)), "storage", "has no pool gold; it has base, default"),
    # one that would be made is none that it has
    ({"pools": (POOL,)}, disks(("gold", 1)), "storage", "has no pool gold; it has default"),
    (
        {"pools": (replace(POOL, problem="it is inactive"),)},
        disks(("default", 1)),
        "storage",
        "ina",
    ),
    (
        {"pools": (replace(POOL, available_mib=8191),)},
        disks(("default", 8192)),
        "storage",
        "needs 8192 MiB really free in pool default, it has 8191 MiB, of which 512 MiB must stay"
        " free",
    ),
    (
        {"pools": (replace(POOL, available_mib=8192 + 511),)},
        disks(("default", 8192, True)),
        "storage",
        "needs 8192 MiB really free",
    ),
    (  # a ratio lets thin disks promise more than there is, but a full one is written at once
        {"pools": (replace(POOL, available_mib=4096, disk_ratio=4.0),)},
        disks(("default", 8192, True)),
        "storage",
        "needs 8192 MiB really free",
    ),
    (
        {"pools": (POOL, replace(BASE, available_mib=900))},
        {"image": "abc", "image_mib": 400},
        "storage",
        "needs 400 MiB really free in pool base",
    ),
    (
        {"pools": (replace(BASE, problem="it is stale"),)},
        {"image": "abc"},
        "storage",
        "it is stale",
    ),
    ({}, {"networks": ("lan", "nat")}, "networks", "needs network lan, it has nat, off"),
    ({}, {"networks": ("off",)}, "networks", "network off is not active; start it with"),
    ({"networks": {}}, {"networks": ("nat",)}, "networks", "it has none"),
    (
        {},
        {"bridges": ("br2", "br1", "br0")},
        "bridges",
        "needs bridges br1, br2, it has br0, virbr0",
    ),
    ({"bridges": None}, {"bridges": ("br0",)}, "bridges", "which bridges it has is not known"),
    (
        {"tagging_bridges": frozenset({"virbr0"})},
        {"bridges": ("br0", "virbr0"), "tagged_bridges": ("br0", "virbr0")},
        "vlans",
        "no VLAN tag on bridge br0: on a Linux bridge it does so since version 11, if",
    ),
    (
        {"tagging_bridges": frozenset({"nat"})},  # another thing of that name
        {"networks": ("nat",), "tagged_networks": ("nat",)},
        "vlans",
        "no VLAN tag on network nat: ",
    ),
    ({"firmwares": frozenset({"bios"})}, {"firmware": "uefi"}, "firmware", "the package ovmf"),
    ({"firmwares": frozenset()}, {"firmware": "uefi"}, "firmware", "the package ovmf"),
    ({}, {"firmware": "uefi"}, "firmware", "is not known"),
    ({"arch": "aarch64"}, {}, "firmware", "is not known"),
    ({"tpms": frozenset()}, {"tpm": ""}, "tpm", "the packages swtpm and swtpm-tools"),
    ({"tpms": frozenset({"tpm-tis"})}, {"tpm": "tpm-crb"}, "tpm", "TPM tpm-crb, it has tpm-tis"),
    ({}, {"tpm": ""}, "tpm", "is not known"),
    (
        {"offers": Offers(volumes={"default": frozenset({"a"})})},
        {"wants": Wants(volumes=(("default", "a"), ("default", "b"), ("fast", "a")))},
        "disks",
        "has no volume default/b, fast/a; create it there",
    ),
    (
        {"offers": Offers(absent_files=frozenset({"/srv/a.iso", "/srv/b.iso"}))},
        {"wants": Wants(files=("/srv/a.iso", "/srv/c.iso"))},
        "disks",
        "has no file /srv/a.iso; copy it there",
    ),
    (
        {"offers": Offers(devices=frozenset())},
        {"wants": Wants(devices=("/dev/vg/a",))},
        "disks",
        "has no block device /dev/vg/a",
    ),
    ({}, {"wants": Wants(devices=("/dev/vg/a",))}, "disks", "which it has is not known"),
    (
        {"offers": Offers(interfaces=frozenset({"lo"}))},
        {"wants": Wants(interfaces=("eth1",))},
        "interfaces",
        "has no network interface eth1",
    ),
    (
        {"offers": Offers(openvswitch=frozenset({"ovs1"}))},
        {"wants": Wants(openvswitch=("ovs0",))},
        "interfaces",
        "has no Open vSwitch bridge ovs0, it has ovs1; create it there",
    ),
    (
        {"offers": Offers(portgroups={"lan": frozenset({"office", "guests"})})},
        {"wants": Wants(portgroups=(("lan", "guests"), ("lan", "dmz")))},
        "interfaces",
        "network 'lan' has no port group 'dmz', it has guests, office; add it there (virsh"
        " net-update lan add portgroup",
    ),
    (
        {"offers": Offers(portgroups={})},
        {"wants": Wants(portgroups=(("lan", "dmz"),))},
        "interfaces",
        "network 'lan' has no port group 'dmz', it has none",
    ),
    ({}, {"wants": Wants(portgroups=(("lan", "dmz"),))}, "interfaces", "is not known"),
    (
        {"offers": Offers(nwfilters=frozenset({"clean-traffic"}))},
        {"wants": Wants(nwfilters=("clean-traffic", "own"))},
        "interfaces",
        "has no network filter own; define it there (virsh nwfilter-dumpxml",
    ),
    ({}, {"wants": Wants(nwfilters=("own",))}, "interfaces", "filter own; which it has is not"),
    (
        {"pages": (PageFacts(2048, 200, 0, 62),)},
        {"wants": Wants(hugepages=((0, 64),))},
        "hugepages",
        "needs 64 MiB in huge pages of 2 MiB, 62 MiB of 200 MiB are really free; end what",
    ),
    (
        {"pages": (PageFacts(2048, 49152, 48128, 49152),)},
        {"memory_mib": 2048, "wants": Wants(hugepages=((2048, 2048),))},
        "hugepages",
        "needs 2048 MiB in huge pages of 2 MiB, 1024 MiB of 49152 MiB are not promised; reserve",
    ),
    (  # whole pages only
        {"pages": (PageFacts(2048, 9000, 0), PageFacts(1048576, 2048, 1024))},
        {"memory_mib": 1536, "wants": Wants(hugepages=((1048576, 1536),))},
        "hugepages",
        "needs 2048 MiB in huge pages of 1 GiB, 1024 MiB of 2048 MiB are not promised",
    ),
    (  # a part of its memory is ordinary
        {"pages": (PageFacts(2048, 9000, 0),)},
        {"memory_mib": 3072, "wants": Wants(hugepages=((2048, 1024),))},
        "memory",
        "needs 2048 MiB, 1024 MiB of 24000 MiB are not promised (memory 24576 MiB without 9000 MiB"
        " in huge pages x 1, 576 MiB reserved)",
    ),
    (
        {"pages": (PageFacts(2048, 200, 0), PageFacts(64, 0, 0))},
        {"wants": Wants(hugepages=((1048576, 64),))},
        "hugepages",
        "needs huge pages of 1 GiB, it has sizes 2 MiB, 64 KiB",
    ),
    ({}, {"wants": Wants(hugepages=((0, 1),))}, "hugepages", "has reserved any is not known"),
    (
        {"offers": Offers(virtiofs=False)},
        {"wants": Wants(virtiofs=True)},
        "virtiofs",
        "install the package virtiofsd",
    ),
    (
        {"offers": Offers(vsock=False)},
        {"wants": Wants(vsock=True)},
        "vsock",
        "there is no /dev/vhost-vsock; load the kernel's module there (modprobe vhost_vsock)",
    ),
    ({}, {"wants": Wants(vsock=True)}, "vsock", "is not known"),
    (
        {"offers": Offers(secure_boot=False)},
        {"wants": Wants(secure_boot=True)},
        "secure_boot",
        "needs firmware with secure boot, and libvirt finds none there; install the package ovmf",
    ),
    (
        {"offers": Offers(secrets=frozenset({"other"}))},
        {"wants": Wants(secrets=("disks of a fleet",))},
        "secrets",
        "has no secret 'disks of a fleet'; define it there",
    ),
    ({}, {"wants": Wants(secrets=("a",))}, "secrets", "which it has is not known"),
    ({}, {"wants": Wants(cell="")}, "cell", "is in no cell that has quorum there"),
    (
        {"offers": Offers(cell="b")},
        {"wants": Wants(cell="a")},
        "cell",
        "is in the cell 'b', and the VM is one of 'a'",
    ),
    ({}, {"domain_type": "xen"}, "domain_type", "needs domain type xen, it has kvm, qemu"),
    ({"domain_types": frozenset()}, {}, "domain_type", "no domain type at all"),
    ({}, {"arch": "aarch64"}, "arch", "needs architecture aarch64, it is x86_64"),
    ({}, {"zone": "b"}, "zone", "needs zone b, it is in a"),
    ({"settings": HostSettings()}, {"zone": "b"}, "zone", "it has none (virt_zone)"),
    ({}, {"tags": ("ssd", "gpu")}, "tags", "needs tag gpu, it has fast, ssd (virt_tags)"),
    ({}, {"anti_affinity": ("web",)}, "anti_affinity", "web1 of group web is on it"),
    (
        {},
        {"groups": ("backup",)},
        "anti_affinity",
        "db1 is on it and must keep away from the VM's group",
    ),
    ({}, {"name": "web1"}, "name", "a VM named web1 is already defined here (uuid u1)"),
    ({"problem": "refused", "problem_filter": "answered"}, {}, "answered", "refused"),
]

# as above, what still fits: each right at the edge, or a wish that is met
ACCEPTED: list[tuple[dict[str, t.Any], dict[str, t.Any]]] = [
    ({}, {"host": "hv1"}),
    ({}, {"memory_mib": 1024}),
    ({}, {"vcpus": 4}),
    ({"vcpus_promised": 0}, {"vcpus": 8}),
    ({}, disks(("default", 60000))),
    ({"pools": (replace(POOL, available_mib=8192 + 512),)}, disks(("default", 8192))),
    ({"pools": (replace(POOL, available_mib=8192 + 512),)}, disks(("default", 8192, True))),
    (
        {"pools": (replace(POOL, available_mib=2048 + 512, disk_ratio=4.0),)},
        disks(("default", 8192)),
    ),
    ({"pools": ()}, disks(("default", 8192))),  # makeable
    ({"pools": (replace(POOL, name="images"),)}, disks(("default", 60000))),  # same target
    ({"pools": (replace(POOL, name="images"),)}, disks(("images", 60000))),
    ({"pools": (replace(BASE, available_mib=600),)}, {"image": "a", "image_mib": 88}),
    (
        {"pools": (replace(BASE, available_mib=0),), "images": frozenset({"a"})},
        {"image": "a", "image_mib": 88},
    ),
    ({}, {"networks": ("nat",), "bridges": ("br0", "virbr0")}),
    ({"bridges": None}, {}),
    (
        {"tagging_bridges": frozenset({"br0"}), "tagging_networks": frozenset({"nat"})},
        {"tagged_bridges": ("br0",), "tagged_networks": ("nat",)},
    ),
    ({"firmwares": frozenset({"efi"})}, {"firmware": "uefi"}),
    ({"firmwares": frozenset({"efi"}), "arch": "aarch64"}, {}),
    ({"firmwares": None}, {"firmware": "bios"}),
    ({"tpms": frozenset({"tpm-tis"})}, {"tpm": ""}),
    (
        {
            "offers": Offers(
                volumes={"default": frozenset({"a"})},
                devices=frozenset({"/dev/vg/a"}),
                interfaces=frozenset({"eth1"}),
                openvswitch=frozenset({"ovs0"}),
                portgroups={"lan": frozenset({"dmz"})},
                nwfilters=frozenset({"own"}),
                virtiofs=True,
                vsock=True,
                secure_boot=True,
                secrets=frozenset({"disks of a fleet"}),
            ),
            "pages": (PageFacts(2048, 200, 100, 64), PageFacts(1048576, 0, 0, 0)),
        },
        {
            "wants": Wants(
                volumes=(("default", "a"),),
                devices=("/dev/vg/a",),
                interfaces=("eth1",),
                openvswitch=("ovs0",),
                portgroups=(("lan", "dmz"),),
                nwfilters=("own",),
                hugepages=((2048, 64),),
                virtiofs=True,
                vsock=True,
                secure_boot=True,
                secrets=("disks of a fleet",),
            )
        },
    ),
    ({"tpms": frozenset({"tpm-tis"})}, {"tpm": "tpm-tis"}),
    ({}, {"domain_type": "qemu", "arch": "x86_64"}),
    ({}, {"zone": "a", "tags": ("ssd",)}),
    ({}, {"anti_affinity": ("backup",), "groups": ("web",)}),
    ({}, {"name": "WEB1"}),
]


@pytest.mark.parametrize(("host", "vm", "name", "reason"), REJECTED)
def test_rejected(host: dict[str, t.Any], vm: dict[str, t.Any], name: str, reason: str) -> None:
    # a host that is named and absent gets an entry of its own
    placement = place([replace(HOST, **host)], [replace(VM, **vm)])[0]
    assert placement.host is None
    assert placement.ranking == ()
    if vm.get("host") == "hv2":
        assert [(entry.host, entry.filter) for entry in placement.rejected] == [
            ("hv1", "host"),
            ("hv2", "host"),
        ]
        assert placement.rejected[1].reason == "is not among the hypervisors of this run: hv1"
        return
    assert [entry.filter for entry in placement.rejected] == [name]
    assert reason in placement.rejected[0].reason


@pytest.mark.parametrize(("host", "vm"), ACCEPTED)
def test_accepted(host: dict[str, t.Any], vm: dict[str, t.Any]) -> None:
    placement = place([replace(HOST, **host)], [replace(VM, **vm)])[0]
    assert placement.host == "hv1", placement.rejected
    assert placement.rejected == ()


def test_a_pool_to_be_made_is_said_to_be() -> None:
    vm = replace(VM, **disks(("default", 8192)))
    ranked = place([replace(HOST, pools=())], [vm])[0].ranking[0]
    assert ranked.notes == (
        "pool default does not exist yet: its space is known once it is created",
    )


def test_only_pools_of_the_policy_are_made() -> None:
    vm = replace(VM, **disks(("fast", 8192)))
    bare = replace(HOST, pools=())
    assert place([bare], [vm], Policy(pool_paths={"fast": "/srv/fast"}))[0].host == "hv1"
    assert place([bare], [vm], Policy(pool_paths={}))[0].rejected[0].reason == (
        "has no pool fast; it has no pool"
    )


def test_a_pool_of_the_wanted_name_elsewhere_wins_over_the_path() -> None:
    elsewhere = replace(POOL, path="/srv/disks", limit_mib=50000)
    other = replace(POOL, name="images", limit_mib=90000)
    vm = replace(VM, **disks(("default", 20000)))
    found = place([replace(HOST, pools=(elsewhere, other))], [vm])[0]
    assert "10000 MiB of 50000 MiB" in found.rejected[0].reason


def test_a_name_counts_on_every_host() -> None:
    other = replace(HOST, name="hv2", vms=())
    placement = place([HOST, other], [replace(VM, name="web1")])[0]
    assert placement.existing == ("hv1",)
    assert [(entry.host, entry.filter) for entry in placement.rejected] == [
        ("hv1", "name"),
        ("hv2", "name"),
    ]
    assert "is already defined on hv1" in placement.rejected[1].reason


EXCESS: list[tuple[dict[str, t.Any], list[tuple[str, str]]]] = [
    ({}, []),
    ({"memory_promised_mib": 24000, "vcpus_promised": 32}, []),
    (
        {"memory_promised_mib": 24001},
        [("memory", "1 MiB more than the limit of 24000 MiB are promised")],
    ),
    ({"vcpus_promised": 33}, [("vcpus", "1 vCPUs more than the limit of 32 vCPUs are promised")]),
    (
        {"pools": (replace(POOL, promised_mib=100001),)},
        [("storage", "pool default: 1 MiB more than the limit of")],
    ),
    ({"problem": "it did not report its memory"}, [("facts", "did not report")]),
]


@pytest.mark.parametrize(("host", "expected"), EXCESS)
def test_excess(host: dict[str, t.Any], expected: list[tuple[str, str]]) -> None:
    found = excess(replace(HOST, **host), ["default"])
    assert [entry.filter for entry in found] == [name for name, _ in expected]
    for entry, (_, reason) in zip(found, expected):
        assert reason in entry.reason


@pytest.mark.parametrize(
    ("pools", "expected"),
    [((), []), (("default",), []), (("iso",), ["iso"]), (("media", "default"), ["iso"])],
)
def test_excess_counts_the_pools_of_the_claim_only(
    pools: tuple[str, ...], expected: list[str]
) -> None:
    """``media`` is what the request calls the pool that libvirt calls ``iso``."""
    full = replace(POOL, name="iso", path="/srv/iso", promised_mib=2 * 1024 * 1024)
    host = replace(HOST, pools=(BASE, POOL, full))
    found = excess(host, pools, Policy(pool_paths={"media": "/srv/iso"}))
    assert [entry.filter for entry in found] == ["storage"] * len(expected)
    assert all(f"pool {name}: " in entry.reason for name, entry in zip(expected, found))


def claimed(**changes: t.Any) -> PlacementHost:
    """HOST with the claim of VM on it, and its disk."""
    base: dict[str, t.Any] = {
        "memory_promised_mib": 23000,
        "vcpus_promised": 29,
        "pools": (BASE, replace(POOL, promised_mib=50000)),
        "vms": (*HOST.vms, DefinedVm("new", "u3", groups=("app",), anti_affinity=("app",))),
    }
    return replace(HOST, **{**base, **changes})


CLAIM = replace(VM, groups=("app",), anti_affinity=("app",), **disks(("default", 10000)))
OTHER = replace(HOST, name="hv2", vms=())
RIVAL = DefinedVm("rival", "u4", groups=("app",))
# the claimed host, another host, the filters whose conflicts are found
CONFLICTS: list[tuple[PlacementHost, PlacementHost, list[str]]] = [
    (claimed(), OTHER, []),
    (claimed(memory_promised_mib=24000, vcpus_promised=32), OTHER, []),
    (claimed(memory_promised_mib=24001), OTHER, ["memory"]),
    (claimed(vcpus_promised=33), OTHER, ["vcpus"]),
    (claimed(pools=(replace(POOL, promised_mib=100001),)), OTHER, ["storage"]),
    (claimed(maintenance=True), OTHER, ["maintenance"]),
    (claimed(vms=(*claimed().vms, RIVAL)), OTHER, ["anti_affinity"]),
    (claimed(), replace(OTHER, vms=(DefinedVm("new", "u9"),)), ["name"]),
    (claimed(), replace(OTHER, vms=(RIVAL,)), []),
    (HOST, OTHER, ["name"]),
    (claimed(pools=()), replace(OTHER, problem="silent"), []),
    (replace(claimed(), problem="gone", problem_filter="answered"), OTHER, ["answered"]),
]


@pytest.mark.parametrize(("host", "other", "expected"), CONFLICTS)
def test_claim_conflicts(host: PlacementHost, other: PlacementHost, expected: list[str]) -> None:
    found = claim_conflicts([other, host], "hv1", CLAIM)
    assert [entry.filter for entry in found] == expected
    assert all(entry.host == "hv1" for entry in found)


def test_claim_in_a_pool_that_went() -> None:
    found = claim_conflicts([claimed(pools=())], "hv1", CLAIM, Policy(pool_paths={}))
    assert found == (("hv1", "storage", "pool default no longer exists"),)
