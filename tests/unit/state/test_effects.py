# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changing states on libvirt's test driver, which has domains in every state it is told."""

from __future__ import annotations

import inspect
import typing as t
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import NAMESPACE
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import effects as state
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.actions import Call, Start
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest
from ansible_collections.fleet.virt.tests.unit.state.operation_cases import CASES

# Numbers of virDomainState, which the test driver takes in its own namespace
_RUN = {"running": 1, "paused": 3, "shutoff": 5, "crashed": 6}
_DOMAIN = """
<domain type='test'>
  <name>{name}</name><memory>131072</memory><os><type>hvm</type></os>
  <metadata>{metadata}</metadata>
  <test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>{run}</test:runstate>
</domain>
"""
_PURGING = f"<f:fleet xmlns:f='{NAMESPACE}'><f:phase>purging</f:phase></f:fleet>"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A node of the test driver with one domain for each state it knows, named after it."""
    domains = [(name, run, "") for name, run in _RUN.items()]
    domains.append(("purging", _RUN["shutoff"], _PURGING))
    text = "".join(
        _DOMAIN.format(name=name, run=run, metadata=metadata) for name, run, metadata in domains
    )
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{text}</node>")
    with connect(f"test://{node}", 10) as opened:
        yield opened


def bring(connection: Connection, name: str, *, check: bool = False, **wanted: t.Any) -> t.Any:
    result = state.run(connection, [name], StateRequest(**wanted), check=check)
    return {**result, **result["vms"][0]}


@pytest.mark.parametrize("name", _RUN)
@pytest.mark.parametrize("wanted", ["running", "shutoff"])
def test_from_every_state(connection: Connection, name: str, wanted: str) -> None:
    predicted = bring(connection, name, state=wanted, check=True)
    assert state.read_facts(connection, connection.conn.lookupByName(name)).state == name
    real = bring(connection, name, state=wanted)
    assert real == predicted
    assert (real["before"], real["state"]) == (name, wanted)
    assert not real["failed"]
    assert real["changed"] == (name != wanted)
    assert bool(real["steps"]) == (name != wanted) == bool(real["diff"])
    again = bring(connection, name, state=wanted)
    assert not again["changed"]
    assert again["state"] == wanted
    assert again["steps"] == []


def test_saved_memory(connection: Connection) -> None:
    connection.conn.lookupByName("running").managedSave(0)
    assert bring(connection, "running", state="running", check=True)["before"] == "saved"
    assert bring(connection, "running", state="saved")["state"] == "saved"
    assert not bring(connection, "running", state="shutoff")["changed"]
    assert bring(connection, "running", state="running")["steps"] == ["start from its saved memory"]


def test_autostart(connection: Connection) -> None:
    done = bring(connection, "shutoff", autostart=True)
    assert (done["changed"], done["autostart"], done["state"]) == (True, True, "shutoff")
    assert done["diff"][0]["before"] != done["diff"][0]["after"]
    assert not bring(connection, "shutoff", state="shutoff")["changed"]
    assert connection.conn.lookupByName("shutoff").autostart() == 1


@pytest.mark.parametrize("check", [True, False])
def test_none_is_touched_when_one_cannot(connection: Connection, check: bool) -> None:
    names = ["shutoff", "purging"]
    result = state.run(connection, names, StateRequest("running"), check=check)
    assert result["failed"]
    assert "'purging' is in phase purging" in result["msg"]
    assert [vm["failed"] for vm in result["vms"]] == [False, True]
    if not check:
        assert not result["changed"]
        assert [vm["state"] for vm in result["vms"]] == ["shutoff", "shutoff"]


def test_every_unknown_name_is_named(connection: Connection) -> None:
    with pytest.raises(SpecError) as error:
        state.run(connection, ["web8", "running", "web9"], StateRequest("running"), check=False)
    assert [problem.path for problem in error.value.problems] == ["names", "names"]
    assert "'web8'" in str(error.value)
    assert "'web9'" in str(error.value)
    assert "there are: crashed, paused" in str(error.value)


def test_a_guest_that_does_not_obey(connection: Connection) -> None:
    """Given no time at all, a guest is not asked, and only force stops it."""
    done = bring(connection, "running", state="shutoff", shutdown_timeout=0.0)
    assert (done["failed"], done["changed"], done["state"]) == (True, False, "running")
    assert "did not shut down within 0 seconds" in done["msg"]
    assert "force" in done["msg"]
    done = bring(connection, "running", state="shutoff", shutdown_timeout=0.0, force=True)
    assert (done["failed"], done["changed"], done["state"]) == (False, True, "shutoff")
    assert done["vms"][0]["msg"] == "destroyed: it did not shut down within 0 seconds"


def test_several_at_once_each_once(connection: Connection) -> None:
    result = state.run(
        connection, ["shutoff", "paused", "shutoff"], StateRequest("running"), check=False
    )
    assert [(vm["name"], vm["state"]) for vm in result["vms"]] == [
        ("shutoff", "running"),
        ("paused", "running"),
    ]


@pytest.mark.parametrize("name", CASES)
def test_operation_is_a_change_each_time(connection: Connection, name: str) -> None:
    for _turn in range(2):
        predicted = bring(connection, "running", operations=(name,), check=True)
        real = bring(connection, "running", operations=(name,))
        assert real == predicted
        assert (real["state"], real["changed"], real["failed"]) == ("running", True, False)
        assert real["steps"] == CASES[name].steps
        assert f'"{name}s": 1' in real["diff"][0]["after"]


@pytest.mark.parametrize("action", Call.__subclasses__())
def test_call_of_action_matches_binding(action: type[Call]) -> None:
    method = getattr(libvirt.virDomain, action.method)
    inspect.signature(method).bind(None, *action.arguments)


def test_paused_saved_and_back(connection: Connection) -> None:
    for wanted, state_after, step in (
        ("paused", "paused", "pause"),
        ("saved", "saved", "save its memory and stop"),
        ("running", "running", "start from its saved memory"),
    ):
        predicted = bring(connection, "running", state=wanted, check=True)
        real = bring(connection, "running", state=wanted)
        assert real == predicted
        assert (real["state"], real["steps"], real["failed"]) == (state_after, [step], False)
        assert not bring(connection, "running", state=wanted)["changed"]


def test_a_look_finds_names_and_members_of_groups(connection: Connection) -> None:
    text = "".join(f"<f:group>{one}</f:group>" for one in ("web", "db"))
    domain = connection.conn.lookupByName("paused")
    domain.setMetadata(2, f"<fleet>{text.replace('f:', '')}</fleet>", "fleet", NAMESPACE, 2)
    found = state.look(connection, ["running", "nobody"], ["web", "mail"])["vms"]
    groups = {vm["name"]: vm["groups"] for vm in found}  # libvirt lists them in any order
    assert groups == {"running": [], "paused": ["web", "db"]}
    assert [vm["name"] for vm in state.look(connection, ["pa*"], [])["vms"]] == ["paused"]
    assert [vm["name"] for vm in state.look(connection, ["purging"], [])["vms"]] == ["purging"]
    assert state.look(connection, ["purging"], [])["vms"][0]["phase"] == "purging"


_ORDERED = f"<f:fleet xmlns:f='{NAMESPACE}'><f:start_order>{{}}</f:start_order>" + (
    "<f:start_delay>3</f:start_delay></f:fleet>"
)


@pytest.fixture
def ordered(tmp_path: Path) -> Iterator[Connection]:
    """Three that are off: db1 comes before web1, any1 has no order."""
    orders = {"web1": 20, "db1": 10, "any1": None}
    text = "".join(
        _DOMAIN.format(name=name, run=5, metadata=_ORDERED.format(order) if order else "")
        for name, order in orders.items()
    )
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{text}</node>")
    with connect(f"test://{node}", 10) as opened:
        yield opened


def test_in_order_and_back(ordered: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[object] = []
    carry_out, names = state._carry_out, ["web1", "any1", "db1"]

    def noted(jobs: t.Sequence[state._StateJob], wanted: StateRequest) -> None:
        did.append([job.name for job in jobs])
        carry_out(jobs, wanted)

    monkeypatch.setattr(state, "_carry_out", noted)
    monkeypatch.setattr(state.time, "sleep", did.append)
    state.run(ordered, names, StateRequest("running"), check=True)
    assert did == []
    found = state.run(ordered, names, StateRequest("running"), check=False)
    assert [vm["name"] for vm in t.cast("list[dict[str, t.Any]]", found["vms"])] == names
    assert [one for one in did if one not in (0, 0.25)] == [["db1"], 3, ["web1"], 3, ["any1"]]
    did.clear()
    assert not state.run(ordered, names, StateRequest("running"), check=False, more=True)["changed"]
    assert [one for one in did if one not in (0, 0.25)] == [
        ["db1"],
        ["web1"],
        ["any1"],
    ]  # nothing was started
    did.clear()
    state.run(ordered, names, StateRequest("shutoff"), check=False)
    assert [one for one in did if one not in (0, 0.25)] == [["any1"], ["web1"], ["db1"]]
    did.clear()
    state.run(ordered, ["db1"], StateRequest("running"), check=False, more=True)
    assert [one for one in did if one not in (0, 0.25)] == [["db1"], 3]


def test_what_comes_after_a_failure_is_left_and_named(
    ordered: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = state._ACTIONS.ways[Start]

    def broken(job: state._StateJob, action: t.Any) -> t.Any:
        if job.name == "web1":
            raise SpecError("no memory")
        yield from start(job, action)

    monkeypatch.setitem(state._ACTIONS.ways, Start, broken)
    monkeypatch.setattr(state.time, "sleep", lambda _seconds: None)
    found: t.Any = state.run(ordered, ["any1", "web1", "db1"], StateRequest("running"), check=False)
    assert {vm["name"]: (vm["state"], vm["failed"]) for vm in found["vms"]} == {
        "db1": ("running", False),
        "web1": ("shutoff", True),
        "any1": ("shutoff", True),
    }
    assert "'any1' was not tried: 'web1', before it by start_order, failed" in found["msg"]


def test_a_look_says_the_order(ordered: Connection) -> None:
    found = state.look(ordered, ["web1", "any1"], [])["vms"]
    assert {vm["name"]: vm["start_order"] for vm in found} == {"web1": 20, "any1": None}
