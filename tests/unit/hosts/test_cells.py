# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cells and their VMs as they are shown: what each member says, and each VM once."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import (
    effects_cards,
    read_vms,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import Card, CardName
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import read
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import CellView, CellVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    cells,
    read_cell,
    records,
    selection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
)

UUID = "5f0c1b8e-8a57-4f43-9a39-3a1f9cbe1c1"
ALL = ("hv1", "hv2", "hv3")
VIEW = CellView("rack1", ALL, True, True, frozenset(ALL))
VM = CellVm(f"{UUID}1", "/srv/shared", ("hv1",), True, False, None, None, None)


def cell_of(**changes: t.Any) -> dict[str, t.Any]:
    entry: dict[str, t.Any] = {**(cells.entry(VIEW) or {}), **changes}
    return entry


def domain(name: str, number: int, **changes: t.Any) -> dict[str, t.Any]:
    entry = {
        **{"name": name, "uuid": f"{UUID}{number}", "state": "running", "reason": "booted"},
        **{"metadata": {}, "error": None, "vcpus": 1, "memory_mib": 64, "cell": None},
        **{"graphics": [], "disks": [], "nics": []},
    }
    return {**entry, **changes}


def off(name: str, number: int) -> dict[str, t.Any]:
    in_cell = cells.of_domain("rack1", VM, defined=False)
    return domain(name, number, state="shutoff", reason=read_cell.REASON, cell=in_cell)


def hypervisor(name: str, *domains: t.Any, **changes: t.Any) -> dict[str, t.Any]:
    answered = {"name": name, "answered": True, "error": None, "cell": cell_of()}
    return {**answered, "domains": list(domains), **changes}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "quorum; online hv1, hv2, hv3"),
        (
            {"online": ["hv1", "hv2"], "unclean": ["hv3"]},
            "quorum; online hv1, hv2; hv3 not proven off",
        ),
        ({"online": ["hv1", "hv2"]}, "quorum; online hv1, hv2; offline hv3"),
        (
            {"online": ["hv3"], "quorate": False, "unclean": ["hv1", "hv2"]},
            "no quorum; online hv3; hv1 not proven off; hv2 not proven off",
        ),
        (
            {"device": False},
            "quorum; online hv1, hv2, hv3; its quorum device does not vote",
        ),
        ({"running": False, "quorate": False, "online": []}, "Pacemaker does not run"),
    ],
)
def test_statement_about_cell_names_members(changes: dict[str, t.Any], text: str) -> None:
    own = [hypervisor("hv1", cell=cell_of(**changes))]
    assert cells.statements(own) == [f"cell rack1: {text}"]
    assert cells.statements(own, well=False) == ([f"cell rack1: {text}"] if changes else [])


def test_different_statements_name_who_makes_them() -> None:
    alone = cell_of(online=["hv3"], quorate=False, unclean=["hv1", "hv2"])
    shown = [hypervisor("hv1"), hypervisor("hv2"), hypervisor("hv3", cell=alone)]
    shown.append(hypervisor("hv4", cell=None))
    last = "no quorum; online hv3; hv1 not proven off; hv2 not proven off (as hv3 says)"
    assert cells.statements(shown, well=False) == [f"cell rack1: {last}"]
    assert cells.statements(shown) == [
        "cell rack1: quorum; online hv1, hv2, hv3 (as hv1, hv2 say)",
        f"cell rack1: {last}",
    ]


def test_hypervisor_is_shown_with_its_cell() -> None:
    shown = [{"name": "hv1", "answered": True, "host": {"cell": cell_of(unclean=["hv3"])}}]
    assert "hv3 not proven off" in cells.statements(shown)[0]


def test_vm_that_several_members_know_by_its_card_is_shown_once() -> None:
    shown = cells.once([hypervisor("hv1", off("ha1", 1)), hypervisor("hv2", off("ha1", 1))])
    assert [len(t.cast("list[t.Any]", entry["domains"])) for entry in shown] == [1, 0]
    assert selection.flat(shown, []) == [("", off("ha1", 1))]
    table = tables.listing(shown, selection.flat(shown, []))
    assert table.splitlines()[1].startswith("-           ha1   shutoff")
    assert "on no hypervisor:\n  ha1\n" in tables.query(shown)
    assert records.text("list", shown, predicted=False).splitlines()[1].startswith(",ha1,")


def test_vm_that_a_hypervisor_has_is_not_shown_by_its_card() -> None:
    kept = domain("ha1", 1, state="shutoff", cell=cells.of_domain("rack1", VM, defined=True))
    shown = cells.once([hypervisor("hv1", off("ha1", 1)), hypervisor("hv2", kept)])
    assert [entry["domains"] for entry in shown] == [[], [kept]]


