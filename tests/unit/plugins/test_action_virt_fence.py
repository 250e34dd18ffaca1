# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Of several hypervisors each is proven off, and nothing is switched before it is known how."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.action import virt_fence
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _stated

_AGENT = {"agent": "fence_ipmilan", "ip": "192.0.2.113"}
_OFF = {"changed": False, "outcome": "was off already"}


def _asked(
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    answers: t.Mapping[str, dict[str, t.Any]],
    *,
    declared: t.Collection[str] = ("hv2", "hv3"),
    stated: t.Sequence[str] = (),
    ignored: t.Sequence[str] = (),
) -> tuple[dict[str, t.Any], list[dict[str, t.Any]]]:
    """The action's answer, and what the module got."""
    variables = {
        name: {"ansible_host": f"of {name}", **({"virt_fence": _AGENT} if name in declared else {})}
        for name in ("hv1", "hv2", "hv3")
    }
    sent: list[dict[str, t.Any]] = []

    class Action(virt_fence.ActionModule):
        def __init__(self) -> None:
            self._values = {"hostvars": variables}
            self._templar = types.SimpleNamespace(template=lambda value: value)
            self._task = types.SimpleNamespace(args={"host": host})

        def module(self, _task_vars: t.Any, arguments: t.Any = None) -> t.Any:
            sent.append(arguments)
            return {"text": f"{arguments['host']} was off", **answers[arguments["host"]]}

    monkeypatch.setattr(
        _stated,
        "for_this_run",
        lambda _action, name: [*(stated if name == "virt_fenced" else ignored)],
    )
    action: t.Any = Action()
    return action.asked(Work(stage="act"), action._values), sent


def test_each_hypervisor_is_proven_off(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"hv3": _OFF, "hv2": {"changed": True, "outcome": "is switched off"}}
    answer, sent = _asked(monkeypatch, "hv3,hv2", answers)
    assert [(one["host"], one["addresses"]) for one in sent] == [
        ("hv3", ["of hv3"]),
        ("hv2", ["of hv2"]),
    ]
    assert (answer["changed"], answer["outcome"]) == (True, "is switched off")
    assert answer["text"] == "hv3 was off; hv2 was off"


def test_hypervisor_that_is_stated_to_be_off_needs_no_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {"hv3": _OFF, "hv2": _OFF}
    sent = _asked(monkeypatch, "hv3,hv2", answers, declared=["hv2"], stated=["hv3"])[1]
    assert [one.get("stated") for one in sent] == [True, None]
    assert [bool(one.get("devices")) for one in sent] == [False, True]


def test_second_hypervisor_that_is_not_proven_off_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = {"failed": True, "msg": "hv2 is not proven off"}
    answer, sent = _asked(monkeypatch, "hv3,hv2", {"hv3": _OFF, "hv2": failed})
    assert answer["failed"]
    assert answer["msg"] == "hv3 was off; hv2 is not proven off"
    assert len(sent) == 2


def test_hypervisor_without_agent_prevents_that_another_is_switched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(PlanRefused, match="hv2 is not proven off: its variable virt_fence is miss"):
        _asked(monkeypatch, "hv3,hv2", {}, declared=["hv3"])


def test_statement_of_another_hypervisor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanRefused, match="virt_fenced names hv1, not hv3 or hv2"):
        _asked(monkeypatch, "hv3,hv2", {}, stated=["hv1"])


def test_sign_is_ignored_of_named_hypervisor_with_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = _asked(monkeypatch, "hv3,hv2", {"hv3": _OFF, "hv2": _OFF}, ignored=["hv3"])[1]
    assert {one["host"]: one["ignore_signs"] for one in sent} == {"hv3": True, "hv2": False}
    with pytest.raises(PlanRefused, match="virt_fenced and virt_signs_ignored name hv3"):
        _asked(monkeypatch, "hv3", {}, stated=["hv3"], ignored=["hv3"])
    with pytest.raises(PlanRefused, match="virt_signs_ignored names hv1, not hv3"):
        _asked(monkeypatch, "hv3", {}, ignored=["hv1"])
