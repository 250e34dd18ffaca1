# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other work on a VM wins over its backup, whichever begins first, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    effects,
    effects_unit,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.facts import BackupDisk
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_backups as backups,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_lease_holder as owners,
)

_UUID = "6695eb01-f6a4-8304-79aa-97f2502e193f"  # of the test driver's own domain


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The units that were stopped; that of a backup is at work."""
    units: list[str] = []
    monkeypatch.setattr(backups.systemd, "systemctl", lambda *_words, **_: "ActiveState=active")
    monkeypatch.setattr(backups.systemd, "stop", lambda unit, _seconds: units.append(unit))
    monkeypatch.setattr(Connection, "local", True)
    monkeypatch.setattr(owners.locks, "own_folder", lambda: tmp_path)
    return units


def _order(active: bool = True) -> effects_unit.UnitOrder:
    return effects_unit.UnitOrder(
        *("test:///default", 30.0, "test", _UUID, "hv1", active, "never", "/srv/backup", "x"),
        *(None, "/srv/scratch", 16, "<domain/>", None, []),
    )


def test_order_is_the_same_at_the_end_of_the_pipe() -> None:
    order = dataclasses.replace(
        _order(),
        disks=[BackupDisk("vda", "/srv/vda", "qcow2", 1024, written=True, data="/srv/data")],
        left_out=[archives.LeftOut("vdb", "it is shareable")],
        one_file=[archives.OneFile("vda", "/srv/data")],
    )
    line = json.dumps(dataclasses.asdict(order)).encode()
    assert effects_unit.read_order(line) == order


def _mark(connection: Connection, phase: str | None) -> None:
    dom = connection.conn.lookupByName("test")
    stored = Metadata(phase=phase, owner=owners.myself("") if phase else None)
    lookup.write_metadata(connection, dom, stored, lookup.AFFECT_CONFIG)


@pytest.mark.parametrize(
    ("phase", "said"), [("migrating", "moved"), ("changing", "changed"), (None, None)]
)
def test_backup_does_not_begin_once_other_work_has_marked_the_vm(
    phase: str | None, said: str | None
) -> None:
    with connect("test:///default", 30.0) as connection:
        _mark(connection, phase)
        dom = connection.conn.lookupByName("test")
        unit = effects_unit._Backup(_order())
        if said is None:
            unit._require_unmarked(connection, dom)
        else:
            with pytest.raises(effects_unit._GaveWayError, match=f"being {said}, which wins"):
                unit._require_unmarked(connection, dom)


def test_backup_begins_only_outside_of_work_that_keeps_it_away(stopped: list[str]) -> None:
    with connect("test:///default", 30.0) as connection:
        with backups.kept_away(connection, _UUID):
            assert stopped == [backups.unit_of(_UUID)]
            with pytest.raises(PlanRefused), backups.beginning(_UUID, 0.0):
                raise AssertionError
        with backups.beginning(_UUID, 0.0):
            pass


def test_error_of_a_reader_is_not_the_reason_where_the_vm_was_shut_off() -> None:
    """The test driver has no backup job, as after a shutdown."""
    with connect("test:///default", 30.0) as connection:
        dom = connection.conn.lookupByName("test")
        ended = effects_unit._Backup(_order())._reason(connection, dom, "input/output error")
        assert ended["gave_way"] is True
        assert "it was shut off meanwhile" in str(ended["error"])


def test_other_work_is_waited_for_before_a_vm_is_located_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    with connect("test:///default", 30.0) as connection:
        _mark(connection, "migrating")

        def pause(seconds: float) -> None:
            waits.append(seconds)
            _mark(connection, None if len(waits) > 1 else "migrating")

        monkeypatch.setattr(effects.time, "sleep", pause)
        assert effects.look(connection, ["test"])["vms"][0]["phase"] == "migrating"
        assert not waits
        assert effects.look(connection, ["test", "gone"], again=True)["vms"][0]["phase"] is None
        assert len(waits) == 2
        stored = Metadata(phase="migrating", owner=dataclasses.replace(owners.myself(""), pid=0))
        dom = connection.conn.lookupByName("test")
        lookup.write_metadata(connection, dom, stored, lookup.AFFECT_CONFIG)
        effects.look(connection, ["test"], again=True)
        assert len(waits) == 2, "a run that died is not waited for"
