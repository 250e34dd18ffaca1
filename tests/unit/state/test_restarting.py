# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that need a restart come one after another within each of their groups."""

from __future__ import annotations

import itertools
import random
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import restarting
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.restarting import (
    Answers,
    Noted,
    Order,
)

_GROUPS = {"a": ["web"], "b": ["web", "blue"], "c": ["blue"], "d": [], "e": []}
_SHARES = {"hv1": ["a", "c", "d"], "hv2": ["b", "e"]}


def _looked(shares: dict[str, list[str]], groups: dict[str, list[str]]) -> dict[str, t.Any]:
    return {
        host: {"vms": [{"name": name, "groups": groups[name]} for name in names]}
        for host, names in shares.items()
    }


def _answer(*names: str, **values: object) -> dict[str, t.Any]:
    return {"vms": [{"name": name, "failed": False, "msg": None, **values} for name in names]}


def test_no_two_of_a_group_are_in_one_round() -> None:
    order = restarting.order(_SHARES, _looked(_SHARES, _GROUPS))
    assert order.rounds == [{"hv1": ["a", "c", "d"]}, {"hv2": ["b", "e"]}]
    chance = random.Random(18)  # noqa: S311
    for _turn in range(200):
        names = [f"vm{number}" for number in range(chance.randint(0, 9))]
        groups = {name: chance.sample("abcd", chance.randint(0, 3)) for name in names}
        shares: dict[str, list[str]] = {}
        for name in names:
            shares.setdefault(chance.choice(["hv1", "hv2"]), []).append(name)
        order = restarting.order(shares, _looked(shares, groups))
        told = [name for one in order.rounds for some in one.values() for name in some]
        assert sorted(told) == sorted(names)
        for one in order.rounds:
            together = [name for some in one.values() for name in some]
            for left, right in itertools.combinations(together, 2):
                assert not set(groups[left] or [""]) & set(groups[right] or [""])


def test_whose_groups_are_not_known_is_not_restarted() -> None:
    order = restarting.order(_SHARES, {"hv1": _looked(_SHARES, _GROUPS)["hv1"]})
    assert order.rounds == [{"hv1": ["a", "c", "d"]}]
    assert set(order.unread) == {"b", "e"}
    noted = restarting.note(order, 0, Answers({}, {"hv1": _answer("a", "c", "d")}, {}), Noted())
    assert set(noted.failures) == {"b", "e"}


def test_required() -> None:
    entries = [
        {"name": "a", "restart_required": True},
        {"name": "b", "restart_required": False},
        {"name": "c", "failed": True},
    ]
    done = {"hv2": [{"name": "d", "restart_required": True}]}
    made = {"hv1": {"vms": entries}, "hv2": {"skipped": True}}
    assert restarting.required(made, done) == {"hv1": ["a"], "hv2": ["d"]}


def _note(order: Order, number: int, answers: Answers, earlier: Noted) -> Noted:
    """By way of Ansible, which knows mappings alone."""
    return restarting.note(
        restarting.read_order(vars(order)), number, answers, restarting.read_noted(vars(earlier))
    )


def test_a_failure_stops_its_groups_and_no_other() -> None:
    groups = {"a1": ["a"], "a2": ["a"], "a3": ["a"], "b1": ["b"], "b2": ["b"], "n1": [], "n2": []}
    shares = {"hv1": list(groups)}
    order = restarting.order(shares, _looked(shares, groups))
    assert order.rounds[0] == {"hv1": ["a1", "b1", "n1"]}
    before = {"hv1": _answer("a1", "b1", answered=True)}
    restarted = {"hv1": _answer("a1", "b1", "n1")}
    # b1 does not answer as it did; n1 never did
    waited: dict[str, t.Any] = {"hv1": _answer("a1", answered=True)}
    waited["hv1"]["vms"] += _answer("b1", answered=False, msg="no address")["vms"]
    noted = _note(order, 0, Answers(before, restarted, waited), Noted())
    assert noted.restarted == ["a1", "b1", "n1"]
    assert noted.left == ["b2"]
    assert noted.failures["b1"].startswith("b1 on hv1: no address; it was restarted")
    assert "'b1', of its group 'b', failed" in noted.failures["b2"]

    # of the second round a2 does not start again, and hv1 says nothing of n2
    failed = {"hv1": _answer("a2", failed=True, msg="no disk")}
    noted = _note(order, 1, Answers({}, failed, {}), noted)
    assert noted.left == ["b2", "a3"]
    assert noted.failures["a2"] == "a2 on hv1: no disk"
    assert set(noted.failures) == {"a2", "a3", "b1", "b2", "n2"}
    assert noted.restarted == ["a1", "b1", "n1"]

    # who is left is not looked for among the answers of its round
    noted = _note(order, 2, Answers({}, {}, {}), noted)
    assert set(noted.failures) == {"a2", "a3", "b1", "b2", "n2"}


def test_those_without_a_group_stop_each_other() -> None:
    groups: dict[str, list[str]] = {"a": [], "b": []}
    order = restarting.order({"hv1": ["a", "b"]}, _looked({"hv1": ["a", "b"]}, groups))
    assert order.rounds == [{"hv1": ["a"]}, {"hv1": ["b"]}]
    failed = {"hv1": _answer("a", failed=True, msg="no disk")}
    noted = _note(order, 0, Answers({}, failed, {}), Noted())
    assert noted.left == ["b"]
    assert "'a', in no group either, failed before it" in noted.failures["b"]
