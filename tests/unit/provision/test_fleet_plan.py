# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet beside what is asked for: every VM has one entry, and nobody is guessed at."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.fleet_plan import (
    Place,
    PlannedVm,
    compare,
    is_empty,
    missing,
    refusals,
    summary,
    text,
)


def vm(name: str, managed: bool = True, phase: str | None = None) -> dict[str, t.Any]:
    return {"name": name, "uuid": f"uuid of {name}", "managed": managed, "phase": phase}


def answer(
    *there: dict[str, t.Any], waits: t.Sequence[str] = (), **differences: t.Any
) -> dict[str, t.Any]:
    """``differences``: lines by VM; a tuple for those of a drift."""
    compared = [
        {
            "name": name,
            "differences": lines if lines is None else list(lines),
            "drift": isinstance(lines, tuple),
            "pending": list(waits),
        }
        for name, lines in differences.items()
    ]
    return {"host": {"vms": list(there)}, "vms": compared}


def seen(answers: dict[str, dict[str, t.Any]]) -> dict[str, t.Any]:
    return answers


LINE = "memory: requested 2GiB, is 1GiB"
REFUSED = "a VM named 'a' is on hv2, which does not answer"
CASES: list[tuple[dict[str, t.Any], dict[str, str], PlannedVm]] = [
    ({"hv1": answer(vm("a"), a=[])}, {}, PlannedVm("a", "unchanged", "hv1")),
    ({"hv1": answer(vm("a"), a=[LINE])}, {}, PlannedVm("a", "change", "hv1", (LINE,))),
    ({"hv1": answer(vm("a"), a=(LINE,))}, {}, PlannedVm("a", "drift", "hv1", (LINE,))),
    (
        {"hv1": answer(vm("a"), a=[], waits=["memory_max"])},
        {},
        PlannedVm("a", "restart", "hv1", ("memory_max waits for the next start",), True),
    ),
    (
        {"hv1": answer(vm("a"), a=[LINE], waits=["boot"])},
        {},
        PlannedVm("a", "change", "hv1", (LINE, "boot waits for the next start"), True),
    ),
    (
        {"hv1": answer(vm("a", phase="creating"), a=None)},
        {},
        PlannedVm("a", "finish", "hv1", ("in phase creating",)),
    ),
    ({"hv1": answer()}, {}, PlannedVm("a", "create", "hv9")),
    (
        {"hv1": answer(), "hv9": {**answer(), "taken": [{"name": "a", "reasons": ["a file"]}]}},
        {},
        PlannedVm("a", "create", "hv9", ("refused: a file",)),
    ),
    (
        {"hv1": {**answer(), "taken": [{"name": "a", "reasons": ["a file"]}]}, "hv9": answer()},
        {},
        PlannedVm("a", "create", "hv9"),
    ),
    # a VM that is found is where it is, whoever else is silent
    ({"hv1": answer(vm("a"), a=[])}, {"b": REFUSED}, PlannedVm("a", "unchanged", "hv1")),
    # nor does another VM's refusal concern it
    ({"hv1": answer()}, {"b": REFUSED}, PlannedVm("a", "create", "hv9")),
    ({"hv1": answer()}, {"a": REFUSED}, PlannedVm("a", "unknown", None, (REFUSED,))),
]


@pytest.mark.parametrize(("answers", "refused", "expected"), CASES)
def test_what_is_asked_for(
    answers: dict[str, t.Any], refused: dict[str, str], expected: PlannedVm
) -> None:
    assert compare(["a"], seen(answers), {"a": Place("hv9")}, refused) == [expected]


def test_vms_refused_for_the_same_reason_are_named_together() -> None:
    places = {"c": Place(None, "no memory")}
    entries = compare(["a", "b", "c"], {}, places, dict.fromkeys("ab", "w"))
    assert refusals(entries) == ["c: no memory", "a, b: w"]


@pytest.mark.parametrize(
    ("answers", "action", "part"),
    [
        ({"hv1": {"host": {"vms": [vm("a")]}}}, "unknown", "was not compared"),
        ({"hv1": answer(vm("a", False), a=None)}, "conflict", "not made by this collection"),
        ({"hv1": answer(vm("a")), "hv2": answer(vm("a"))}, "conflict", "the same UUID"),
    ],
)
def test_what_cannot_be_told_is_said(answers: dict[str, t.Any], action: str, part: str) -> None:
    (entry,) = compare(["a"], seen(answers), {})
    assert entry.action == action
    assert part in entry.details[0]


@pytest.mark.parametrize(
    ("lines", "action"),
    [([], "change"), ([LINE], "change"), ((LINE,), "drift"), (None, "conflict")],
)
def test_existing_vm_whose_image_cannot_be_read_is_refused(lines: t.Any, action: str) -> None:
    answers = seen({"hv1": answer(vm("a"), a=lines)})
    (entry,) = compare(["a"], answers, {}, {}, {"a": "image 'none': there is no such file"})
    assert entry.action == action
    refused = "refused: image 'none': there is no such file"
    assert (entry.details[-1] == refused) == (action != "conflict")


def test_what_fits_nowhere_says_why() -> None:
    places = {"a": Place(None, "hv1: no memory")}
    (entry,) = compare(["a"], seen({"hv1": answer()}), places)
    assert entry == PlannedVm("a", "nowhere", None, ("hv1: no memory",))


def test_what_nobody_asks_for_is_named_too() -> None:
    answers = {
        "hv1": answer(vm("kept"), vm("mine"), vm("other", managed=False), kept=[]),
        "hv2": answer(vm("moving", phase="migrating")),
    }
    found = compare(["kept"], seen(answers), {})
    assert [(one.name, one.action, one.hypervisor) for one in found] == [
        ("moving", "finish", "hv2"),
        ("mine", "surplus", "hv1"),
        ("other", "unmanaged", "hv1"),
        ("kept", "unchanged", "hv1"),
    ]
    assert summary(found) == "1 unfinished, 1 surplus, 1 unmanaged, 1 unchanged"
    assert missing(["kept", "new", "mine"], seen(answers)) == ["new"]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["unchanged", "unmanaged"], True),
        ([], True),
        *[([one], False) for one in ("create", "nowhere", "unknown", "conflict", "finish")],
        *[([one, "unchanged"], False) for one in ("change", "drift", "restart", "surplus")],
    ],
)
def test_a_plan_is_empty_if_there_is_nothing_to_do(actions: list[str], expected: bool) -> None:
    assert is_empty([PlannedVm(one, one) for one in actions]) is expected


def test_the_table_has_a_line_for_each_difference() -> None:
    differs = PlannedVm("a", "change", "hv1", (LINE, "vcpus: requested 2, is 1"))
    shown = text([differs, PlannedVm("b", "create")])
    lines = shown.splitlines()
    assert [line.split() for line in lines[1:2]] == [["a", "hv1", "differs", *LINE.split()]]
    assert lines[2].strip() == "vcpus: requested 2, is 1"
    assert lines[-1] == "1 to create, 1 differs"
    assert text([]) == "no VM is requested, and none exists\n"
