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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import marks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import read_host

_OTHER = "aaaaaaaa-0000-4000-8000-000000000001"


@pytest.fixture
def connection() -> Iterator[Connection]:
    """libvirt's test driver as everybody has it."""
    with connect("test:///default", 5) as opened:
        yield opened


def mark(connection: Connection, wanted: bool, *, check: bool = False) -> dict[str, t.Any]:
    result = maintenance.mark(connection, wanted, "marks", "/default-pool", check=check, noted=True)
    assert "machine" in result  # the test driver has none
    del result["machine"]
    assert isinstance(result.pop("at"), int)
    return result


_LINE = "volume fleet-notes/fleet-virt.maintenance\n"
_PATH = "/var/lib/libvirt/fleet-notes"


def is_marked(connection: Connection) -> bool | None:
    return read_host(connection, "marks", "/default-pool")["maintenance"]


def test_set_and_taken_away_in_the_pool_of_notes(connection: Connection) -> None:
    predicted = mark(connection, True, check=True)
    assert predicted["diff"] == {"before": "", "after": f"pool fleet-notes at {_PATH}\n{_LINE}"}
    xml = f"<pool type='dir'><name>fleet-notes</name><target><path>{_PATH}</path></target></pool>"
    pool = connection.conn.storagePoolDefineXML(xml, 0)
    assert is_marked(connection) is False, "a kill left it inactive"
    pool.create()  # which the test driver does not build
    diff = {"before": "", "after": _LINE}
    set_result = {"changed": True, "maintenance": True, "diff": diff}
    try:
        assert mark(connection, True, check=True) == set_result
        assert is_marked(connection) is False
        assert mark(connection, True) == set_result
        assert is_marked(connection) is True
        assert mark(connection, True) == {"changed": False, "maintenance": True}
        assert mark(connection, False, check=True)["changed"] is True
        assert mark(connection, False)["diff"] == {"before": _LINE, "after": ""}
        assert mark(connection, False) == {"changed": False, "maintenance": False}
        assert is_marked(connection) is False
    finally:
        pool.destroy()
        pool.undefine()


def test_mark_of_earlier_version_counts_and_is_taken_away(connection: Connection) -> None:
    """The test driver's pool default-pool has that folder, under another name."""
    pool = connection.conn.storagePoolLookupByName("default-pool")
    name = "fleet-virt.maintenance"
    pool.createXML(f"<volume><name>{name}</name><capacity>0</capacity></volume>", 0)
    assert is_marked(connection) is True
    assert mark(connection, True) == {"changed": False, "maintenance": True}
    diff = {"before": "volume default-pool/fleet-virt.maintenance\n", "after": ""}
    assert mark(connection, False) == {"changed": True, "maintenance": False, "diff": diff}
    assert is_marked(connection) is False


def test_missing_base_pool_is_no_mark(connection: Connection) -> None:
    assert maintenance.mark(connection, False, "marks", "/marks", check=False)["changed"] is False


def test_an_inactive_pool_is_refused(connection: Connection) -> None:
    pool = connection.conn.storagePoolLookupByName("default-pool")
    pool.destroy()
    try:
        with pytest.raises(PlanRefused, match="virsh pool-start default-pool"):
            mark(connection, True)
    finally:
        pool.create()


def test_mark_of_another_is_noted_with_the_time_since_when_it_is(connection: Connection) -> None:
    xml = f"<pool type='dir'><name>fleet-notes</name><target><path>{_PATH}</path></target></pool>"
    pool = connection.conn.storagePoolDefineXML(xml, 0)
    pool.create()

    def noted(at: int, *, present: bool = True, check: bool = False) -> list[str]:
        answer: t.Any = {"hv1": {"machine": _OTHER, "at": at, "maintenance": present}}
        names = marks.volumes(answer, "hv2")
        assert marks.volumes(answer, "hv1") == []
        assert maintenance.note(connection, names, check=check) == {"changed": False}
        return sorted(volume.name() for volume in pool.listAllVolumes())

    try:
        assert noted(5, check=True) == []
        assert noted(5) == noted(6) == [f"maintenance.{_OTHER}.5.present.hv1"]
        assert noted(7, present=False) == [f"maintenance.{_OTHER}.7.absent.hv1"]
        assert noted(6) == [f"maintenance.{_OTHER}.7.absent.hv1"]
        assert noted(8) == [f"maintenance.{_OTHER}.8.present.hv1"]
    finally:
        for volume in pool.listAllVolumes():
            volume.delete(0)
        pool.destroy()
        pool.undefine()
