# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a stage ends on a hypervisor and on the controller, with and without an envelope."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.facts import Purged
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction

ANSWER = {"changed": True, "vms": []}


class TaskTimeoutError(BaseException):
    """What Ansible raises in the middle of an action."""


@dataclass(frozen=True)
class _StagesWork(Work):
    STAGES = ("all", "look", "decide", "act")


def _staged(
    work: dict[str, t.Any] | None, end: t.Any = ANSWER, **variables: t.Any
) -> StagedAction[_StagesWork]:
    """An action whose module returns or raises ``end``."""

    class Action(StagedAction[_StagesWork]):
        WORK = _StagesWork

        def __init__(self) -> None:
            hostvars = {name: {**variables} for name in ("hv1", "hv2")}
            self._values = {
                **variables,
                "hostvars": hostvars,
                "inventory_hostname": "hv1",
                "ansible_play_hosts_all": ["hv1", "hv2"],
            }
            play = types.SimpleNamespace(_uuid="r1")
            self._task = types.SimpleNamespace(
                args={} if work is None else {"_work": work},
                action="fleet.virt.virt_purge",
                timeout=60,
                get_play=lambda: play,
                get_name=lambda: "Locate the VMs",
            )

        def module(self, _task_vars: t.Any, arguments: t.Any = None) -> t.Any:
            self.sent = arguments
            if isinstance(end, BaseException):
                raise end
            return {**end}

        def decided(self, _work: _StagesWork) -> t.Any:
            return self.module(self._values)

    return Action()


def _worked(action: t.Any) -> t.Any:
    return action._worked(action._values)


def _header(**other: t.Any) -> dict[str, t.Any]:
    return {"run": "r1", "verb": "virt_purge", "stage": "look", "round": 0, **other}


def test_module_receives_complete_header() -> None:
    action: t.Any = _staged({"stage": "look", "round": 2})
    answer = _worked(action)
    assert action.sent["_work"] == _header(round=2)
    assert answer == {**ANSWER, "failed": False, "_work": _header(round=2, end="")}


@pytest.mark.parametrize(
    ("end", "opened"),
    [
        ({"failed": True, "msg": "no"}, {"failed": True, "msg": "no"}),
        (
            AnsibleConnectionFailure("no route"),
            {"unreachable": True, "msg": "no route"},
        ),
        (
            AnsibleConnectionFailure(
                "Failed to connect to the host via ssh: ssh: connect to host hv1 port 22:"
                " Connection refused"
            ),
            {"unreachable": True, "msg": "connection refused"},
        ),
        (AnsibleError("no become"), {"failed": True, "msg": "no become"}),
        (
            PlanRefused("no"),
            {"failed": True, "msg": "no", "error": "PlanRefused"},
        ),
        (TaskTimeoutError(), {"failed": True, "msg": "Timed out after 60 second(s)."}),
    ],
    ids=["failed", "unreachable", "refused by it", "ansible", "refused", "over time"],
)
def test_every_end_of_stage_on_hypervisor_is_answer(end: t.Any, opened: dict[str, t.Any]) -> None:
    action = _staged({"stage": "look"}, end)
    answer = _worked(action)
    assert not answer["failed"]
    assert envelope.opened(answer, Work("r1", "virt_purge", "look")) == opened


@pytest.mark.parametrize("work", [None, {"stage": "decide"}], ids=["alone", "on the controller"])
def test_end_of_anything_else_is_ansibles(work: dict[str, t.Any] | None) -> None:
    with pytest.raises(AnsibleConnectionFailure):
        _worked(_staged(work, AnsibleConnectionFailure("no route")))
    assert _worked(_staged(work, {"failed": True})) == {"failed": True}


def test_failed_decision_shows_no_header() -> None:
    """Ansible prints what failed whole, and no output mentions internal options."""
    assert _worked(_staged({"stage": "decide"}, {"failed": True, "msg": "no"})) == {
        "failed": True,
        "msg": "no",
    }


def test_bug_in_action_is_no_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        _worked(_staged({"stage": "look"}, ZeroDivisionError()))


@pytest.mark.parametrize("field", ["run", "verb"])
def test_work_of_other_run_is_not_sent(field: str) -> None:
    action: t.Any = _staged(_header(**{field: "other"}))
    with pytest.raises(FleetVirtError, match=f"the {field} of its work is other"):
        _worked(action)
    assert not hasattr(action, "sent")


def test_answers_are_those_of_round_that_is_meant() -> None:
    """hv2's task of this round was skipped, or another round's answer stands there."""
    answer = _worked(_staged({"stage": "act", "round": 1}))
    action = _staged({"stage": "decide"}, virt_purged=answer)
    assert action.answers("virt_purged", Purged, "act", 1)["hv2"] == ANSWER
    stale = action.answers("virt_purged", Purged, "act", 2)["hv2"]
    assert stale["failed"]
    assert "its round is 1" in str(stale["msg"])


def test_decision_of_this_run_is_read() -> None:
    decided = _worked(_staged({"stage": "decide"}))
    assert _staged({"stage": "act"}, virt_decision=decided).decision("virt_decision") == ANSWER


@pytest.mark.parametrize(
    "decided",
    [
        {},
        {"skipped": True, "changed": False},
        {**ANSWER, "_work": _header(stage="decide", run="r0")},
        {**ANSWER, "_work": _header(stage="decide", round=1)},
        {**ANSWER},
    ],
)
def test_anything_else_is_no_decision(decided: dict[str, t.Any]) -> None:
    action = _staged({"stage": "act"}, virt_decision=decided)
    with pytest.raises(FleetVirtError, match="virt_decision is no decision of this run"):
        action.decision("virt_decision")


def _reported(failing: dict[str, list[str]], **other: t.Any) -> dict[str, t.Any]:
    """The report of another verb, as the task that is one for all playbooks reads it."""
    header = _header(verb="virt_show", stage="report", shown=True)
    return {"changed": False, "_work": {**header, "failing": failing, **other}}


def test_end_after_report_of_any_verb_fails_hosts_that_failed() -> None:
    with pytest.raises(AnsibleError, match="something failed here"):
        _worked(_staged({"stage": "end"}, virt_reported=_reported({"hv1": ["hv1: no"]})))
    elsewhere = _reported({"hv2": ["hv2: no"]})
    assert _worked(_staged({"stage": "end"}, virt_reported=elsewhere)) == {"changed": False}


@pytest.mark.parametrize(
    "reported",
    [
        {},
        {"skipped": True, "changed": False},
        _reported({}, run="r0"),
        _reported({"hv1": ["hv1: no"]}, run="r0"),
        {**ANSWER, "_work": _header(stage="decide")},
    ],
    ids=["none", "skipped", "earlier play", "failed earlier play", "decision"],
)
def test_end_after_anything_but_report_of_this_play_is_refused(reported: dict[str, t.Any]) -> None:
    """The report of an earlier play, which imported another playbook, says nothing of this one."""
    with pytest.raises(FleetVirtError, match="virt_reported is no report of this run"):
        _worked(_staged({"stage": "end"}, virt_reported=reported))
