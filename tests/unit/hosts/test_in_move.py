# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which end of a move lists the VM, and what is no move and stays to be seen."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import in_move

MOVE = {"source": "hv1", "destination": "hv2", "run": "r", "autostart": "no", "state": "running"}


def domain(state: str, *, persistent: bool = True, **changes: t.Any) -> dict[str, t.Any]:
    kept = {"phase": None, "move": None}
    return {
        "name": "web1",
        "uuid": "u",
        "state": state,
        "reason": "x",
        "persistent": persistent,
        "metadata": kept,
        "error": None,
        **changes,
    }


CLAIM = domain(
    "shutoff",
    name="web1.migration",
    uuid="c",
    metadata={"phase": "creating", "move": MOVE},
)
COMING = domain("paused", persistent=False)


def listed(hv1: list[t.Any], hv2: list[t.Any]) -> list[tuple[str, str]]:
    both = {"hv1": hv1, "hv2": hv2}
    seen = [{"name": name, "answered": True, "domains": one} for name, one in both.items()]
    return [
        (str(entry["name"]), str(one["name"]))
        for entry in in_move.once(seen)
        for one in entry["domains"]
    ]


CASES: dict[str, tuple[list[t.Any], list[t.Any], list[tuple[str, str]]]] = {
    "on its way": ([domain("running")], [COMING, CLAIM], [("hv1", "web1")]),
    "named, without its claim": ([domain("running")], [COMING], [("hv1", "web1")]),
    "one that is shut off": ([domain("paused")], [COMING, CLAIM], [("hv1", "web1")]),
    "at its last step": (
        [domain("paused")],
        [domain("running", persistent=False), CLAIM],
        [("hv2", "web1")],
    ),
    "arrived": ([], [domain("running"), CLAIM], [("hv2", "web1")]),
    "its source is silent": ([], [COMING, CLAIM], [("hv2", "web1")]),
    "its source is silent, and nothing has come": ([], [CLAIM], [("hv2", "web1.migration")]),
    "both run": (
        [domain("running")],
        [domain("running", persistent=False)],
        [("hv1", "web1"), ("hv2", "web1")],
    ),
    "defined twice": (
        [domain("running")],
        [domain("shutoff")],
        [("hv1", "web1"), ("hv2", "web1")],
    ),
    "another of the name": (
        [domain("running")],
        [domain("paused", persistent=False, uuid="another")],
        [("hv1", "web1"), ("hv2", "web1")],
    ),
}


@pytest.mark.parametrize(("hv1", "hv2", "expected"), CASES.values(), ids=CASES.keys())
def test_a_vm_in_a_move_is_listed_once(
    hv1: list[t.Any], hv2: list[t.Any], expected: list[tuple[str, str]]
) -> None:
    assert listed(hv1, hv2) == expected
    assert listed(hv2, hv1) == [
        ({"hv1": "hv2", "hv2": "hv1"}[host], name) for host, name in sorted(expected, reverse=True)
    ]


def test_where_it_goes_is_shown() -> None:
    seen = [
        {"name": "hv1", "answered": True, "domains": [domain("running")]},
        {"name": "hv2", "answered": True, "domains": [COMING, CLAIM]},
    ]
    found = in_move.once(seen)
    assert found[0]["domains"][0]["metadata"] == {"phase": "migrating", "move": MOVE}
    lines = tables.listing(found).splitlines()
    assert lines[1].split() == ["hv1", "web1", "running", "x,", "moving", "to", "hv2"]
    assert lines[2:] == ["hv2: no domains"]
