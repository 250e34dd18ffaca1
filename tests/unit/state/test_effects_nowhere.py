# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""States of a cell's VM that is defined nowhere: only its cell can start it."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import effects_hold
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import effects
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest
from ansible_collections.fleet.virt.tests.unit.cards.test_effects_keep import UUID, Host
from ansible_collections.fleet.virt.tests.unit.cell.test_hold import Pacemaker, write_card
from ansible_collections.fleet.virt.tests.unit.cell.test_hold import cell as _cell
from ansible_collections.fleet.virt.tests.unit.cell.test_hold import host as _host

cell, host = _cell, _host
RUN = StateRequest(state="running")


def _run(host: Host, *names: str, wanted: StateRequest = RUN, check: bool = False) -> t.Any:
    return effects.run(host.connection, names, wanted, check=check)


@pytest.fixture
def starts(host: Host, cell: Pacemaker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of VMs that the cell was told to start."""
    write_card(host)
    cell.has(target_role="Stopped")
    names: list[str] = []
    monkeypatch.setattr(effects_hold, "start", lambda _connection, name, _vm: names.append(name))
    return names


def test_cell_starts_vm_that_is_nowhere(host: Host, starts: list[str]) -> None:
    assert effects.look(host.connection, ["web1"], [])["vms"] == [
        {
            "name": "web1",
            "uuid": UUID,
            "phase": None,
            "groups": [],
            "start_order": None,
            "nowhere": "a",
            "error": None,
        }
    ]
    predicted = _run(host, "web1", check=True)
    assert starts == []
    done = _run(host, "web1")
    assert starts == ["web1"]
    assert predicted == done
    assert done["changed"]
    assert done["vms"][0]["steps"] == ["have the cell 'a' start it"]


def test_other_vms_reach_the_state_too(host: Host, starts: list[str]) -> None:
    host.define("db1", host.local / "db1.qcow2", uuid="11111111-2f60-4b1c-9d3e-0d9a6f3f7d10")
    done = _run(host, "db1", "web1")
    assert {vm["name"]: vm["state"] for vm in done["vms"]} == {"web1": "running", "db1": "running"}
    assert starts == ["web1"]


def test_vm_that_is_nowhere_is_off_already(host: Host, starts: list[str]) -> None:
    done = _run(host, "web1", wanted=StateRequest(state="shutoff"))
    assert not done["changed"]
    assert not done.get("failed")
    assert starts == []


@pytest.mark.parametrize("role", ["Started", None])
def test_vm_that_its_cell_is_about_to_start_is_not_reported_off(
    host: Host, cell: Pacemaker, starts: list[str], role: str | None
) -> None:
    """Its hypervisor has just failed, or it does not start anywhere."""
    cell.has(target_role=role)
    for check in (True, False):
        done = _run(host, "web1", wanted=StateRequest(state="shutoff"), check=check)
        assert (done["failed"], done["changed"]) == (True, False)
        assert "the cell 'a' starts it as soon as it can" in done["msg"]
    assert not _run(host, "web1", check=True).get("failed"), "to have it started is no mistake"
    assert starts == []


@pytest.mark.parametrize(
    ("by", "remedy"),
    [("hv3", "fleet.virt.repair_vms"), (None, "--meta --delete-parameter is-managed")],
)
def test_vm_that_cell_does_not_manage_is_not_started(
    host: Host, cell: Pacemaker, starts: list[str], by: str | None, remedy: str
) -> None:
    cell.has(target_role="Stopped", managed=False, by=by)
    for check in (True, False):
        done = _run(host, "web1", check=check)
        assert (done["failed"], done["changed"]) == (True, False)
        assert "does not manage 'web1'" in done["msg"]
        assert remedy in done["msg"]
    assert starts == []
    assert not _run(host, "web1", wanted=StateRequest(state="shutoff")).get("failed")


def test_vm_of_member_that_is_not_proven_off_is_not_changed(
    host: Host, cell: Pacemaker, starts: list[str]
) -> None:
    cell.has(nodes=("hv3",))
    cell.view = dataclasses.replace(cell.view, online=frozenset(("hv1", "hv2")))
    (seen,) = t.cast("list[t.Any]", effects.look(host.connection, ["web1"], [])["vms"])
    assert "it may run on hv3, which is not proven off" in seen["error"]
    for wanted in (RUN, StateRequest(state="shutoff")):
        done = _run(host, "web1", wanted=wanted)
        assert (done["failed"], done["changed"]) == (True, False)
        assert "stated: stonith_admin --confirm hv3" in done["msg"]
        assert done["vms"][0]["state"] == "unknown"
    assert starts == []


@pytest.mark.parametrize(
    "wanted",
    [
        StateRequest(state="paused"),
        StateRequest(operations=("reset",)),
        StateRequest("running", True),
    ],
)
def test_anything_else_needs_its_start_first(
    host: Host, starts: list[str], wanted: StateRequest
) -> None:
    done = _run(host, "web1", wanted=wanted)
    assert done["failed"]
    assert "Have it started first, which defines it" in done["msg"]
    assert starts == []


def test_failure_of_cell_is_that_of_vm(
    host: Host, starts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object) -> None:
        raise PlanRefused("the cell 'a' has not started 'web1'")

    monkeypatch.setattr(effects_hold, "start", fail)
    done = _run(host, "web1")
    assert (done["failed"], done["msg"]) == (True, "the cell 'a' has not started 'web1'")
    assert (done["changed"], done["vms"][0]["state"]) == (False, "shutoff")
    assert starts == []
