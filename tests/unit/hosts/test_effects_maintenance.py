# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The maintenance mark, on libvirt's test driver."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    effects_maintenance as maintenance,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import read_host


@pytest.fixture
def connection() -> Iterator[Connection]:
    """libvirt's test driver as everybody has it."""
    with connect("test:///default", 5) as opened:
        yield opened


def mark(connection: Connection, wanted: bool, *, check: bool = False) -> dict[str, t.Any]:
    return maintenance.mark(connection, wanted, "marks", "/default-pool", check=check)


def test_set_and_taken_away_by_the_folder_of_the_pool(connection: Connection) -> None:
    """The test driver's pool default-pool has that folder, under another name."""
    line = "volume default-pool/fleet-virt.maintenance\n"
    set_result = {
        "changed": True,
        "maintenance": True,
        "diff": {"before": "", "after": line},
    }
    assert mark(connection, True, check=True) == set_result
    assert read_host(connection, "marks", "/default-pool")["maintenance"] is False
    assert mark(connection, True) == set_result
    assert read_host(connection, "marks", "/default-pool")["maintenance"] is True
    assert mark(connection, True) == {"changed": False, "maintenance": True}
    assert mark(connection, False, check=True)["changed"] is True
    assert mark(connection, False)["diff"] == {"before": line, "after": ""}
    assert mark(connection, False) == {"changed": False, "maintenance": False}
    assert read_host(connection, "marks", "/default-pool")["maintenance"] is False


def test_a_pool_that_is_not_there_is_part_of_what_is_predicted(connection: Connection) -> None:
    answer = maintenance.mark(connection, True, "marks", "/marks/", check=True)
    assert answer["diff"]["after"] == (
        "pool marks at /marks\nvolume marks/fleet-virt.maintenance\n"
    )
    assert maintenance.mark(connection, False, "marks", "/marks", check=False)["changed"] is False


def test_an_inactive_pool_is_refused(connection: Connection) -> None:
    pool = connection.conn.storagePoolLookupByName("default-pool")
    pool.destroy()
    try:
        with pytest.raises(PlanRefused, match="virsh pool-start default-pool"):
            mark(connection, True)
    finally:
        pool.create()
