# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reason for a placement names what made the difference, with both figures."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.decide import (
    DiskNeed,
    PlacementHost,
    place,
)

from .test_decide import host, vm

_QEMU = {"domain_types": frozenset({"qemu"})}
REASONS: list[tuple[list[PlacementHost], dict[str, t.Any], str]] = [
    (
        [host("hv1", memory=2000), host("hv2", memory=3000)],
        {"memory": 600},
        "most free memory: 74 % after it, hv2 64 %",
    ),
    (
        [host("hv1", cpus=60), host("hv2", cpus=10)],
        {"vcpus": 30},
        "most free CPUs: 60 % after it, hv1 10 %",
    ),
    (
        [host("hv1", disk=50000), host("hv2", disk=10000)],
        {"disks": (DiskNeed("default", 40000, False),)},
        "most free disk space: 50 % after it, hv1 10 %",
    ),
    ([host("hv1", **_QEMU), host("hv2")], {}, "has KVM, hv1 has not"),
    ([host("hv1"), host("hv2")], {}, "as good as hv2, and first by name"),
    ([host("hv1"), host("hv2")], {"host": "hv2"}, "the request names it"),
    ([host("hv1", maintenance=True), host("hv2")], {}, "no other can take it"),
    ([host("hv1")], {}, "the only hypervisor"),
    ([host("hv1", maintenance=True)], {}, ""),
]


@pytest.mark.parametrize(("hosts", "request_options", "reason"), REASONS)
def test_placement_names_what_made_the_difference(
    hosts: list[PlacementHost], request_options: dict[str, t.Any], reason: str
) -> None:
    (placed,) = place(hosts, [vm(**request_options)])
    assert placed.why == reason
