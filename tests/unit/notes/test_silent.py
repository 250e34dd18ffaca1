# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown of a hypervisor that does not answer: its last reading, and claims since."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import noted
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, silent
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes.silent import Told

from .test_rule import IDS, RUN, VM_UUID, WHEN, Notes, claimed, vm

OTHER = "d" * 8 + IDS[1][8:]


def told(notes: Notes, number: int, *held: str, here: t.Sequence[str] = ()) -> Told:
    return {"machine": IDS[number], "held": [*held], "texts": {**notes.texts}, "here": [*here]}


def names(found: t.Mapping[str, silent.SilentHost]) -> list[str]:
    return [own.name for own in found["hv3"].vms]


def known(**answers: Told) -> dict[str, silent.SilentHost]:
    return silent.known(answers, ["hv3"])


def test_vms_of_silent_host_are_those_of_its_last_reading() -> None:
    notes = Notes()
    old, new = notes.of(3, vm("a"), at=9_000), notes.of(3, vm("b", groups=["web"]))
    found = known(hv1=told(notes, 1, old), hv2=told(notes, 2, new))
    assert names(found) == ["b"]
    (own,) = found["hv3"].vms
    assert (own.groups, own.reason) == (("web",), f"active at {WHEN}, as hv2 noted")
    assert (found["hv3"].at, found["hv3"].by) == (WHEN, "hv2")


def test_host_that_answers_under_any_name_is_not_shown() -> None:
    notes = Notes()
    assert known(hv9=told(notes, 3), hv1=told(notes, 1, notes.of(3, vm()))) == {}
    assert known(hv1=told(notes, 1, notes.of(4, vm()))) == {}, "another hypervisor"
    assert known(hv1=told(Notes(), 1, notes.of(3, vm()))) == {}, "a content that was not told"


def test_vm_that_answers_elsewhere_is_not_shown() -> None:
    notes = Notes()
    held = [notes.of(3, vm("a"), vm("b", uuid=OTHER))]
    assert names(known(hv1=told(notes, 1, *held), hv2=told(notes, 2, here=[VM_UUID]))) == ["b"]


def marked(number: int, at: int, *, present: bool = True, host: str = "hv3") -> str:
    return note.MaintenanceMark(IDS[number], at, present, host).volume


def test_last_mark_of_silent_host_says_since_when_it_is_in_maintenance() -> None:
    notes = Notes()
    held = [marked(3, 10_000), notes.of(3, vm("a"))]
    answers = {"hv1": told(notes, 1, *held), "hv2": told(notes, 2, marked(3, 9_000, present=False))}
    assert silent.in_maintenance(answers, ["hv3"]) == {"hv3": WHEN}
    assert silent.known(answers, ["hv3"])["hv3"].maintenance == WHEN
    ended = {**answers, "hv2": told(notes, 2, marked(3, 11_000, present=False))}
    assert silent.in_maintenance(ended, ["hv3"]) == {}
    assert silent.in_maintenance({**answers, "hv9": told(notes, 3)}, ["hv3"]) == {}, "it answers"
    assert silent.in_maintenance(answers, ["hv4"]) == {}


def test_host_in_maintenance_is_shown_as_such_though_nothing_else_is_noted() -> None:
    entry = {"name": "hv3", "answered": False, "error": "no route", "domains": []}
    noted.add([entry], {"hv1": told(Notes(), 1, marked(3, 10_000))}, ["hv3"])
    shown = tables.render("list", [entry])
    assert f"hv3: in maintenance since {WHEN}; no answer: no route; nothing is noted" in shown


def test_claim_that_no_reading_settles_is_shown() -> None:
    notes = Notes()
    run = [note.Claim(IDS[3], 11_000, RUN, *own).volume for own in (("uuid", OTHER), ("name", "c"))]
    found = known(hv1=told(notes, 1, notes.of(3, vm("a")), *run))
    assert names(found) == ["a", "c"]
    assert found["hv3"].vms[1].reason == "claimed at 1970-01-01 00:00:11 UTC, as hv1 noted"
    assert found["hv3"].vms[1].uuid == OTHER
    moved_on = known(hv1=told(notes, 1, notes.of(3, vm("a")), *run, here=[OTHER]))
    assert names(moved_on) == ["a"]
    settled = notes.of(3, vm("c", uuid=OTHER), at=12_000)
    assert names(known(hv1=told(notes, 1, settled, *run))) == ["c"]
    assert not known(hv1=told(notes, 1, settled, *run))["hv3"].vms[0].claimed
    assert names(known(hv1=told(notes, 1, notes.of(3, at=9_999_999), claimed(3)))) == []


def test_claimed_vm_has_the_groups_that_were_claimed() -> None:
    notes = Notes()
    own = {**vm("c", uuid=OTHER, groups=["web"]), "run": RUN}
    run = [made.volume for made in note.claims_of(IDS[3], 11_000, RUN, [own])]
    (shown,) = known(hv1=told(notes, 1, notes.of(3), *run))["hv3"].vms
    assert (shown.name, shown.uuid, shown.groups, shown.claimed) == ("c", OTHER, ("web",), True)
    assert names(known(hv1=told(notes, 1, notes.of(3), *run, here=[OTHER]))) == []


def test_vms_of_batch_are_shown_but_for_those_that_answer_elsewhere() -> None:
    """Claimed together, and some have moved on: also those that are in no group."""
    notes, third = Notes(), IDS[7]
    batch = [
        {**vm("a", groups=["web"]), "run": RUN},
        {**vm("b", uuid=OTHER), "run": RUN},
        {**vm("c", uuid=third), "run": RUN},
    ]
    run = [made.volume for made in note.claims_of(IDS[3], 11_000, RUN, batch)]
    for here, shown in (((), ["a", "b", "c"]), ([VM_UUID], ["b", "c"]), ([VM_UUID, third], ["b"])):
        found = known(hv1=told(notes, 1, notes.of(3), *run, here=here))
        assert [(own.name, own.uuid is None) for own in found["hv3"].vms] == [
            (name, False) for name in shown
        ]


def test_hypervisors_are_given_what_is_known_of_them() -> None:
    notes = Notes()
    down: dict[str, t.Any] = {"name": "hv3", "answered": False, "domains": []}
    bare: dict[str, t.Any] = {"name": "hv4", "answered": False, "domains": []}
    answers = {"hv1": told(notes, 1, notes.of(3, vm("a"), vm("b", uuid=OTHER, managed=False)))}
    noted.add([down, bare], answers, ["hv3", "hv4"], ["b*"])
    (shown,) = down["domains"]
    assert (shown["name"], shown["state"], shown["metadata"]["managed"]) == ("b", "unknown", False)
    assert down["noted"] == {"at": WHEN, "by": "hv1", "vms": ["a", "b"], "claimed": 0}
    assert (bare["noted"], bare["domains"]) == (None, [])


def test_claimed_vms_are_not_counted_as_vms_that_it_had() -> None:
    notes = Notes()
    down: dict[str, t.Any] = {"name": "hv3", "answered": False, "error": "off", "domains": []}
    held = [notes.of(3, vm("a")), claimed(3, value="b"), claimed(3, value="c")]
    noted.add([down], {"hv1": told(notes, 1, *held)}, ["hv3"])
    assert (
        f"hv3: no answer: off; as hv1 noted at {WHEN} it had 1 VM; 2 claimed there may never have"
        " been built, or have left"
    ) in tables.render("list", [down])
