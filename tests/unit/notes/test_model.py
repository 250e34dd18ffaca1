# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names rule in every order of steps and faults: never two VMs of a name that both arose by
creations, and what is requested is created where nothing stands against it. Without any sentence of
the rule there is a history that breaks this.

Together they take less than 60 seconds of a processor; each prints its number of states.
"""

from __future__ import annotations

import time

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule
from ansible_collections.fleet.virt.tests.unit.notes._model import Model, Setting
from ansible_collections.fleet.virt.tests.unit.notes._product import Edit, Product
from ansible_collections.fleet.virt.tests.unit.notes._search import Wrong, search

_SAME = ("ABC", "ABC")
_NOTED = ("ABC",)
_HOMES = ("A", "AB")  # where hypervisors are alike, the first VM's is A, and another's is B
_NO_LATE = "silent other torn"

# With the fewest states, so that a model that misses most of them is noticed
_SETTINGS = [
    (140_000, Setting("three", _SAME, (1, 1), 0, "", _NOTED, _HOMES)),
    (10_000, Setting("nothing noted", _SAME, (2, 1), 1, _NO_LATE, in_turn=True)),
    (4_000, Setting("two faults", _SAME, (1, 1), 2, _NO_LATE, _NOTED, _HOMES, in_turn=True)),
    (
        30_000,
        Setting("two", ("AB", "AB"), (1, 1), 0, "", ("AB",), _HOMES, rounds=0, doubtful="AB"),
    ),
    (30_000, Setting("two views", ("ABC", "CDE"), (1, 1), 0, "", (), doubtful="C")),
    (
        80_000,
        Setting("three and five", ("ABC", "ABCDE"), (1, 1), 0, "", _NOTED, ("A", "AD"), rounds=0),
    ),
]
_AT_ONCE = Setting("three", _SAME, (1, 1), 0, "", _NOTED, _HOMES, rounds=0)
_IN_TURN = Setting("in turn", _SAME, (1, 1), 0, "", _NOTED, _HOMES, in_turn=True, doubtful="A")
_AB = Setting("A, B", _SAME, (1, 1), 0, "", _NOTED, _HOMES, in_turn=True, doubtful="AB")
_ALL = Setting("all", _SAME, (1, 1), 0, "", _NOTED, _HOMES, in_turn=True, doubtful="ABC")
_TWO = Setting("two", ("AB", "AB"), (1, 1), 0, "", ("AB",), _HOMES, in_turn=True, doubtful="AB")
_VIEWS = Setting("two views", ("ABC", "CDE"), (1, 1), 0, "", _NOTED, ("AC", "CD"))
_FRESH = Setting("nothing noted", ("ABC", "CDE"), (1, 1), 0, "", (), ("A", "D"))
_OTHER = Setting("another machine", _SAME, (1, 1), 1, "other", _NOTED, _HOMES, in_turn=True)
_OTHERS = Setting(
    "two more", _SAME, (1, 1), 2, "other", _NOTED, ("A", "B"), in_turn=True, doubtful="A"
)
_MEANWHILE = Setting("meanwhile", _SAME, (1, 1), 1, "other", _NOTED, ("A", "A"), rounds=0)
_CRASH = Setting("crash", _SAME, (1, 1), 0, "", (), _HOMES, in_turn=True)
# A reading of A is on its way to C, while A's VM is built and C alone notes it
_FIRST = """
1, run 0 begins
1, run 1: look A (unread)
1, run 1: look B (unread)
1, run 1: look C (unread)
1, run 1: claim on B
1, run 1: at once A (unread), in vain
1, run 1: write A (unread), in vain
1, run 1: write C (unread), but late
1, run 1: withdraw on B
2, run 0 begins
2, run 1: look A (unread)
2, run 1: look B (unread)
2, run 1: look C (unread)
2, run 1: claim on A
2, run 1: at once B (unread), in vain
2, run 1: write B (unread), in vain
2, run 1: write C (unread), in vain
2, run 1: withdraw on A
2, run 1 begins
2, run 2: look A (unread)
2, run 2: look B (unread), in vain
2, run 2: look C (unread)
2, run 2: ask A (unread)
2, run 2: ask C (unread)
2, run 3: look A (unread)
2, run 3: look B (unread), in vain
2, run 3: look C (unread)
2, run 3: claim on A
2, run 3: write B (unread), in vain
2, run 3: write C (unread)
2, run 3: write C (written)
2, run 3: finish on A
"""
_LATE = Setting(
    "late",
    ("ABC", "ABC", "ABC"),
    (1, 2, 1),
    1,
    "late",
    ("AB", "BC"),
    ("B", "A", "C"),
    rounds=0,
    doubtful="ABC",
    begins=tuple(f"controller {line}" for line in _FIRST.split("\n") if line),
    in_turn=True,
)

_SEEN = "and claim.volume not in seen"
# A reading settles claims at once, not only after hours
_NO_GRACE: Edit = (note, "at - claim.at > GRACE or any(", "at > claim.at or any(")
_ANY: Edit = (note, "    if claim.at >= at:\n        return False\n", "    return True\n")
_HELD = "        held = [note for note in notes(host.held) if note.machine == machine]"
_SILENT = "{note.machine for note in held if isinstance(note, Reading)} - there"
_EXCUSED = "        if machine in excused or (noted"
# What is left out, and where that shows: a change of a text, or a step of the order
_WITHOUT: list[tuple[str, Setting, list[Edit], list[str]]] = [
    ("claims are noted", _IN_TURN, [], ["claims"]),
    ("claims are compared", _FRESH, [], ["compared"]),
    (
        "claims on a silent hypervisor count",
        _IN_TURN,
        [(rule, "if claim.run != run and claim.run not in moved", "if not claim.run")],
        [],
    ),
    ("a claim stays until a reading that is later", _LATE, [_NO_GRACE, _ANY], []),
    ("a reading has its hypervisor's time", _LATE, [_NO_GRACE], ["stamped"]),
    (
        "what several hold is united",
        _AB,
        [(rule, _HELD, f"        if united is not None:\n            break\n{_HELD}")],
        [],
    ),
    (
        "a note counts only while its hypervisor is silent",
        _IN_TURN,
        [(rule, _SILENT, _SILENT.replace(" - there", ""))],
        [],
    ),
    (
        "a claim whose hypervisor answers without the VM was never built",
        _IN_TURN,
        [(rule, _SEEN, "")],
        [],
    ),
    (
        "more than half answer",
        _TWO,
        [(rule, "len(answering) * 2 <= total", "len(answering) * 2 < total")],
        [],
    ),
    (
        "something is known of each silent hypervisor",
        _OTHERS,
        [(rule, "elif standing.unknown:", "elif False:")],
        [],
    ),
    (
        "machines that the inventory lacks belong to the fleet",
        _VIEWS,
        [(rule, "standing.foreign[machine] = noted", "pass")],
        [],
    ),
    (
        "so do those of which no note can be read",
        _MEANWHILE,
        [(rule, "            unread.append(machine)", "            pass")],
        [],
    ),
    (
        "another machine of the name does not replace a note",
        _OTHER,
        [
            (
                rule,
                _EXCUSED,
                "        if noted is not None and noted.host in answering:\n"
                f"            continue\n{_EXCUSED}",
            )
        ],
        [],
    ),
    ("a majority has noted the claims", _ALL, [], ["unnoted"]),
    ("a majority is read again", _AT_ONCE, [], ["reads_again"]),
    ("a VM that a run only began is new", _CRASH, [], ["begun"]),
]


@pytest.mark.parametrize(
    ("fewest", "setting"), _SETTINGS, ids=lambda value: getattr(value, "name", "")
)
def test_creations_in_every_order_make_no_duplicate(fewest: int, setting: Setting) -> None:
    began = time.process_time()
    model = Model(Product(), setting)
    result = search(model, Wrong(model, downs=("", "A", "C")))
    print(f"{setting.name}: {result.states} states, {time.process_time() - began:.1f} s")
    assert not result.violation, "\n".join([result.violation, *result.history])
    assert result.states >= fewest


@pytest.mark.parametrize(
    ("setting", "edits", "left_out"),
    [case[1:] for case in _WITHOUT],
    ids=[case[0].replace(" ", "_") for case in _WITHOUT],
)
def test_rule_without_sentence_has_history_that_breaks_it(
    setting: Setting, edits: list[Edit], left_out: list[str]
) -> None:
    model = Model(Product(*edits, **dict.fromkeys(left_out, True)), setting)
    result = search(model, Wrong(model, downs=("", "C")))
    print("\n".join([result.violation, *setting.begins, *result.history]))
    assert result.violation, f"none in {result.states} states"

    if not setting.in_turn:
        return  # the settings above are alike, and larger
    whole = Model(Product(*[edit for edit in edits if edit is _NO_GRACE]), setting)
    result = search(whole, Wrong(whole, downs=("", "C")))
    assert not result.violation, "\n".join([result.violation, *result.history])


def test_common_host_without_notes_of_first_view_is_known_limit() -> None:
    """Two inventories with one hypervisor in common are told apart by what it holds. Until it took
    notes of the first, it knows nothing of it: the one history of two VMs that is known."""
    setting = Setting(
        "gap", ("ABC", "CDE"), (2, 1), 0, "", (), ("A", "D"), doubtful="C", in_turn=True
    )
    model = Model(Product(), setting)
    result = search(model, Wrong(model))
    print("\n".join(result.history))
    assert result.violation == "there are two VMs of the name"
    assert [step for step in result.history if "write C" in step and "in vain" in step]
