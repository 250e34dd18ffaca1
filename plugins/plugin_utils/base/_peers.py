# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hypervisors of the inventory and their addresses, whatever ``--limit`` says."""

from __future__ import annotations

import re
import typing as t

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.parsing.dataloader import DataLoader
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _answers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, to_plain


def names(group: str, task_vars: Values) -> list[str]:
    """Names of the group's hosts, in the inventory's order."""
    return [str(name) for name in as_list(as_mapping(task_vars.get("groups")).get(group))]


def hypervisors(task_vars: Values) -> list[str]:
    """The hypervisors of the inventory and those of the play, which may not be in that group."""
    play = as_list(task_vars.get("ansible_play_hosts_all"))
    return list(dict.fromkeys([*names("hypervisors", task_vars), *(str(host) for host in play)]))


def inventory(loader: DataLoader, task_vars: Values) -> InventoryManager:
    """The groups and hosts of the inventory, to be matched against patterns."""
    manager = InventoryManager(loader, parse=False)
    for group, hosts in as_mapping(task_vars.get("groups")).items():
        manager.add_group(group)
        for host in as_list(hosts):
            manager.add_host(host, group=group)
    return manager


def matching(pattern: object, loader: DataLoader, task_vars: Values) -> list[str]:
    """Names of the hosts that a pattern, or a list of patterns, matches whatever ``--limit`` says.

    Raises PlanRefused for a pattern that Ansible refuses: none of them had to answer otherwise.
    """
    try:
        matched = inventory(loader, task_vars).get_hosts(pattern=pattern)
    except AnsibleError as error:
        raise PlanRefused(
            f"virt_hosts is no pattern of hosts: {pattern!r} ({error}); name a group or hosts of"
            " the inventory, such as -e virt_hosts=hypervisors"
        ) from None
    return [str(host.name) for host in matched]


_DEFAULT = "hypervisors"  # the playbooks' own word, which an inventory need not have
_WILD = re.compile(r"[*?\[~]")


def unmatched(pattern: str, manager: InventoryManager) -> list[str]:
    """The parts of a pattern that match nothing in the inventory, which are typing errors: Ansible
    would go on without the hypervisor that was meant, or with the one that was to be left out."""
    parts = [part for part in split_host_pattern(pattern) if part.strip("!& ")]
    return [
        name
        for part in parts
        if not (part.startswith("!") and _WILD.search(part))
        if (name := part.lstrip("!& ")) not in (_DEFAULT, *manager.groups)
        if not manager.get_hosts(pattern=name)
    ]


def unmatched_message(pattern: str, names: t.Sequence[str]) -> str:
    """What is said of these parts."""
    return (
        f"{', '.join(map(repr, names))} of {pattern!r} matches no host or group of the inventory;"
        " correct it, or leave it out"
    )


def of_host(name: str, task_vars: Values) -> Values:
    """The variables of a host of the inventory; refuses those that facts override."""
    variables = as_mapping(as_mapping(task_vars["hostvars"])[name])
    _answers.require_own(name, variables)
    return variables


def address(name: str, task_vars: Values) -> str:
    """The address for other hosts: the migration address, else its own, else its name."""
    migration = _variable(name, "virt_migration_address", task_vars)
    return migration or _variable(name, "ansible_host", task_vars) or name


def addresses(name: str, task_vars: Values) -> list[str]:
    """Every address a host may connect from; its name if it has none."""
    listed = [_variable(name, key, task_vars) for key in ("ansible_host", "virt_migration_address")]
    return list(dict.fromkeys(address for address in listed if address)) or [name]


def where_it_answers(name: str, task_vars: Values) -> dict[str, object]:
    """The addresses and further ports at which a host would answer if it were up."""
    port = _variable(name, "ansible_port", task_vars)
    ports = [int(port)] if port is not None and port.isdigit() else []
    return {"addresses": addresses(name, task_vars), "ports": ports}


def where_they_answer(names: t.Iterable[str], task_vars: Values) -> dict[str, object]:
    """The addresses and further ports at which one of several hosts would answer."""
    places = [where_it_answers(name, task_vars) for name in names]
    return {
        key: list(dict.fromkeys(entry for place in places for entry in as_list(place[key])))
        for key in ("addresses", "ports")
    }


def _variable(name: str, variable: str, task_vars: Values) -> str | None:
    value = to_plain(of_host(name, task_vars).get(variable))
    return str(value) if value else None


def refuse_hypervisors(vms: t.Iterable[str], task_vars: Values) -> None:
    """Raise PlanRefused if a VM would have the name of a hypervisor of the play or the group."""
    taken = {host.lower() for host in hypervisors(task_vars)}
    for vm in vms:
        if vm.lower() in taken:
            raise PlanRefused(
                f"{vm!r} is the name of a hypervisor; a VM of that name would replace it in the"
                " inventory: choose another name"
            )
