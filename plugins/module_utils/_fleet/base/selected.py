# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VMs a command means: by name, by pattern (``test*``) or by group."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ..._records import dataclass
from .names import CLAIM

_PATTERN = re.compile(r"[*?\[]")


def is_pattern(name: str) -> bool:
    """Whether ``name`` has one of the characters that stand for others in a pattern."""
    return bool(_PATTERN.search(name))


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern means the VM ``name``; the claim of a move is none."""
    return not name.endswith(CLAIM) and fnmatch.fnmatchcase(name, pattern)


@dataclass(frozen=True)
class Selected:
    """Names, of which some may be patterns, and groups; all of them are meant."""

    names: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: t.Iterable[str], groups: t.Iterable[str] = ()) -> Selected:
        """The same, each once."""
        return cls(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(groups)))

    def __bool__(self) -> bool:
        return bool(self.names or self.groups)

    @property
    def plural(self) -> bool:
        """Whether VMs are meant that are not named: a list of all shows which."""
        return bool(self.groups or self.patterns)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names that are patterns."""
        return tuple(name for name in self.names if is_pattern(name))

    def takes(self, name: str, groups: t.Collection[str] = ()) -> bool:
        """Whether the VM ``name``, a member of ``groups``, may be meant.

        A VM may be called as a pattern is written; then it alone is meant, which only the answers
        of all hypervisors show (:func:`expand`).
        """
        if name in self.names or any(matches(name, pattern) for pattern in self.patterns):
            return True
        return not name.endswith(CLAIM) and not set(self.groups).isdisjoint(groups)


class Member(t.NamedTuple):
    """A VM that a hypervisor answered; ``unread``: of one that it cannot read the groups are
    unknown, so it may be in any."""

    name: str
    groups: t.Collection[str]
    unread: bool


@dataclass(frozen=True)
class Expanded:
    """The VMs that are meant, each once, and the patterns and groups without any VM."""

    names: tuple[str, ...]
    empty_patterns: tuple[str, ...]
    empty_groups: tuple[str, ...]

    @property
    def empty(self) -> list[str]:
        """What to say of those without any VM."""
        return [
            *(
                f"no VM matches {pattern!r}; ansible-playbook fleet.virt.list shows the VMs"
                for pattern in self.empty_patterns
            ),
            *(
                f"no VM is in {group}; ansible-playbook fleet.virt.query shows the groups of each"
                for group in self.empty_groups
            ),
        ]


def expand(selected: Selected, members: t.Collection[Member]) -> Expanded:
    """The names of the VMs that are meant: those given, and of ``members`` those that the patterns
    and groups mean."""
    names: dict[str, None] = {}
    known = {member.name for member in members}
    meant: dict[str, list[str]] = {}
    for name in selected.names:
        if name in known or not is_pattern(name):
            names[name] = None
        else:
            meant[name] = sorted(other for other in known if matches(other, name))
            names.update(dict.fromkeys(meant[name]))
    in_group = {
        group: sorted(
            {
                member.name
                for member in members
                if not member.name.endswith(CLAIM) and (group in member.groups or member.unread)
            }
        )
        for group in selected.groups
    }
    for members_of_group in in_group.values():
        names.update(dict.fromkeys(members_of_group))
    return Expanded(
        tuple(names),
        tuple(pattern for pattern, found in meant.items() if not found),
        tuple(group for group, found in in_group.items() if not found),
    )
