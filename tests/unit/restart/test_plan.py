# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VMs are restarted elsewhere by which steps, and from every state that a kill may leave."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.plan import RestartFacts

_SYSTEM, _DATA = "/srv/web1_system.qcow2", "/srv/web1_data.r3.raw"


def facts(**given: object) -> RestartFacts:
    usual = RestartFacts(
        name="web1",
        old=("hv3",),
        new="hv1",
        hosts=("hv3",),
        counter=3,
        paths=(_SYSTEM, _DATA),
        files=frozenset({_SYSTEM, _DATA}),
    )
    return dataclasses.replace(usual, **given)  # type: ignore[arg-type]


def _texts(before: RestartFacts) -> list[str]:
    return [step.text for step in plan.take_over(before).steps]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/srv/web1_system.qcow2", "/srv/web1_system.r4.qcow2"),
        ("/srv/web1_system.r3.qcow2", "/srv/web1_system.r4.qcow2"),
        ("/srv/web1.r3.r7.qcow2", "/srv/web1.r3.r4.qcow2"),
        ("/srv/web1", "/srv/web1.r4"),
        ("/srv/web1.r3", "/srv/web1.r4.r3"),
        ("/srv/.raw", "/srv/.raw.r4"),
        ("/srv.d/web1", "/srv.d/web1.r4"),
    ],
)
def test_disk_name_carries_counter(path: str, name: str) -> None:
    assert plan.disk_name(path, 4) == name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/srv/web1.r4.qcow2", "/srv/web1.r5.qcow2"),
        ("/srv/web1.r3.r7.qcow2", "/srv/web1.r3.r8.qcow2"),
        ("/srv/web1.r9.r4", "/srv/web1.r10.r4"),
        ("/srv/web1.r999999.qcow2", "/srv/web1.r4.qcow2"),
        ("/srv/web1.r9x.qcow2", "/srv/web1.r9x.r4.qcow2"),
    ],
)
def test_name_of_lost_card_is_not_given_again(path: str, name: str) -> None:
    """What an earlier hypervisor has defined would fit the disk again, when it comes back."""
    assert plan.new_names([path], 3) == (name,)


def test_vm_whose_card_lost_its_counter_is_taken_over() -> None:
    disk = "/srv/web1.r2.qcow2"
    made = plan.take_over(facts(counter=0, paths=(disk,), files=frozenset({disk})))
    assert "rename /srv/web1.r2.qcow2 to web1.r3.qcow2" in [step.text for step in made.steps]
    (written,) = [step.action for step in made.steps if isinstance(step.action, plan.WriteCard)]
    assert written == plan.WriteCard(("/srv/web1.r3.qcow2",), 3)


def test_vm_is_taken_over_in_this_order() -> None:
    assert _texts(facts()) == [
        "take the card of web1 from hv3",
        "rename /srv/web1_system.qcow2 to web1_system.r4.qcow2",
        "rename /srv/web1_data.r3.raw to web1_data.r4.raw",
        "write the new names of the disks into the card of web1",
        "define web1 on hv1",
    ]


def test_killed_takeover_reaches_goal_from_every_state() -> None:
    """Killed anywhere, run again, killed anywhere, and run again: nothing is lost, the old
    definition fits no disk, and only the last step makes the card name hv1 alone."""
    first = facts()
    pending, seen, number = [first], set(), 0
    for _kills in range(3):
        following = []
        for before in pending:
            steps = plan.take_over(before)
            assert not steps.refusals, (before, steps.refusals)
            for moment, state in interrupted(before, steps.steps):
                assert len(state.files - state.linked) == 2, (moment, state)
                assert not state.is_over, moment
                if state not in seen:
                    seen.add(state)
                    following.append(state)
            end = predict(before, steps.steps)
            number += 1
            assert end.defined == end.paths, "the domain names the disks of the card"
            assert set(end.paths) == end.files, "which exist"
            assert not {*end.paths} & {*first.paths}, "and the old definition fits none of them"
            last = plan.hand_over(end)
            assert predict(end, last.steps).hosts == ("hv1",)
        pending = following
    assert number > 12


def test_vm_of_two_hypervisors_is_taken_from_both() -> None:
    both = facts(old=("hv2", "hv3", "hv4"), hosts=("hv3", "hv2"))
    assert _texts(both)[0] == "take the card of web1 from hv3 and hv2"
    steps = plan.take_over(both).steps
    after = predict(both, steps[:1])
    assert (after.hosts, after.begun) == (("hv3", "hv2", "hv1"), True)
    assert predict(after, plan.hand_over(predict(both, steps)).steps).hosts == ("hv1",)
    one = dataclasses.replace(after, old=("hv3",))
    assert not one.begun, "hv2 is not proven off"
    assert "names hv3 and hv2 and hv1, not hv3" in "".join(plan.take_over(one).refusals)


def test_defined_vm_is_only_handed_over() -> None:
    before = facts(hosts=("hv3", "hv1"), defined=(_SYSTEM, _DATA))
    assert not plan.take_over(before).steps
    assert len(plan.hand_over(before).steps) == 1


def test_vm_that_is_handed_over_is_left_unchanged() -> None:
    before = facts(hosts=("hv1",), defined=(_SYSTEM, _DATA))
    assert not plan.take_over(before).steps
    assert not plan.hand_over(before).steps
    assert not plan.take_over(before).refusals


def test_vm_that_was_not_taken_over_is_not_handed_over() -> None:
    assert plan.hand_over(facts()).refusals
    assert plan.hand_over(facts(hosts=("hv3", "hv1"))).refusals


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hosts": ("hv2",)}, "names hv2, not hv3"),
        ({"hosts": ("hv3", "hv2")}, "names hv3 and hv2, not hv3"),
        ({"locked": (_DATA,)}, "web1_data.r3.raw is locked: a process still writes"),
        ({"files": frozenset({_DATA})}, "web1_system.qcow2 of 'web1' does not exist"),
        (
            {"files": frozenset({_SYSTEM, _DATA, "/srv/web1_data.r4.raw"})},
            "/srv/web1_data.r4.raw exists",
        ),
        ({"paths": ("/srv/a.r1.raw", "/srv/a.r2.raw")}, "would have one name"),
        ({"blockers": ("it has UEFI variables",)}, "it has UEFI variables"),
        ({"hosts": ("hv1",)}, "by this card hv1 has the VM 'web1', which it has not"),
        (
            {"hosts": ("hv3", "hv1"), "defined": (_SYSTEM,)},
            "has other disks than its card says",
        ),
        (
            {"hosts": ("hv3", "hv1"), "defined": (_SYSTEM, _DATA), "phase": "migrating"},
            "is in phase migrating",
        ),
    ],
)
def test_vm_that_cannot_be_taken_over_is_refused(given: dict[str, object], message: str) -> None:
    made = plan.take_over(facts(**given))
    assert not made.steps
    assert any(message in refusal for refusal in made.refusals), made.refusals
