# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmarks run and stay within their limits."""

from __future__ import annotations

import os

from ansible_collections.fleet.virt.tests.benchmarks import (
    converging,
    inventory,
    migrate,
    query,
    reading,
)
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory


def test_query_does_twice_as_much_for_twice_as_many() -> None:
    """Counted; the time is the benchmark's, on a machine that does nothing else."""
    lab = Laboratory(f"b{os.getpid()}", os.getpid()).up(1)  # its host must have no other domains
    try:
        # how many of them run is the benchmark's; that it measures some that run is shown here
        figures = query.measure(lab, "hv1", [100, 200], running=1, rounds=1)
    finally:
        lab.down()
    assert [(one.domains, one.running) for one in figures] == [(100, 0), (200, 0), (200, 1)]
    half, whole, _ = figures
    print(query.table(figures), half, whole)
    assert half.functions > half.requests > half.raw_requests > half.domains
    assert whole.functions <= 2 * half.functions
    # one more for each domain, as in raw libvirt
    assert whole.requests - half.requests == whole.raw_requests - half.raw_requests == 100
    assert whole.requests <= 1.2 * whole.raw_requests


def test_query_limits_are_limits() -> None:
    good = query.Figures(200, 0, 0.2, 0.1, 2.0, 2.2, 2.2)
    assert query.excesses([good]) == []
    assert query.excesses([good._replace(ratio=2.01)])
    assert query.excesses([good._replace(growth=2.21, cpu_growth=2.21)])
    assert query.excesses(
        [good, good._replace(running=10, ratio=2.5, growth=None, cpu_growth=None)]
    )


def test_an_inventory_of_a_thousand_test_documents() -> None:
    """All of them, within the memory; the time is the benchmark's, on an idle machine."""
    found = inventory.documents(1000, rounds=1)
    assert found.mib <= inventory.MIB_LIMIT


def test_memory_is_of_what_is_measured_alone() -> None:
    held = b"x" * (300 << 20)
    assert inventory.run(["true"], os.environ).mib < 100 < len(held) >> 20


def test_inventory_limits_are_limits() -> None:
    good = inventory.Documents(1000, 5.0, 500, 1.0, 2.0)
    assert inventory.excesses(good) == []
    assert inventory.excesses(good._replace(seconds=5.01))
    assert inventory.excesses(good._replace(mib=501))


def test_reading_limits_are_limits() -> None:
    lab = {"two over TLS": 0.71, "ping": 0.6, "one connection": 0.6, "many connections": 0.89}
    good = {"documents": {"list": 1.24, "query": 9.0, "empty": 0.5}, "lab": lab}
    assert reading.excesses(good) == []
    assert reading.excesses({**good, "documents": {"list": 1.26, "empty": 0.5}})
    assert reading.excesses({**good, "lab": {**lab, "two over TLS": 0.73}})
    assert reading.excesses({**good, "lab": {**lab, "many connections": 0.91}})


def test_converging_limits_are_limits() -> None:
    seconds = {"unchanged": 1.5, "query": 1.0, "two tasks": 1.0, "change": 2.0}
    good = {name: converging.Time(wall, 0.5) for name, wall in seconds.items()}
    assert converging.excesses(good) == []
    assert converging.excesses({**good, "unchanged": converging.Time(1.51, 0.5)})
    assert converging.excesses({**good, "change": converging.Time(2.01, 0.5)})


def test_migrate_limits_are_limits() -> None:
    good = migrate.Figures(5.0, 4.0, 5000, 5000)
    overlay = good._replace(sent=1000)
    assert migrate.excesses(good, good, overlay, 20.0, 10.0) == []
    slow = good._replace(ours=5.01)
    assert migrate.excesses(slow, good, overlay, 20.0, 10.0)
    assert migrate.excesses(good, slow, overlay, 20.0, 10.0)
    assert migrate.excesses(good, good, slow._replace(sent=1000), 20.0, 10.0)
    assert migrate.excesses(good, good, overlay._replace(sent=1001), 20.0, 10.0)
    assert migrate.excesses(good, good, overlay, 19.9, 10.0)
