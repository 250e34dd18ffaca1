# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is not started on a hypervisor that rolling work may reboot, on libvirt's test driver."""

from __future__ import annotations

import contextlib
import functools
import typing as t
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_caller as caller
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_host, read_rolling
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import (
    MAINTENANCE_VOLUME,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling import read as rolling
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import (
    effects as snapshots,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.plan import (
    SnapshotRequest,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import effects as state
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import effects as verify

_BEGUN = f"rolling.begun.{'0' * 16}.7"
_PASSED = f"rolling.passed.{'0' * 16}.8"
_POOL = "<pool type='dir'><name>fleet-notes</name><target><path>{}</path></target></pool>"
_NO = "'test' is not started on hv1: rolling works on this hypervisor"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """libvirt's test driver with an empty pool of notes, and its domain ``test``, which is off."""
    caller.set_host("hv1")
    with connect("test:///default", 5) as opened, contextlib.ExitStack() as stack:
        stack.callback(caller.set_host, "")
        pool = opened.conn.storagePoolDefineXML(_POOL.format(tmp_path), 0)
        stack.callback(pool.undefine)
        pool.create(0)
        stack.callback(pool.destroy)
        opened.conn.lookupByName("test").destroy()
        yield opened
        dom = opened.conn.lookupByName("test")
        for snapshot in dom.listAllSnapshots(0):
            snapshot.delete(0)
        if not dom.isActive():
            dom.create()


def _mark(connection: Connection, *names: str) -> None:
    pool = connection.conn.storagePoolLookupByName("fleet-notes")
    for name in names:
        pool.createXML(f"<volume><name>{name}</name><capacity>0</capacity></volume>", 0)


def _bring(connection: Connection, *, check: bool = False, **wanted: t.Any) -> dict[str, t.Any]:
    result = state.run(connection, ["test"], StateRequest(**wanted), check=check)
    vm: dict[str, t.Any] = t.cast("t.Any", result)["vms"][0]
    return vm


@pytest.mark.parametrize(
    ("marks", "refused"),
    [
        ((), False),
        ((MAINTENANCE_VOLUME,), False),
        ((_BEGUN,), False),
        ((_PASSED, MAINTENANCE_VOLUME), False),
        ((_BEGUN, MAINTENANCE_VOLUME), True),
        ((_BEGUN, _PASSED, MAINTENANCE_VOLUME), True),
    ],
)
def test_start_is_refused_only_with_both_marks(
    connection: Connection, marks: tuple[str, ...], refused: bool
) -> None:
    _mark(connection, *marks)
    predicted = _bring(connection, state="running", check=True)
    real = _bring(connection, state="running")
    assert real == predicted
    assert real["failed"] is refused
    dom = connection.conn.lookupByName("test")
    assert bool(dom.isActive()) is not refused
    if refused:
        assert str(real["msg"]).startswith(_NO)
        assert "ansible-playbook fleet.virt.return_vms -e virt_host=hv1" in real["msg"]
        assert "-e vm_force=true" in real["msg"]


@pytest.mark.parametrize("wanted", [{"reboot": True}, {"state": "running"}])
def test_operation_that_starts_is_refused(connection: Connection, wanted: dict[str, t.Any]) -> None:
    _mark(connection, _BEGUN, MAINTENANCE_VOLUME)
    operations = ("reboot",) if wanted.pop("reboot", False) else ()
    assert _bring(connection, operations=operations, **wanted)["failed"]
    assert not connection.conn.lookupByName("test").isActive()


def test_what_runs_is_resumed_and_shut_down(connection: Connection) -> None:
    dom = connection.conn.lookupByName("test")
    dom.create()
    dom.suspend()
    _mark(connection, _BEGUN, MAINTENANCE_VOLUME)
    assert _bring(connection, state="running")["state"] == "running"
    assert _bring(connection, state="shutoff")["state"] == "shutoff"


@pytest.mark.parametrize("by_option", [True, False])
def test_force_starts_all_the_same(connection: Connection, by_option: bool) -> None:
    _mark(connection, _BEGUN, MAINTENANCE_VOLUME)
    caller.set_forced(not by_option)
    try:
        assert not _bring(connection, state="running", force=by_option)["failed"]
    finally:
        caller.set_forced(False)
    assert connection.conn.lookupByName("test").isActive()


def test_mark_that_comes_after_the_plan_stops_the_start(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round of the start order may last minutes, and so may the making of disks."""
    carry_out = state._carry_out

    def marked(*given: t.Any) -> None:
        _mark(connection, _BEGUN, MAINTENANCE_VOLUME)
        carry_out(*given)

    monkeypatch.setattr(state, "_carry_out", marked)
    vm = _bring(connection, state="running")
    assert vm["failed"]
    assert _NO in vm["msg"]
    assert not connection.conn.lookupByName("test").isActive()


def test_mark_in_pool_that_does_not_run_counts_where_its_folder_is_seen(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (_BEGUN, MAINTENANCE_VOLUME):
        (tmp_path / name).touch()
    pool = connection.conn.storagePoolLookupByName("fleet-notes")
    pool.destroy()
    try:
        monkeypatch.setattr(Connection, "local", property(lambda _this: True))
        with pytest.raises(PlanRefused, match="rolling works on this hypervisor"):
            read_rolling.require_startable(connection, "test")
    finally:
        pool.create(0)


@pytest.mark.parametrize("runs_now", [True, False])
def test_revert_that_starts_is_refused(connection: Connection, runs_now: bool) -> None:
    dom = connection.conn.lookupByName("test")
    dom.create()
    request = functools.partial(snapshots.run, connection, ["test"])
    dom.snapshotCreateXML("<domainsnapshot><name>a</name></domainsnapshot>", 0)
    if not runs_now:
        dom.destroy()
    _mark(connection, _BEGUN, MAINTENANCE_VOLUME)
    for check in (True, False):
        result: t.Any = request(SnapshotRequest("a", "reverted"), check=check)
        assert bool(result.get("failed")) is not runs_now, result
        if not runs_now:
            assert _NO in str(result["vms"][0]["msg"])
    assert bool(dom.isActive()) is runs_now


def test_proof_asks_again_when_its_turn_comes(connection: Connection) -> None:
    _mark(connection, MAINTENANCE_VOLUME, _BEGUN)
    wanted = SimpleNamespace(unbootable="", proof="0" * 8)
    with pytest.raises(PlanRefused, match="rolling works on this hypervisor"):
        verify._prove(t.cast("t.Any", SimpleNamespace(connection=connection, wanted=wanted)))


def test_maintenance_lasts_in_a_pool_of_notes_that_somebody_stopped(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (MAINTENANCE_VOLUME, _BEGUN):
        (tmp_path / name).touch()
    pool = connection.conn.storagePoolLookupByName("fleet-notes")
    pool.destroy()
    try:
        assert read_host.is_marked(connection, "fleet-notes") is False, "another machine's folder"
        monkeypatch.setattr(Connection, "local", True)
        assert read_host.is_marked(connection, "fleet-notes") is True
        assert rolling.volumes(connection) == [_BEGUN]
        (tmp_path / MAINTENANCE_VOLUME).unlink()
        assert read_host.is_marked(connection, "fleet-notes") is False
    finally:
        pool.create(0)
