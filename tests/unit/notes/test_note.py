# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notes: their names, their content, and which of them a hypervisor lacks or needs no more."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes.note import Claim, Reading

A = "aaaaaaaa-0000-4000-8000-000000000001"
B = "bbbbbbbb-0000-4000-8000-000000000002"
RUN = "11111111-0000-4000-8000-000000000001"
OTHER_RUN = "22222222-0000-4000-8000-000000000002"
VM_UUID = "cccccccc-0000-4000-8000-000000000003"
MAC = "52:54:00:00:00:01"
HOURS = 2 * 3_600_000


def vm(name: str = "web9", **more: t.Any) -> t.Any:
    own = {"uuid": VM_UUID, "macs": [MAC], "addresses": [], "groups": [], "active": True}
    return {"name": name, **own, "managed": True, **more}


def claim(at: int = 10, **more: t.Any) -> Claim:
    given = {"machine": A, "at": at, "run": RUN, "kind": "name", "value": "web9", **more}
    return Claim(**given)


def reading(at: int, *vms: t.Any, machine: str = A) -> Reading:
    return note.reading(machine, at, note.text_of("hv1", vms))


@pytest.mark.parametrize(
    "made",
    [
        reading(1_700_000_000_000),
        claim(),
        claim(kind="uuid", value=VM_UUID),
        claim(kind="mac", value="52-54-00-00-00-01"),
        claim(value="a.b_c-D9"),
    ],
    ids=lambda made: made.volume[:60],
)
def test_note_volume_parses_back_to_the_same_note(made: note.Note) -> None:
    assert note.parse(made.volume) == made
    assert note.notes([made.volume, "web9.qcow2"]) == [made]


@pytest.mark.parametrize(
    "volume",
    [
        "",
        "lost+found",
        f"reading.{A}.10",
        f"reading.{A}.10.123",
        f"reading.{A}.-1.{'0' * 16}",
        f"reading.hv1.10.{'0' * 16}",
        f"claim.{A}.10.{RUN}.disk.web9",
        f"claim.{A}.10.{RUN}.name.",
        f"claim.{A}.10.{RUN}.name.web/9",
        f"claim.{A}.10.web.name.web9",
        f" {claim().volume}",
        f"{claim().volume}\n",
    ],
)
def test_other_volume_is_no_note(volume: str) -> None:
    assert note.parse(volume) is None


def test_claim_of_value_ignores_case_and_spelling_of_mac() -> None:
    assert claim(value="Web9").is_of("name", "wEB9")
    assert claim(kind="mac", value="52-54-00-00-00-0a").is_of("mac", "52:54:00:00:00:0A")
    assert not claim().is_of("uuid", "web9")


def test_text_of_the_same_vms_in_another_order_has_the_same_digest() -> None:
    first, second = vm("a", uuid=A), vm("b", uuid=B)
    text = note.text_of("hv1", [first, {**second, "disks": ["/x"]}])
    assert text == note.text_of("hv1", [second, first])
    assert note.digest_of(text) == note.reading(A, 1, text).digest


def test_opened_text_has_host_and_vms() -> None:
    text = note.text_of("hv1", [vm()])
    assert note.opened(note.reading(A, 1, text), text) == ("hv1", [vm()])


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", '{"vms":[]}', '{"host":1,"vms":[]}', '{"host":"hv1","vms":{}}', "{}"],
)
def test_text_of_no_reading_is_not_opened(text: str) -> None:
    assert note.opened(note.reading(A, 1, text), text) is None


def test_packed_text_is_opened_unless_torn_or_endless() -> None:
    text = note.text_of("hv1", [vm()])
    made, sent = note.reading(A, 1, text), note.packed(text)
    assert note.opened(made, sent) == ("hv1", [vm()])
    assert not [cut for cut in range(len(sent)) if note.opened(made, sent[:cut]) is not None]
    endless = "x" * (5 * 1024 * 1024)
    assert note.opened(note.reading(A, 1, endless), note.packed(endless)) is None


def test_torn_or_forged_text_is_not_opened() -> None:
    text = note.text_of("hv1", [vm()])
    for torn in (text[:-1], "", text.replace("web9", "web8")):
        assert note.opened(note.reading(A, 1, text), torn) is None


def test_entry_with_wrong_types_is_read_without_them() -> None:
    text = '{"host":"hv1","vms":[{"name":"a","macs":"x","active":1}]}'
    opened = note.opened(note.reading(A, 1, text), text)
    assert opened is not None
    assert (opened[1][0]["name"], opened[1][0]["macs"], opened[1][0]["active"]) == ("a", [], True)


def test_claims_of_run_are_name_uuid_and_macs_of_its_vms() -> None:
    claims = note.claims_of(A, 10, RUN, [vm(run=RUN), vm("other", run=None)])
    assert [(own.kind, own.value) for own in claims] == [
        ("name", "web9"),
        ("uuid", VM_UUID),
        ("mac", "52-54-00-00-00-01"),
    ]
    assert all(note.parse(own.volume) == own for own in claims)


