# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names rule: what must answer, what must be known of the rest, and what people are told."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes.note import Claim, Reading
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes.rule import Answering, Wanted

IDS = {n: f"{n:08x}-0000-4000-8000-000000000000" for n in range(1, 9)}
RUN, OTHER_RUN = "a" * 8 + IDS[1][8:], "b" * 8 + IDS[1][8:]
VM_UUID, MAC = "c" * 8 + IDS[1][8:], "52:54:00:00:00:0a"
DOWN = {"hv3": Silence("no route")}
WHEN = "1970-01-01 00:00:10 UTC"


def vm(name: str = "web9", **more: t.Any) -> t.Any:
    own = {"uuid": VM_UUID, "macs": [MAC], "addresses": [], "groups": [], "active": True}
    return {"name": name, **own, **more}


class Notes:
    """Readings with their content."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def of(self, number: int, *vms: t.Any, at: int = 10_000, host: str = "") -> str:
        text = note.text_of(host or f"hv{number}", vms)
        made = note.reading(IDS[number], at, text)
        self.texts[made.volume] = text
        return made.volume


def claimed(
    number: int, run: str = OTHER_RUN, at: int = 10_000, kind: str = "name", value: str = "web9"
) -> str:
    return Claim(IDS[number], at, run, kind, value).volume


def up(**held: list[str]) -> dict[str, Answering]:
    return {name: Answering(IDS[int(name[2:])], volumes) for name, volumes in held.items()}


def judged(
    answering: dict[str, Answering], notes: Notes, *excused: str, **silent: Silence
) -> rule.Standing:
    return rule.judge(answering, silent or DOWN, notes.texts, excused)


def test_silent_host_that_is_noted_is_no_problem() -> None:
    notes = Notes()
    standing = judged(up(hv1=[notes.of(3, vm("a"))], hv2=[]), notes)
    assert (standing.problem, standing.unknown) == ("", [])
    assert (standing.noted["hv3"].by, standing.noted["hv3"].when) == ("hv1", WHEN)
    assert rule.remarks(standing, ["new1"]) == [
        f"hv3 does not answer; as hv1 noted at {WHEN} it had 1 VM, none named new1"
    ]
    assert rule.remarks(standing, []) == []
    more = judged(up(hv1=[notes.of(3, vm("a")), claimed(3), claimed(3, value="a")], hv2=[]), notes)
    (remark,) = rule.remarks(more, ["new1"])
    assert remark.endswith("none named new1; 1 VM claimed there may have come since")


def test_vms_that_are_not_free_are_refused_with_a_remedy() -> None:
    notes = Notes()
    standing = judged(up(hv1=[notes.of(3, vm("a"), vm("b", uuid=OTHER_RUN))], hv2=[]), notes)
    where = f"is on hv3, which does not answer, as hv1 noted at {WHEN}"
    wanted = [Wanted("a"), Wanted("new1"), Wanted("b")]
    assert rule.not_free(wanted, standing, ()) == {
        "a": f"a VM named 'a' {where}",
        "b": f"a VM named 'b' {where}. Remedy: {rule.remedies(standing)}",
    }
    unknown = judged(up(hv1=[], hv2=[]), Notes())
    assert rule.not_free(wanted, unknown, ()) == dict.fromkeys(["a", "new1", "b"], unknown.problem)
    assert rule.not_free(wanted, rule.Standing(), ()) == {}


def test_mac_that_existing_vm_gets_is_compared_but_not_its_name() -> None:
    notes = Notes()
    held = [notes.of(3, vm("a")), claimed(3, kind="mac", value="52-54-00-00-00-0b")]
    standing = judged(up(hv1=held, hv2=[]), notes)
    assert rule.not_free([Wanted("a", ["52:54:00:00:00:0c"], exists=True)], standing, ()) == {}
    assert rule.not_free([Wanted("b", [MAC.upper()], exists=True)], standing, ()) == {
        "b": f"MAC address {MAC} of 'b' is that of 'a' on hv3, which does not answer, as hv1 noted"
        f" at {WHEN}. Remedy: {rule.remedies(standing, 'MAC address')}"
    }
    (why,) = rule.not_free([Wanted("b", ["52:54:00:00:00:0b"], exists=True)], standing, ()).values()
    assert "MAC address 52:54:00:00:00:0b was claimed on hv3" in why
    assert "choose another MAC address" in why


def test_claim_of_mac_is_void_once_its_vm_answers_elsewhere() -> None:
    notes = Notes()
    claims = note.claims_of_macs(IDS[3], 10_000, OTHER_RUN, {VM_UUID: [MAC], RUN: []})
    held = [notes.of(3), *(claim.volume for claim in claims)]
    assert [(claim.kind, claim.is_of(claim.kind, claim.value)) for claim in claims] == [
        ("uuid", True),
        ("mac", True),
    ]
    standing = judged(up(hv1=held, hv2=[]), notes)
    wanted = Wanted("b", [MAC], exists=True)
    assert len(rule.conflicts(wanted, standing)) == 1
    assert rule.conflicts(wanted, standing, {VM_UUID}) == []


def test_claim_whose_host_answers_without_the_vm_is_reported() -> None:
    held = [claimed(1), claimed(3), claimed(1, kind="mac", value=MAC), claimed(1, value="other")]
    assert rule.never_built(["web9"], up(hv1=[], hv2=held)) == [
        f"web9 was claimed on hv1 at {WHEN}, and hv1 has none: claimed, never built, or removed"
        " since; this run goes on"
    ]
    assert rule.never_built([], up(hv1=[], hv2=held)) == []


def test_silent_host_without_note_prevents_creation() -> None:
    standing = judged(up(hv1=[], hv2=[]), Notes())
    assert "(nothing is known of what hv3 had)" in standing.problem
    assert "-e virt_unasked=hv3" in standing.problem
    assert standing.unknown == ["hv3"]


def test_no_majority_of_fleet_prevents_creation() -> None:
    notes = Notes()
    held = [notes.of(3), notes.of(4)]
    silent = {"hv3": Silence("no route"), "hv4": Silence("no route")}
    standing = judged(up(hv1=held, hv2=[]), notes, **silent)
    assert "2 of 4 hypervisors answered; more than half must" in standing.problem
    assert not judged(up(hv1=held, hv2=[]), notes, "hv3", "hv4", **silent).problem
    assert not judged(up(hv1=held, hv2=[]), notes, "hv3", **silent).problem


def test_host_excluded_by_limit_is_not_silent() -> None:
    notes = Notes()
    away = {"hv3": Silence("excluded by --limit", asked=False)}
    standing = judged(up(hv1=[notes.of(3)], hv2=[]), notes, **away)
    assert "--limit is no reason not to ask" in standing.problem
    assert "virt_unasked" not in standing.problem


def test_host_that_answers_counts_by_its_answer() -> None:
    notes = Notes()
    answering = up(hv1=[notes.of(2, vm())], hv2=[], hv3=[])
    standing = rule.judge(answering, {}, notes.texts)
    assert (standing.problem, standing.noted, standing.foreign) == ("", {}, {})
    assert rule.conflicts(Wanted("web9"), standing) == []
    assert rule.silent_machines(answering) == []


def test_host_that_inventory_lacks_prevents_creation_until_lost() -> None:
    notes = Notes()
    answering = up(hv1=[notes.of(4)], hv2=[], hv3=[])
    standing = rule.judge(answering, {}, notes.texts)
    assert (
        f"hv4, machine {IDS[4]}, as hv1 noted at {WHEN} (the inventory lacks it)"
        in standing.problem
    )
    assert f"-e virt_hypervisors_lost={IDS[4]}" in standing.problem
    assert not rule.judge(answering, {}, notes.texts, [IDS[4]]).problem


def test_reinstalled_host_does_not_replace_its_note() -> None:
    notes = Notes()
    answering = {**up(hv1=[notes.of(2, vm())]), "hv2": Answering(IDS[5])}
    standing = rule.judge(answering, {}, notes.texts)
    assert "another machine answers by that name now" in standing.problem
    assert rule.conflicts(Wanted("web9"), standing) == [
        f"a VM named 'web9' is on hv2, which does not answer, as hv1 noted at {WHEN}"
    ]


def test_host_whose_note_cannot_be_read_prevents_creation() -> None:
    """A machine was noted after the hypervisors were asked: another inventory has it, and a run of
    that one may be creating the same. It was left out, as if there were no such machine."""
    notes = Notes()
    volume = notes.of(4)
    standing = rule.judge(up(hv1=[volume], hv2=[], hv3=[]), {}, {})
    assert f"machine {IDS[4]}, of which no note could be read" in standing.problem
    assert not rule.judge(up(hv1=[volume]), {}, {}, [IDS[4]]).problem
    assert not rule.judge(up(hv1=[volume]), {"hv4": DOWN["hv3"]}, {}, ["hv4"]).problem


def test_newer_reading_without_content_makes_older_reading_worthless() -> None:
    """hv1 noted a newer reading since it told its notes, and forgot the claim that was in it."""
    notes, newer = Notes(), Notes()
    old = notes.of(3, at=5_000)
    answering = up(hv1=[newer.of(3, vm())], hv2=[old])
    assert judged(answering, notes).unknown == ["hv3"]
    newer.texts.update(notes.texts)
    assert rule.conflicts(Wanted("web9"), judged(answering, newer))


def test_torn_reading_counts_as_none() -> None:
    notes = Notes()
    old, torn = notes.of(3, vm(), at=5_000), notes.of(3, at=6_000)
    notes.texts[torn] = ""
    standing = judged(up(hv1=[old, torn], hv2=[torn]), notes)
    assert standing.noted["hv3"].at == 5_000
    assert judged(up(hv1=[torn], hv2=[]), notes).unknown == ["hv3"]


def test_notes_of_several_holders_are_united() -> None:
    notes = Notes()
    first = notes.of(3, vm("a", uuid=IDS[6]), at=5_000)
    last = notes.of(3, vm("b", uuid=IDS[7]))
    standing = judged(up(hv1=[first, claimed(3)], hv2=[last]), notes)
    noted = standing.noted["hv3"]
    assert (noted.by, noted.at) == ("hv2", 10_000)
    assert sorted(own["name"] for own in noted.vms) == ["a", "b"]
    assert rule.conflicts(Wanted("web9"), standing) == [
        f"name web9 was claimed on hv3, which does not answer, at {WHEN}"
    ]


def test_name_uuid_or_mac_of_noted_vm_is_not_free() -> None:
    notes = Notes()
    standing = judged(up(hv1=[notes.of(3, vm())], hv2=[]), notes)
    end = f"hv3, which does not answer, as hv1 noted at {WHEN}"
    assert rule.conflicts(Wanted("WEB9"), standing) == [f"a VM named 'web9' is on {end}"]
    assert rule.conflicts(Wanted("new", [MAC.upper()]), standing) == [
        f"MAC address {MAC} of 'new' is that of 'web9' on {end}"
    ]
    assert rule.conflicts(Wanted("new", uuid=VM_UUID), standing) == [
        f"UUID {VM_UUID} of 'new' is that of 'web9' on {end}"
    ]
    assert rule.conflicts(Wanted("new"), standing) == []
    assert rule.remedies(standing).startswith("bring hv3 back; or choose another name")


def test_noted_vm_that_moved_to_host_that_answers_is_free() -> None:
    notes = Notes()
    held = [notes.of(3, vm()), claimed(3), claimed(3, kind="uuid", value=VM_UUID)]
    standing = judged(up(hv1=held, hv2=[]), notes)
    assert len(rule.conflicts(Wanted("web9"), standing)) == 2
    assert rule.conflicts(Wanted("web9"), standing, {VM_UUID}) == []


def test_claims_on_silent_host_are_reported_by_name_first() -> None:
    notes = Notes()
    mac = claimed(3, RUN, kind="mac", value=MAC.replace(":", "-"))
    standing = judged(up(hv1=[notes.of(3), mac, claimed(3)], hv2=[]), notes)
    where = f"was claimed on hv3, which does not answer, at {WHEN}"
    assert rule.conflicts(Wanted("web9", [MAC]), standing) == [
        f"name web9 {where}",
        f"MAC address {MAC} {where}",
    ]


def test_claims_of_vm_that_came_again_are_reported_as_its_last() -> None:
    """It was created there, left, and came back: each time its name and its address were noted."""
    notes, values = Notes(), (("name", "web9"), ("mac", MAC.replace(":", "-")))
    held = [
        claimed(3, run, at, kind, value)
        for run, at in ((OTHER_RUN, 10_000), (RUN, 20_000))
        for kind, value in values
    ]
    standing = judged(up(hv1=[notes.of(3), *held], hv2=held), notes)
    assert rule.conflicts(Wanted("web9", [MAC]), standing) == [
        "name web9 was claimed on hv3, which does not answer, at 1970-01-01 00:00:20 UTC"
    ]
    assert rule.conflicts(Wanted("new", [MAC]), standing) == [
        f"MAC address {MAC} was claimed on hv3, which does not answer, at 1970-01-01 00:00:20 UTC"
    ]


def test_own_claims_do_not_conflict() -> None:
    notes = Notes()
    standing = judged(up(hv1=[notes.of(3), claimed(3, RUN)], hv2=[]), notes)
    assert rule.conflicts(Wanted("web9"), standing, run=RUN) == []
    assert rule.conflicts(Wanted("web9"), standing, run=OTHER_RUN) != []


def test_claim_that_came_since_conflicts_on_host_that_answers() -> None:
    again = "run this again once that has ended: a claim without a VM prevents nothing then"
    mine, other = claimed(2, RUN), claimed(1)
    answering = up(hv1=[mine], hv2=[other, claimed(1, value="web8")])
    assert rule.claimed(Wanted("web9"), answering, RUN, []) == [
        f"name web9 was claimed meanwhile by another run; {again}"
    ]
    answering = up(hv1=[mine, claimed(1, kind="mac", value="52-54-00-00-00-0a"), other])
    assert rule.claimed(Wanted("web9", [MAC]), answering, RUN, []) == [
        f"name web9 and MAC address {MAC} were claimed meanwhile by another run; {again}"
    ]
    assert rule.claimed(Wanted("web9"), answering, RUN, [other]) == []


def test_wanted_values_have_uuid_where_chosen() -> None:
    assert Wanted("a", [MAC]).values() == [("name", "a"), ("mac", MAC)]
    assert Wanted("a", uuid=VM_UUID).values() == [("name", "a"), ("uuid", VM_UUID)]


def test_reading_of_answering_host_is_not_silent() -> None:
    held = [Reading(IDS[2], 1, "0" * 16).volume, Reading(IDS[4], 1, "0" * 16).volume, claimed(5)]
    assert rule.silent_machines(up(hv1=held, hv2=[])) == [IDS[4]]
