# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VMs are meant by names, patterns and groups."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.selected import (
    Member,
    Selected,
    expand,
    is_pattern,
)

MEMBERS = [
    Member("web1", ["shop"], unread=False),
    Member("web2", [], unread=False),
    Member("Web3", [], unread=False),
    Member("web1.migration", ["shop"], unread=False),
    Member("web[1]", [], unread=False),
    Member("broken", [], unread=True),
]


@pytest.mark.parametrize(
    ("names", "groups", "meant", "empty"),
    [
        (["web2", "web1", "web2"], [], ("web2", "web1"), 0),
        (["nobody"], [], ("nobody",), 0),
        (["web*"], [], ("web1", "web2", "web[1]"), 0),
        (["web?", "web1"], [], ("web1", "web2"), 0),
        (["w[e]b[12]"], [], ("web1", "web2"), 0),
        (["*.migration"], [], (), 1),
        (["*"], [], ("Web3", "broken", "web1", "web2", "web[1]"), 0),
        (["db*", "web1"], [], ("web1",), 1),
        # a VM that is called so, and no other
        (["web[1]"], [], ("web[1]",), 0),
        # of one that cannot be read nobody knows its groups
        ([], ["shop"], ("broken", "web1"), 0),
        (["web2"], ["shop"], ("web2", "broken", "web1"), 0),
    ],
)
def test_expand_names_patterns_and_groups(
    names: list[str], groups: list[str], meant: tuple[str, ...], empty: int
) -> None:
    selected = Selected.of(names, groups)
    expanded = expand(selected, MEMBERS)
    assert expanded.names == meant
    assert len(expanded.empty) == empty
    for member in MEMBERS:  # what a hypervisor returns has all of them
        if member.name in meant and not member.unread:
            assert selected.takes(member.name, member.groups)


def test_expand_without_match_names_pattern_and_group() -> None:
    expanded = expand(Selected.of(["db*"], ["mail"]), MEMBERS[:1])
    assert expanded.empty == [
        "no VM matches 'db*'; ansible-playbook fleet.virt.list shows the VMs",
        "no VM is in mail; ansible-playbook fleet.virt.query shows the groups of each",
    ]


def test_selected_is_plural_with_pattern_or_group() -> None:
    assert not Selected.of(["web1", "web2"]).plural
    assert Selected.of(["web*"]).plural
    assert Selected.of([], ["shop"]).plural
    assert not Selected.of([])


@pytest.mark.parametrize("name", ["web1", "a.b-c_d", "{x}"])
def test_plain_name_is_no_pattern(name: str) -> None:
    assert not is_pattern(name)