def test_claim_of_vm_in_groups_says_which_and_goes_with_its_reading() -> None:
    own = vm("web.9", run=RUN, groups=["web", "db"])
    (told,) = [made for made in note.claims_of(A, 10, RUN, [own]) if made.kind == "vm"]
    assert note.parse(told.volume) == told
    assert note.vm_of(told) == (VM_UUID, "web.9", ["web", "db"])
    assert note.settles([own], 11, told)
    assert not note.settles([vm("web.9", uuid=A)], 11, told)
    long = vm("w" * 60, run=RUN, groups=["g" * 60, "h" * 60])
    assert "vm" not in {made.kind for made in note.claims_of(A, 10, RUN, [long])}
    assert note.vm_of(claim(kind="vm", value="x.y")) is None


def test_claims_of_several_vms_say_which_uuid_is_whose() -> None:
    own = [vm("web.9", run=RUN), vm("web8", uuid=A, run=RUN)]
    told = [made for made in note.claims_of(A, 10, RUN, own) if made.kind == "vm"]
    assert [note.vm_of(made) for made in told] == [(VM_UUID, "web.9", []), (A, "web8", [])]
    assert [note.parse(made.volume) for made in told] == told


def test_claims_in_volumes_leave_out_those_of_the_run() -> None:
    own, other = claim(), claim(run=OTHER_RUN)
    volumes = [other.volume, own.volume, reading(1).volume, "x"]
    assert note.claims_in(volumes) == sorted([own.volume, other.volume])
    assert note.claims_in(volumes, RUN) == [other.volume]


def test_latest_reading_of_each_host_is_the_last_by_its_clock() -> None:
    held = [reading(2, vm()), reading(3), reading(1), reading(1, machine=B), claim(99)]
    assert note.latest(held) == {A: reading(3), B: reading(1, machine=B)}


@pytest.mark.parametrize(
    ("vms", "at", "expected"),
    [
        ([vm()], 10, False),  # not later
        ([vm()], 11, True),  # it was built
        ([], 11, False),  # it may be on its way
        ([], 11 + HOURS, True),  # never built
        ([vm("other", uuid=B, macs=[])], 11, False),
        ([vm(f"web9{note.ARRIVING}")], 11, True),  # a move under way
    ],
)
def test_claim_is_replaced_by_later_reading_with_vm_or_after_hours(
    vms: list[t.Any], at: int, expected: bool
) -> None:
    assert note.settles(vms, at, claim(10)) == expected


def test_superseded_notes_are_earlier_readings_and_void_claims_of_that_host() -> None:
    old, newer, own = reading(5), reading(30), claim(10)
    later, elsewhere = claim(25), claim(1, machine=B)
    held = [old, newer, own, later, elsewhere, reading(1, machine=B)]
    assert note.superseded(held, reading(20, vm()), [vm()]) == [old, own]
    assert note.superseded(held, reading(20), []) == [old]


def test_lacking_readings_are_new_or_differ_or_settle_a_claim() -> None:
    current = {reading(20, vm()): [vm()]}
    (wanted,) = current
    assert note.lacking([], current) == [wanted]
    assert note.lacking([reading(10)], current) == [wanted]
    assert note.lacking([reading(10, vm())], current) == []
    assert note.lacking([reading(10, vm()), claim(15)], current) == [wanted]
    assert note.lacking([reading(10, vm()), claim(25)], current) == []
    assert note.lacking([reading(20)], current) == []
    assert note.lacking([reading(21)], current) == []


def test_claims_of_others_are_passed_on_but_not_to_their_host() -> None:
    on_a, on_b = claim().volume, claim(machine=B).volume
    held = {"hv1": [on_b], "hv2": [on_a], "hv3": [reading(1).volume]}
    machines = {"hv1": A, "hv2": B, "hv3": RUN}
    assert note.passed_on(held, machines) == {"hv1": [], "hv2": [], "hv3": [on_a, on_b]}


def test_mark_is_news_if_it_is_later_and_says_something_else() -> None:
    def mark(at: int, *, present: bool = True) -> note.MaintenanceMark:
        return note.MaintenanceMark(A, at, present, "hv-3.example")

    assert note.parse(mark(5).volume) == mark(5)
    assert note.is_news([], mark(5))
    assert not note.is_news([mark(5)], mark(6)), "since when it is, is kept"
    assert note.is_news([mark(5)], mark(6, present=False))
    assert not note.is_news([mark(5)], mark(4, present=False)), "a message that comes late"
    reading = note.reading(A, 9, note.text_of("hv-3.example", []))
    assert note.superseded([mark(5)], reading, []) == []