def test_vm_that_a_silent_hypervisor_had_is_shown_by_its_card() -> None:
    noted = domain("ha1", 1, state="unknown", reason="active at 12:00, as hv2 noted")
    other = domain("web1", 2, state="unknown")
    silent = {"name": "hv3", "answered": False, "error": "no route", "domains": [noted, other]}
    shown = cells.once([hypervisor("hv1", off("ha1", 1)), silent])
    assert [entry["domains"] for entry in shown] == [[off("ha1", 1)], [other]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "booted, cell rack1"),
        ({"managed": False, "held_by": "hv1"}, "booted, cell rack1, unmanaged (by hv1)"),
        ({"managed": False}, "booted, cell rack1, unmanaged"),
        ({"failed": True, "reason": "start on hv2: x"}, "cell rack1, failed: start on hv2: x"),
    ],
)
def test_vm_of_cell_is_listed_with_what_its_cell_says(
    changes: dict[str, t.Any], words: str
) -> None:
    in_cell = {**cells.of_domain("rack1", VM, defined=True), **changes}
    line = tables.listing([hypervisor("hv1", domain("ha1", 1, cell=in_cell))]).splitlines()[1]
    assert line.endswith(words)


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr(Connection, "local", True)
    with connect("test:///default", 20) as connection:
        yield connection


def test_domain_of_member_is_read_with_what_pacemaker_says(
    local: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = local.conn.lookupByName("test").UUIDString()
    held = CellVm(uuid, "/srv/shared", ("hv1",), False, False, None, "Started", "hv1")
    view = CellView("rack1", ALL, True, True, frozenset(ALL), vms={uuid: held})
    monkeypatch.setattr(read, "here", lambda: view)
    answer = read_cell.domains(local, DomainQuery())
    assert answer["cell"] == cell_of()
    (entry,) = answer["domains"] or []
    assert entry["cell"] == cells.of_domain("rack1", held, defined=True)
    assert entry["cell"] is not None
    assert (entry["cell"]["managed"], entry["cell"]["held_by"]) == (False, "hv1")


def test_domain_of_hypervisor_in_no_cell_has_none(
    local: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "here", lambda: None)
    answer = read_cell.domains(local, DomainQuery())
    assert answer["cell"] is None
    assert [entry["cell"] for entry in answer["domains"] or []] == [None]


def _card(folder: Path, name: str, number: int, *hosts: str) -> None:
    definition = (
        f"<domain type='test'><name>{name}</name><uuid>{UUID}{number}</uuid>"
        "<memory unit='MiB'>64</memory><vcpu>2</vcpu><os><type>hvm</type></os></domain>"
    )
    card = Card(CardName(name, hosts), f"{UUID}{number}", definition, running=False)
    effects_cards.write(str(folder), card)


@pytest.fixture
def off_vm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CellView:
    """A cell that runs one VM and has one that is off; both have cards, as others have."""
    _card(tmp_path, "ha1", 1)
    _card(tmp_path, "ha2", 2)
    _card(tmp_path, "other", 3)  # of another cell
    _card(tmp_path, "web1", 4, "hv2")
    running = dataclasses.replace(VM, cards=str(tmp_path))
    idle = dataclasses.replace(running, uuid=f"{UUID}2", nodes=(), target_role="Stopped")
    view = CellView("rack1", ALL, True, True, frozenset(ALL))
    view = dataclasses.replace(view, vms={vm.uuid: vm for vm in (running, idle)})
    folders = {str(tmp_path): str(tmp_path)}
    monkeypatch.setattr(read_vms, "shared_folders", lambda _connection: folders)
    monkeypatch.setattr(read, "here", lambda: view)
    return view


@pytest.mark.parametrize("names", [None, ("ha2",), ("ha*",)])
def test_vm_that_is_off_and_defined_nowhere_is_read_from_its_card(
    names: tuple[str, ...] | None, local: Connection, off_vm: CellView
) -> None:
    answer = read_cell.domains(local, DomainQuery(names=names))
    shown = {str(entry["name"]): entry for entry in answer["domains"] or []}
    assert [*shown] == (["ha2", "test"] if names is None else ["ha2"])
    entry = shown["ha2"]
    assert (entry["uuid"], entry["state"], entry["vcpus"]) == (f"{UUID}2", "shutoff", 2)
    assert entry["cell"] == cells.of_domain("rack1", off_vm.vms[f"{UUID}2"], defined=False)


def test_name_that_no_card_has_is_an_error(local: Connection, off_vm: CellView) -> None:
    assert off_vm.vms
    with pytest.raises(SpecError, match="no domain 'ha3'"):
        read_cell.domains(local, DomainQuery(names=("ha2", "ha3")))


def test_member_without_quorum_says_of_no_vm_that_it_is_off(
    local: Connection, off_vm: CellView, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = dataclasses.replace(off_vm, quorate=False)
    monkeypatch.setattr(read, "here", lambda: alone)
    answer = read_cell.domains(local, DomainQuery())
    assert [str(entry["name"]) for entry in answer["domains"] or []] == ["test"]
