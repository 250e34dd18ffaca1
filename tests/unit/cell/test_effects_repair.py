# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that killed runs have left unmanaged are managed again, on libvirt's test driver."""

from __future__ import annotations

import os

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import effects_cards
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import Card, CardName
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import effects_repair
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_lease_holder
from ansible_collections.fleet.virt.tests.unit.cards.test_effects_keep import UUID
from ansible_collections.fleet.virt.tests.unit.cell.test_hold import (
    ALONE,
    HA,
    MANAGE,
    REFRESH,
    Pacemaker,
)
from ansible_collections.fleet.virt.tests.unit.cell.test_hold import cell as _cell
from ansible_collections.fleet.virt.tests.unit.cell.test_hold import host as _host

host, cell = _host, _cell
ENTRY = {"name": "web1", "uuid": UUID, "held_by": "hv1", "problem": None, "at_work": False}


def _left(cell: Pacemaker, metadata: str = HA) -> None:
    """A run on this hypervisor was killed while it held the VM."""
    cell.host.define("web1", cell.host.disk, metadata=metadata).create()
    cell.has(nodes=("hv1",), managed=False, by="hv1")


def test_vm_that_killed_run_left_is_managed_again(cell: Pacemaker) -> None:
    _left(cell)
    assert effects_repair.lacking(cell.host.connection, ()) == [ENTRY]
    assert effects_repair.repair(cell.host.connection, [UUID], check=True) == [ENTRY]
    assert cell.calls == []
    assert effects_repair.repair(cell.host.connection, [UUID], check=False) == [ENTRY]
    assert cell.calls == [REFRESH, *MANAGE]
    cell.has(nodes=("hv1",))
    assert effects_repair.lacking(cell.host.connection, ()) == []
    assert effects_repair.repair(cell.host.connection, [UUID], check=False) == []


def test_vm_that_run_holds_is_left_to_it(cell: Pacemaker) -> None:
    _left(cell)
    with effects_locks.shared(f"cell-{UUID}", 1, "held {path}"):
        assert effects_repair.lacking(cell.host.connection, ()) == []
        (entry,) = effects_repair.lacking(cell.host.connection, ["web1"])
        assert (entry["at_work"], entry["problem"]) == (True, "a run is at work on it")
        assert effects_repair.repair(cell.host.connection, [UUID], check=False) == []
    assert cell.calls == []


def test_vm_with_living_lease_is_left_to_it(cell: Pacemaker) -> None:
    owner = effects_lease_holder.of(os.getpid(), "r")
    values = f"boot_id='{owner.boot_id}' pid='{owner.pid}' start_time='{owner.start_time}' run='r'"
    _left(cell, f"{HA}<fleet:phase>changing</fleet:phase><fleet:owner {values}/>")
    assert effects_repair.lacking(cell.host.connection, ()) == []


def test_vm_that_is_off_elsewhere_has_the_name_of_its_card(cell: Pacemaker) -> None:
    definition = f"<domain><name>web7</name><uuid>{UUID}</uuid></domain>"
    card = Card(CardName("web7", ()), UUID, definition, running=False)
    effects_cards.write(str(cell.host.shared), card)
    cell.has(managed=False, by="hv9")  # no member any more
    (entry,) = effects_repair.lacking(cell.host.connection, ["web7"])
    assert (entry["name"], entry["held_by"], entry["problem"]) == ("web7", "hv9", None)


def test_vm_that_cell_does_not_know_is_made_its_own(cell: Pacemaker) -> None:
    cell.host.define("web1", cell.host.disk, metadata=HA).create()
    assert effects_repair.lacking(cell.host.connection, ()) == [{**ENTRY, "held_by": None}]
    effects_repair.repair(cell.host.connection, [UUID], check=False)
    assert cell.calls == ["cibadmin --create --scope resources --xml-pipe", REFRESH, *MANAGE]


@pytest.mark.parametrize("by", ["hv2", None])
def test_vm_that_another_member_or_person_holds_is_not_looked_at(
    cell: Pacemaker, by: str | None
) -> None:
    _left(cell)
    cell.has(nodes=("hv1",), managed=False, by=by)
    assert effects_repair.lacking(cell.host.connection, ()) == []


def test_member_without_quorum_repairs_nothing(cell: Pacemaker) -> None:
    _left(cell)
    cell.view = ALONE
    assert effects_repair.lacking(cell.host.connection, ["web1"]) == []
