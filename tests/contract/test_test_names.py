# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New tests are called ``subject_condition_result``, in the words of the field.

Tests that are older keep their names: those at fault are in ``older_test_names.txt``, once for each
test of that name, wherever its file is. That list only shrinks.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import _tools

# Pronouns, riddles and words of a private language, each with what is written instead
BANNED = {
    "alone": "without_peer, single",
    "anew": "again",
    "apart": "separate",
    "asked": "requested",
    "brought": "transferred",
    "coming": "incoming",
    "described": "exported",
    "ends": "endpoints, finishes",
    "exchange": "rotation",
    "far": "remote",
    "forgetful": "memory_blockers",
    "found": "the result: detected, reported, read",
    "half": "incomplete",
    "heard": "answered",
    "hopeless": "permanent",
    "lies": "is_located",
    "machine": "host, machine_type",
    "mine": "own",
    "near": "from_host",
    "nobody": "no_process, no_user",
    "one": "single, or the noun: volume, domain",
    "owned": "own_volumes",
    "owner": "lease_holder",
    "ownership": "the noun of what is owned",
    "real": "actual",
    "said": "reported, message",
    "scene": "state",
    "settled": "up_to_date",
    "spent": "consumed",
    "stir": "trigger_arp",
    "there": "the place: on_host",
    "told": "message, reported",
    "twice": "duplicate, again",
    "undescribed": "unsupported",
    "unfit": "blockers",
    "unmergeable": "blockers",
    "untakeable": "blockers",
    "whoever": "any_caller",
    "whole": "complete",
}
# libvirt's own words, of which one is banned
TERMS = ("machine_type",)
FEWEST_WORDS = 3
OLDER = Path(__file__).with_name("older_test_names.txt")
# Lower it with the list
MOST_OLDER = 792


def faults_of(name: str) -> list[str]:
    """Return what the name of a new test has that it must not have."""
    bare = name.removeprefix("test_")
    faults = []
    if len(bare.split("_")) < FEWEST_WORDS:
        faults.append("fewer words than subject, condition and result")
    for term in TERMS:
        bare = bare.replace(term, "")
    words = [word for word in bare.split("_") if word in BANNED]
    return [*faults, *(f"{word} (instead: {BANNED[word]})" for word in words)]


def faulty() -> Counter[str]:
    """Return the names at fault of all tests, with the number of tests that have them."""
    trees = [
        ast.parse(path.read_text(encoding="utf-8"))
        for path in (_tools.CHECKOUT / "tests").rglob("test_*.py")
    ]
    return Counter(
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and faults_of(node.name)
    )


def older() -> Counter[str]:
    lines = OLDER.read_text(encoding="utf-8").splitlines()
    return Counter(line for line in lines if line and not line.startswith("#"))


def test_new_test_name_has_no_banned_word() -> None:
    new = sorted((faulty() - older()).elements())
    assert not new, "\n".join(["", *(f"{name}: {'; '.join(faults_of(name))}" for name in new)])


def test_list_of_older_test_names_only_shrinks() -> None:
    gone = sorted((older() - faulty()).elements())
    assert not gone, f"these tests are gone, remove them from {OLDER.name} and lower MOST_OLDER"
    assert older().total() == MOST_OLDER, "a new test is not added to the list, but renamed"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test_shared_volume_in_use_is_refused", []),
        ("test_machine_type_unknown_is_refused", []),
        ("test_machine_without_network_is_reported", ["machine (instead: host, machine_type)"]),
        ("test_purge", ["fewer words than subject, condition and result"]),
    ],
)
def test_banned_word_in_name_is_reported(name: str, expected: list[str]) -> None:
    assert faults_of(name) == expected
