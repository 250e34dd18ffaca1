# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of VMs whose CPU other hypervisors lack."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import unlike
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import (
    PlacementHost,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.offers import (
    HostCpu,
    Offers,
    offers_from,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.types import Placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import many


def host(name: str, features: str, **more: t.Any) -> PlacementHost:
    cpu = HostCpu(more.pop("vendor", "AMD"), frozenset(features))
    values = {"domain_types": frozenset({"kvm", "qemu"}), "arch": "x86_64", **more}
    return PlacementHost(name, offers=Offers(cpu=cpu), **values)


def found(
    *hosts: PlacementHost, fleet_cpu: bool = False, existing: bool = False, **vm: t.Any
) -> str:
    domains, problems = many([{"name": "web1", **vm}])
    assert not problems
    there = ("hv1",) if existing else ()
    placed = Placement("web1", None if existing else "hv1", (), (), there)
    return unlike.find(domains, [placed], hosts, fleet_cpu=fleet_cpu).get("web1", "")


ALIKE = host("hv1", "abcdef"), host("hv2", "abcdefg")
UNLIKE = host("hv1", "abcdefg"), host("hv2", "ab")
EMULATED = {"domain_types": frozenset({"qemu"})}


def test_hypervisors_that_lack_features_are_named() -> None:
    text = found(*UNLIKE, host("hv3", "abcdef"), host("hv4", "abcdefgh"))
    assert "its CPU is that of hv1" in text
    assert "could not move to hv2 (lacks c, d, e and 2 more), hv3 (lacks g);" in text
    assert "set virt_cpu to the line that ansible-playbook fleet.virt.preflight prints" in text


def test_hypervisor_of_another_vendor_is_named() -> None:
    text = found(host("hv1", "a"), host("hv2", "ab", vendor="Intel"))
    assert "hv2 (its CPU is of Intel, not AMD)" in text


@pytest.mark.parametrize(
    ("hosts", "vm"),
    [
        (ALIKE, {}),
        (UNLIKE, {"fleet_cpu": True}),
        (UNLIKE, {"existing": True}),
        (UNLIKE, {"cpu": "EPYC"}),
        (UNLIKE, {"cpu": "host-passthrough"}),
        (UNLIKE, {"domain_type": "qemu", "cpu": "host-model"}),
        (UNLIKE, {"cpu": {"mode": "host-model", "disable": list("cdefg")}}),
        ((host("hv1", "abc", **EMULATED), host("hv2", "a", **EMULATED)), {}),
        ((host("hv1", "abc"), host("hv2", "a", **EMULATED)), {}),
        ((host("hv1", "abc"), host("hv2", "a", arch="aarch64")), {}),
        ((host("hv1", "abc"), PlacementHost("hv2", arch="x86_64")), {}),
    ],
)
def test_vm_that_can_move_or_of_which_nothing_is_known_has_no_remark(
    hosts: tuple[PlacementHost, ...], vm: dict[str, t.Any]
) -> None:
    assert not found(*hosts, **vm)


def test_vm_that_names_the_mode_is_compared_even_with_a_cpu_of_the_fleet() -> None:
    assert "hv2" in found(*UNLIKE, cpu="host-model", fleet_cpu=True)
    emulated = host("hv1", "abc", **EMULATED), host("hv2", "a", **EMULATED)
    assert "hv2 (lacks b, c)" in found(*emulated, cpu="host-model")


def test_feature_that_the_vm_requires_is_missed_too() -> None:
    cpu = {"mode": "host-model", "require": ["extra"]}
    assert "hv2 (lacks extra)" in found(*ALIKE, cpu=cpu)


def test_remark_of_many_vms_is_reported_once() -> None:
    assert unlike.told({"a": "x", "b": "y", "c": "x"}) == ["a, c: x", "b: y"]
    many_vms = {f"vm{number}": "x" for number in range(9)}
    assert unlike.told(many_vms) == ["vm0, vm1, vm2, vm3, vm4 and 4 more: x"]


@pytest.mark.parametrize("value", [None, [], {}, {"features": None}, {"features": []}])
def test_cpu_that_was_not_reported_is_unknown(value: object) -> None:
    assert offers_from({"cpu": value}).cpu is None


def test_cpu_that_was_reported_is_read() -> None:
    entry = {"cpu": {"vendor": "AMD", "features": ["a", "b"]}}
    assert offers_from(entry).cpu == HostCpu("AMD", frozenset("ab"))
