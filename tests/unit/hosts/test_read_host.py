# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a host and many hosts: libvirt's test driver answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import HostUnreachable
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_deadline import (
    Failed,
    Ok,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_fleet as fleet
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_fleet import Target
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import read_host


@pytest.fixture
def connection() -> Iterator[Connection]:
    """libvirt's test driver as everybody has it."""
    with connect("test:///default", 5) as opened:
        yield opened


def test_the_test_driver(connection: Connection) -> None:
    """Its node is fixed: 16 CPUs in two cells, 3 GiB, one running domain, one pool."""
    host = read_host(connection, "base")
    assert host["name"]
    assert host["uri"] == "test:///default"
    assert host["arch"] == "i686"
    assert host["domain_types"] == ["test"]
    assert host["cpu"] == {
        "model": "i686",
        "sockets": 2,
        "cores": 8,
        "threads": 1,
        "total": 16,
        "running": 2,
        "defined": 2,
    }
    # what is free it counts in KiB where bytes are documented: told as unknown
    none = {"total": 0, "running": 0, "defined": 0}
    assert host["memory_mib"] == {
        **{"total": 3072, "free": None, "running": 8192, "defined": 8192},
        "hugepages": [{"size_kib": 2048, **none}, {"size_kib": 1048576, **none}],
    }
    assert [cell["id"] for cell in host["numa"]] == [0, 1]
    assert [cell["free_mib"] for cell in host["numa"]] == [None, None]
    assert [(pool["name"], pool["state"]) for pool in host["pools"]] == [
        ("default-pool", "running")
    ]
    assert [(one["name"], one["active"]) for one in host["networks"]] == [("default", True)]
    assert host["domains"]["running"] == sum(host["domains"].values()) == 1
    assert host["maintenance"] is False
    assert host["errors"] == []


def test_the_mark_and_an_inactive_pool(connection: Connection) -> None:
    conn = connection.conn
    pool = conn.storagePoolDefineXML(
        "<pool type='dir'><name>base</name><target><path>/base</path></target></pool>", 0
    )
    try:
        assert read_host(connection, "base")["maintenance"] is None  # it cannot be read
        states = {one["name"]: one["state"] for one in read_host(connection, "base")["pools"]}
        assert states == {"base": "inactive", "default-pool": "running"}
        pool.create()
        assert read_host(connection, "base")["maintenance"] is False
        mark = "<volume><name>fleet-virt.maintenance</name><capacity>0</capacity></volume>"
        pool.createXML(mark, 0)
        assert read_host(connection, "base")["maintenance"] is True
        assert read_host(connection, "other")["maintenance"] is False
        assert read_host(connection, "other", "/base")["maintenance"] is True
    finally:
        if pool.isActive():
            pool.destroy()
        pool.undefine()


def test_a_fleet_with_dead_ones(tmp_path: Path) -> None:
    """Outcomes in the order of the targets; two that hang cost their time together."""
    script = tmp_path / "mute"
    script.write_text("#!/bin/sh\nexec sleep 5\n")
    script.chmod(0o700)
    mute = f"qemu+ext:///system?command={script}"
    targets = [
        Target("hv1", "test:///default"),
        Target("hv2", mute),
        Target("hv3", "qemu+tcp://127.0.0.1:1/system"),
        Target("hv4", mute),
        Target("hv5", "test:///default"),
    ]
    started = time.monotonic()
    outcomes = fleet.read_fleet(targets, DomainQuery(), call_timeout=1, host_timeout=2)
    assert time.monotonic() - started < 4
    assert [type(outcome) for outcome in outcomes] == [Ok, Failed, Failed, Failed, Ok]
    for number in (0, 4):
        outcome = outcomes[number]
        assert isinstance(outcome, Ok)
        assert [one["name"] for one in outcome.value] == ["test"]
    errors = [outcome.error for outcome in outcomes if isinstance(outcome, Failed)]
    assert all(isinstance(error, HostUnreachable) for error in errors)
    assert "no answer within 1 seconds" in str(errors[0])


_IN_PAGES = """<domain type='test'><name>{name}</name><memory unit='GiB'>{memory}</memory>
<memoryBacking><hugepages>{pages}</hugepages></memoryBacking><os><type>hvm</type></os></domain>"""


def test_vms_in_huge_pages_take_no_ordinary_memory(connection: Connection) -> None:
    running = connection.conn.createXML(_IN_PAGES.format(name="a", memory=3, pages=""), 0)
    page = "<page size='1' unit='GiB'/>"
    off = connection.conn.defineXML(_IN_PAGES.format(name="b", memory=5, pages=page))
    try:
        memory = read_host(connection, "base")["memory_mib"]
    finally:
        running.destroy()
        off.undefine()
    assert (memory["running"], memory["defined"]) == (8192, 8192)
    assert memory["hugepages"] == [
        {"size_kib": 2048, "total": 0, "running": 3072, "defined": 3072},
        {"size_kib": 1048576, "total": 0, "running": 0, "defined": 5120},
    ]
