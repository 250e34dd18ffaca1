# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order in which VMs are placed of which some are to be beside others (affinity)."""

from __future__ import annotations

import typing as t

from .types import SOFT

Vm = tuple[t.Sequence[str], t.Sequence[str]]


def groups_of(rules: t.Iterable[str]) -> list[str]:
    """The groups that rules of affinity name, hard and soft."""
    return [rule[: -len(SOFT)] if rule.endswith(SOFT) else rule for rule in rules]


def turns(vms: t.Sequence[Vm]) -> list[int]:
    """For each VM, of which ``vms`` has the groups and the rules, its turn: a later one than that
    of the VMs which it is to be beside.

    VMs that are to be beside each other, in a circle of whatever length, get a turn all the same.
    """
    wanted = [groups_of(rules) for _groups, rules in vms]
    every = {group for groups in wanted for group in groups}
    members: dict[str, list[int]] = {group: [] for group in every}
    for index, (groups, _rules) in enumerate(vms):
        for group in every.intersection(groups):
            members[group].append(index)
    turn = [0] * len(vms)
    for _round in every:  # as long as the longest chain of groups can be
        after = {
            group: max([turn[index] + 1 for index in indices], default=0)
            for group, indices in members.items()
        }
        new = [
            max([after[group] for group in groups if group not in vms[index][0]], default=0)
            for index, groups in enumerate(wanted)
        ]
        if new == turn:
            break
        turn = new
    return turn
