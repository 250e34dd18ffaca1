# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stages of rolling work on libvirt's test driver: marks are set, kept and removed.

A trial VM is started in the laboratory, since the driver has no flag that ends it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    LibvirtFailure,
    PlanRefused,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import CellView
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import (
    MAINTENANCE_VOLUME,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.rolling_marks import (
    RollingMark,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import effects as notes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling import effects
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling.options import RollingWork

_PATH = "/var/lib/libvirt/fleet-notes"
_POOL = f"<pool type='dir'><name>fleet-notes</name><target><path>{_PATH}</path></target></pool>"
_OWN, _OTHER = "0" * 16, "1" * 16


@pytest.fixture
def connection() -> Iterator[Connection]:
    """libvirt's test driver with a pool of notes, and its domain ``test``, which runs."""
    with connect("test:///default", 5) as opened:
        pool = opened.conn.storagePoolDefineXML(_POOL, 0)
        pool.create(0)
        try:
            yield opened
        finally:
            pool.destroy()
            pool.undefine()


def _stage(connection: Connection, stage: str, *, check: bool = False) -> t.Mapping[str, t.Any]:
    return effects.stage(connection, RollingWork(stage=stage, digest=_OWN), check=check)


def _marks(connection: Connection) -> list[str]:
    marks: list[str] = _stage(connection, "look")["marks"]
    return [mark.rpartition(".")[0] for mark in marks]


def test_domain_that_runs_keeps_the_tasks_away(connection: Connection) -> None:
    looked = _stage(connection, "look")
    assert looked["running"] == ["test"]
    assert looked["reboot"] is None, "libvirt is not on this machine"
    with pytest.raises(PlanRefused, match=r"^test still runs there, so nothing is done there"):
        _stage(connection, "begin")
    assert _marks(connection) == []


def test_marks_of_a_turn_are_set_once_and_removed(connection: Connection) -> None:
    connection.conn.lookupByName("test").destroy()
    notes.keep(connection, RollingMark("passed", _OTHER, 5).volume)
    assert _stage(connection, "claim", check=True)["changed"] is True
    assert _marks(connection) == [f"rolling.passed.{_OTHER}"]
    assert _stage(connection, "claim")["changed"] is True
    assert _marks(connection) == [f"rolling.begun.{_OWN}"], "other tasks are begun"
    assert _stage(connection, "claim")["changed"] is False
    assert _stage(connection, "begin")["ready"] is True
    with pytest.raises(LibvirtFailure, match="start a trial VM"):
        _stage(connection, "check")
    assert _marks(connection) == [f"rolling.begun.{_OWN}"], "what is not well has not passed"

    notes.keep(connection, RollingMark("passed", _OWN, 6).volume)
    assert _stage(connection, "finish", check=True) == {"changed": True, "finished": True}
    assert _stage(connection, "finish") == {"changed": True, "finished": True}
    assert _marks(connection) == [f"rolling.passed.{_OWN}"]
    assert _stage(connection, "finish")["changed"] is False
    assert _stage(connection, "clear") == {"changed": True, "finished": True}
    assert _marks(connection) == []
    assert _stage(connection, "clear")["changed"] is False


def test_reboot_is_for_the_run_whose_maintenance_lasts(connection: Connection) -> None:
    assert _stage(connection, "reboot")["held"] is False, "nothing is marked"
    _stage(connection, "claim")
    assert _stage(connection, "reboot")["held"] is False, "somebody has ended the maintenance"
    notes.keep(connection, MAINTENANCE_VOLUME)
    assert _stage(connection, "reboot")["held"] is True
    effects.stage(connection, RollingWork(stage="claim", digest=_OTHER), check=False)
    assert _stage(connection, "reboot")["held"] is False, "another run has taken it over"


@pytest.mark.parametrize("check", [False, True])
def test_member_that_its_cell_needs_by_now_keeps_the_tasks_away(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    members = tuple(f"hv{number}" for number in range(1, 6))
    view = CellView("a", members, True, True, frozenset(members[:4]), frozenset(members[4:]))
    monkeypatch.setattr(effects.read_cell, "view", lambda _connection: view)
    work = RollingWork(stage="begin", digest=_OWN, turn=["hv1", "hv2"])
    with pytest.raises(PlanRefused, match=r"^without hv1, hv2, 2 of the 5 .*\(hv5 not online\)"):
        effects.stage(connection, work, check=check)
