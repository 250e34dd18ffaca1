# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selection and order of the domains to show."""

from __future__ import annotations

import fnmatch
import typing as t

from ..._records import dataclass
from ..base.json_values import as_list, as_mapping, as_mappings
from ..base.selected import Member, Selected, expand
from ..base.states import STATES
from ..base.tables import is_defined

Entry = t.Mapping[str, object]
_Rank = tuple[int, float, str]  # numbers, words, unknown values

# libvirt's states, one for memory saved to disk, as virt_state calls it, and one for VMs of
# hypervisors that do not answer
SHOWN_STATES = (*STATES[1:], "saved", "unknown")
# Largest number first, words in alphabetical order
SORTS = ("hypervisor", "name", "state", "vcpus", "memory")


@dataclass(frozen=True)
class Selection:
    """Criteria for domains: one of the values of each criterion that is given."""

    states: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    managed: bool | None = None

    def __bool__(self) -> bool:
        return self != Selection()

    def takes(self, domain: Entry) -> bool:
        """Whether ``domain`` is shown; one that could not be read matches all but a name."""
        name = str(domain["name"])
        if self.patterns and not any(
            fnmatch.fnmatchcase(name, pattern) for pattern in self.patterns
        ):
            return False
        if domain["state"] is None:
            return True
        metadata = as_mapping(domain.get("metadata"))
        if self.states and not _states(domain) & set(self.states):
            return False
        if self.groups and not set(self.groups) & set(map(str, as_list(metadata.get("groups")))):
            return False
        return self.managed is None or bool(metadata.get("managed")) == self.managed


def _states(domain: Entry) -> set[str]:
    kept = domain["state"] == "shutoff" and domain.get("managed_save")
    return {str(domain["state"]), *(["saved"] if kept else [])}


def select(
    hypervisors: t.Sequence[Entry], selection: Selection, sort: t.Sequence[str]
) -> tuple[list[dict[str, object]], str]:
    """The hypervisors with their selected domains, in order, and how many are shown.

    The domains stay with their hypervisors. The count is empty if nothing is left out.
    """
    shown = []
    seen = total = 0
    for entry in hypervisors:
        domains = as_mappings(entry["domains"])
        taken = [domain for domain in domains if selection.takes(domain)]
        total, seen = total + len(domains), seen + len(taken)
        shown.append({**entry, "domains": sorted(taken, key=_key(sort)) if sort else taken})
    return shown, f"{seen} of {total} domains are shown" if selection else ""


def _key(sort: t.Sequence[str]) -> t.Callable[[Entry], tuple[_Rank, ...]]:
    return lambda domain: tuple(_rank(domain, by) for by in sort if by != "hypervisor")


def _rank(domain: Entry, sort: str) -> _Rank:
    """Sort key; unknown values come last."""
    value = domain.get({"memory": "memory_mib"}.get(sort, sort))
    if isinstance(value, (int, float)):
        return (0, -value, "")
    return (2, 0, "") if value is None else (1, 0, str(value))


def flat(hypervisors: t.Sequence[Entry], sort: t.Sequence[str]) -> list[tuple[str, Entry]]:
    """Each domain with its hypervisor's name, empty for one that is defined nowhere, in order over
    all of them."""
    domains = [
        (str(entry["name"]) if is_defined(domain) else "", domain)
        for entry in hypervisors
        for domain in as_mappings(entry["domains"])
    ]

    def key(located: tuple[str, Entry]) -> tuple[_Rank, ...]:
        return tuple(
            (1, 0, located[0]) if by == "hypervisor" else _rank(located[1], by) for by in sort
        )

    return sorted(domains, key=key) if sort else domains


def unanswered(hypervisors: t.Sequence[Entry], names: t.Sequence[str]) -> list[str]:
    """Why what was asked for is not there: no hypervisor answered, or none that did has a name."""
    silent = [str(entry["name"]) for entry in hypervisors if not entry["answered"]]
    if len(silent) == len(hypervisors):
        reasons = "; ".join(f"{entry['name']}: {entry['error']}" for entry in hypervisors)
        return [f"no hypervisor answered: {reasons}"]
    known = {
        str(domain["name"]) for entry in hypervisors for domain in as_mappings(entry.get("domains"))
    }
    members = [Member(name, (), unread=False) for name in known]
    expanded = expand(Selected.of(names), members)
    unknown = [name for name in expanded.names if name not in known]
    unknown += expanded.empty_patterns
    if unknown:
        which = ", ".join(unknown)
        if silent:
            return [
                f"not found on any hypervisor that answered: {which}"
                f" (it may be on one of those that did not: {', '.join(silent)})"
            ]
        return [f"not found on any hypervisor: {which}"]
    return []
