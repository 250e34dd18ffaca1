# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a specification asks of a hypervisor."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.facts import ImageFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import demand
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import (
    Defaults,
    from_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import Digest

_MIB = 1024 * 1024
_IMAGE = ImageFacts("small.img", Digest("ab" * 32), "raw", 64 * _MIB)


def _domain(**options: t.Any) -> Domain:
    domain, problems = from_options({"name": "web1", "seed": False, **options})
    assert not problems, problems
    assert domain is not None
    return domain


def test_b04_a_disk_smaller_than_its_image_is_refused_with_both_sizes() -> None:
    domain = _domain(image="small.img", disks=[{"name": "system", "size": 16}])
    _, problems = demand.disk_sizes(domain, {"small.img": _IMAGE}, "vms[3]")
    assert [problem.path for problem in problems] == ["vms[3].disks[0].size"]
    assert "16 MiB" in problems[0].message
    assert "64 MiB" in problems[0].message


def test_b04_a_larger_disk_has_the_size_that_was_asked_for() -> None:
    domain = _domain(image="small.img", disks=[{"name": "system", "size": 128}])
    sizes, problems = demand.disk_sizes(domain, {"small.img": _IMAGE})
    assert (sizes, problems) == ({"system": 128 * _MIB}, [])


def test_unwritten_size_is_a_minimum() -> None:
    large = dataclasses.replace(_IMAGE, virtual_bytes=10240 * _MIB)
    profiles = {"small": [{"system": {"size": 100}}]}
    for options, size in (({}, 10240), ({"image": None}, 8192), ({"disks": []}, 10240)):
        domain = _domain(**{"image": "small.img", **options})
        sizes, problems = demand.disk_sizes(domain, {"small.img": large})
        assert (sizes, problems) == ({"system": size * _MIB}, [])
        assert demand.request_of(domain, {"small.img": large}).disks[0].size_mib == size
    for named, refused in (({"disk_profile": "small"}, 1), ({}, 0)):
        domain, mistakes = from_options(
            {"name": "web1", "seed": False, "image": "small.img", **named},
            defaults=Defaults(disk_profiles=profiles),
        )
        assert domain is not None, mistakes
        assert len(demand.disk_sizes(domain, {"small.img": large})[1]) == refused


def test_a_disk_without_size_has_its_images() -> None:
    domain = _domain(disk_profile="none", disks=[{"name": "system", "image": "small.img"}])
    sizes, problems = demand.disk_sizes(domain, {"small.img": _IMAGE})
    assert (sizes, problems) == ({"system": 64 * _MIB}, [])


def test_a_cd_is_an_iso_image_and_takes_no_space_in_the_pool_of_disks() -> None:
    domain = _domain(disks=[{"name": "cd", "device": "cdrom", "image": "small.img"}])
    sizes, problems = demand.disk_sizes(domain, {"small.img": _IMAGE})
    assert (sizes, problems) == ({"system": 8192 * _MIB}, [])
    request = demand.request_of(domain, {"small.img": _IMAGE})
    assert [need.size_mib for need in request.disks] == [8192]
    assert (request.image, request.image_mib) == ("ab" * 32, 64)
    packed = dataclasses.replace(_IMAGE, format="qcow2")
    _, problems = demand.disk_sizes(domain, {"small.img": packed}, "vms[3]")
    assert [problem.path for problem in problems] == ["vms[3].disks[1].image"]
    assert "'small.img' is qcow2, and a CD is an ISO image" in problems[0].message


def test_a_request_counts_what_is_promised() -> None:
    domain = _domain(
        image="small.img",
        vcpus=3,
        memory=512,
        memory_max=2048,
        overlay=False,
        groups=["web"],
        anti_affinity=["web"],
        nics=[
            {"name": "eth0", "bridge": "br7"},
            {"name": "eth1", "network": "inner"},
            {"name": "eth2", "bridge": "br8", "vlan": 5},
            {"name": "eth3", "network": "ovs", "vlan": 5},
        ],
        firmware="uefi",
        tpm="tpm-tis",
    )
    request = demand.request_of(domain, {"small.img": _IMAGE})
    assert (request.vcpus, request.memory_mib) == (3, 2048)
    assert [tuple(disk) for disk in request.disks] == [("default", 8192, True)]
    assert (request.bridges, request.networks) == (("br7", "br8"), ("inner", "ovs"))
    assert (request.tagged_bridges, request.tagged_networks) == (("br8",), ("ovs",))
    assert request.firmware == "uefi"
    assert request.tpm == "tpm-tis"
    assert (request.groups, request.anti_affinity) == (("web",), ("web",))
    assert (request.image, request.image_mib) == ("ab" * 32, 64)


def test_images_of_hypervisors_are_demanded_of_every_disk() -> None:
    """Also those of CDs; images of the controller and downloads can be brought anywhere."""
    cd = {"name": "cd", "device": "cdrom", "image": "/srv/cd.iso"}
    more = {"name": "more", "image": "iso/tools.iso", "device": "cdrom"}
    own = {"name": "own", "image": "small.img", "device": "cdrom"}
    domain = _domain(image="/srv/a.qcow2", disks=[{"name": "system"}, cd, more, own])
    wants = demand.request_of(domain, {"small.img": _IMAGE}).wants
    assert set(wants.files) == {"/srv/a.qcow2", "/srv/cd.iso"}
    assert wants.volumes == (("iso", "tools.iso"),)


def test_image_that_the_run_brings_is_demanded_of_no_hypervisor() -> None:
    """A clone's images were made on one hypervisor, and others get them from it."""
    domain = _domain(image="base/small.qcow2")
    assert demand.request_of(domain, {}).wants.volumes == (("base", "small.qcow2"),)
    assert demand.request_of(domain, {"base/small.qcow2": _IMAGE}).wants.volumes == ()


_VSOCK = "<domain><devices><vsock model='virtio'><cid auto='yes'/></vsock></devices></domain>"


def test_network_filters_of_all_nics_are_demanded_once() -> None:
    nics = [{"name": f"eth{number}", "network": "lan", "filter": "own"} for number in range(2)]
    domain = _domain(nics=[*nics, {"name": "eth2", "network": "lan"}])
    assert demand.request_of(domain, {}).wants.nwfilters == ("own",)


def test_vsock_of_a_vm_that_starts_is_demanded() -> None:
    assert demand.request_of(_domain(xml=_VSOCK), {}).wants.vsock is True
    assert demand.request_of(_domain(xml=_VSOCK, start=False), {}).wants.vsock is False
    assert demand.request_of(_domain(), {}).wants.vsock is False


def test_vsock_that_a_copy_gets_of_its_source_is_demanded() -> None:
    assert demand.request_of(_domain(), {}, _VSOCK).wants.vsock is True


def test_vm_of_cell_demands_cell() -> None:
    assert demand.request_of(_domain(ha=True), {}).wants.cell == ""
    assert demand.request_of(_domain(), {}).wants.cell is None
