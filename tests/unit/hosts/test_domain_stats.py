# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's flat statistics as records."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import domain_stats

MIB = 1024 * 1024
# What libvirt 9.0 says of a running domain: with -blockdev every disk has a backingIndex
RUNNING = {
    "state.state": 1,
    "block.count": 2,
    "block.0.name": "vda",
    "block.0.path": "/images/x.qcow2",
    "block.0.backingIndex": 3,
    "block.0.rd.reqs": 46,
    "block.0.rd.bytes": 197120,
    "block.0.allocation": 0,
    "block.0.capacity": 48 * MIB,
    "block.0.physical": 200704,
    "block.1.name": "vdb",
    "block.1.backingIndex": 1,
    "block.1.capacity": 8 * MIB,
    "block.1.physical": 8 * MIB,
    "net.count": 1,
    "net.0.name": "vnet0",
    "net.0.rx.bytes": 7942,
    "net.0.tx.drop": 1,
    "cpu.time": 5,
    "balloon.current": 96 * 1024,
    "balloon.rss": 300 * 1024 + 1,
}
WITH_BACKING = {
    **RUNNING,
    "block.count": 3,
    "block.2.name": "vda",
    "block.2.backingIndex": 4,
    "block.2.capacity": 1,
}


# What it says, on request not to wait, of one that another job has
BUSY = {key: value for key, value in RUNNING.items() if key.count(".") < 2 or "name" in key}


@pytest.mark.parametrize(
    ("values", "busy"),
    [
        (RUNNING, False),
        (BUSY, True),
        ({**BUSY, "state.state": 3}, True),
        ({**BUSY, "state.state": 5}, False),
        ({"state.state": 1, "block.count": 0}, False),
        ({}, False),
    ],
)
def test_a_domain_that_was_busy(values: dict[str, t.Any], busy: bool) -> None:
    assert domain_stats.was_busy(values) is busy


@pytest.mark.parametrize("values", [RUNNING, WITH_BACKING])
def test_sizes_of_a_running_domain(values: dict[str, t.Any]) -> None:
    assert domain_stats.disk_sizes(values, True) == {"vda": (48, 1), "vdb": (8, 8)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {}),
        ({"block.count": "many"}, {}),
        ({"block.count": 10**9}, {}),
        ({"block.count": 1, "block.0.capacity": 5}, {}),
        ({"block.count": 1, "block.0.name": "vda"}, {"vda": (None, None)}),
        (
            {"block.count": 1, "block.0.name": "vda", "block.0.capacity": -1},
            {"vda": (None, None)},
        ),
        (
            {
                "block.count": 1,
                "block.0.name": "vda",
                "block.0.capacity": 1,
                "block.0.allocation": MIB + 1,
                "block.0.physical": 9 * MIB,
            },
            {"vda": (1, 2)},
        ),
    ],
)
def test_sizes_of_one_that_is_shut_off(
    values: dict[str, t.Any], expected: dict[str, t.Any]
) -> None:
    assert domain_stats.disk_sizes(values, False) == expected


def test_counters() -> None:
    found = domain_stats.counters(RUNNING)
    assert found["cpu"] == {"time_ns": 5, "user_ns": None, "system_ns": None}
    assert found["memory"]["actual_mib"] == 96
    assert found["memory"]["rss_mib"] == 300
    assert found["memory"]["unused_mib"] is None
    (nic,) = found["nics"]
    assert (nic["target"], nic["receive_bytes"], nic["transmit_dropped"]) == ("vnet0", 7942, 1)
    assert [disk["target"] for disk in found["disks"]] == ["vda", "vdb"]
    assert found["disks"][0]["read_bytes"] == 197120
    assert found["disks"][0]["write_bytes"] is None


def test_the_same_keys_for_every_domain() -> None:
    full, empty = domain_stats.counters(RUNNING), domain_stats.counters({})
    assert set(full) == set(empty)
    assert set(full["memory"]) == set(empty["memory"])
    assert (empty["nics"], empty["disks"]) == ([], [])
