# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Protection of groups that no guest may join, whatever its metadata, tags or variables are.

Any user who may define domains on one hypervisor controls their metadata. A play for hypervisors
must not run on such a guest, nor one for a host that has the name of a group.
"""

from __future__ import annotations

import typing as t

from ansible.inventory.data import InventoryData
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _guests

_MOST_NAMED = 3  # hosts in one warning
# Always closed; the playbooks use the name hypervisors
_ALWAYS = ("all", "ungrouped", "hypervisors")
# The attribute of Ansible's inventory with the groups that guards have added to it
_ADDED = "_fleet_virt_added_groups"


class Guard:
    """A proxy of Ansible's inventory for code that groups guests; it skips closed groups.

    It has all other methods of the inventory's data.
    """

    def __init__(
        self,
        inventory: InventoryData,
        hypervisors: t.Iterable[str],
        group: str,
        guest_groups: t.Collection[str] = (),
    ) -> None:
        self._inventory = inventory
        self._closed = {*_ALWAYS, group}
        for name in (group, "hypervisors"):  # also without any host
            known = inventory.groups.get(name)
            self._closed.update(
                str(ancestor.name) for ancestor in (known.get_ancestors() if known else ())
            )
        for name in hypervisors:
            host = inventory.hosts.get(name)
            self._closed.update(str(joined.name) for joined in (host.get_groups() if host else ()))
        self._added: set[str] = vars(inventory).setdefault(_ADDED, set())
        # the administrator's, which no guest joins by its own word
        self._defined = {str(name) for name in inventory.groups} - self._added - {*guest_groups}
        self._refused: dict[tuple[str, str], list[str]] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._inventory, name)

    def problem(self, group: str) -> str | None:
        """Why no guest may join this group, or None."""
        if _guests.is_own_name(group) and group not in self._closed:
            return "that name is reserved by Ansible"
        if group in self._inventory.hosts:
            return "a host has that name"
        if group in self._closed:
            return "it contains hypervisors"
        known = self._inventory.groups.get(group)
        for ancestor in sorted(
            str(ancestor.name) for ancestor in (known.get_ancestors() if known else ())
        ):
            if ancestor in self._closed and ancestor != "all":
                return f"it is part of {ancestor!r}, which contains hypervisors"
        return None

    def add_group(self, group: str) -> str:
        """Add a group like Ansible does, unless it is closed."""
        if self.problem(group):
            return group
        if group not in self._inventory.groups:
            self._added.add(group)
        return str(self._inventory.add_group(group))

    def add_by_metadata(self, host: str, group: str) -> None:
        """Add a guest to a group that its metadata names, unless an earlier file defines that."""
        problem = self.problem(group)
        if problem is None and group in self._defined:
            problem = (
                "an earlier file of the inventory defines it, and a guest's metadata does not"
                " suffice to join it; name it in the plugin's option guest_groups to permit that"
            )
        if problem is not None:
            self._refuse(group, problem, host)
            return
        self.add_host(host, self.add_group(group))

    def add_host(self, host: str, group: str | None = None, port: int | None = None) -> str:
        problem = None if group is None else self.problem(group)
        if problem is not None:
            self._refuse(str(group), problem, host)
            return host
        return str(self._inventory.add_host(host, group, port))

    def add_child(self, group: str, child: str) -> bool:
        if child not in self._inventory.hosts and self.problem(child):
            return False  # a closed group, reported when a guest should have joined it
        problem = None if group == "all" else self.problem(group)
        if problem is not None:
            self._refuse(group, problem, child)
            return False
        return bool(self._inventory.add_child(group, child))

    def _refuse(self, group: str, problem: str, child: str) -> None:
        names = self._refused.setdefault((group, problem), [])
        if child not in names:
            names.append(child)

    def warnings(self) -> list[str]:
        """Warnings about skipped groups."""
        problems = []
        for (group, problem), names in self._refused.items():
            more = len(names) - _MOST_NAMED
            listed = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            verb = "is" if len(names) == 1 else "are"
            problems.append(f"{listed} {verb} not added to group {group!r}: {problem}")
        return problems
