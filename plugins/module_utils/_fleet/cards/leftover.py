# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Definitions of VMs that were restarted on another hypervisor while theirs was off.

Each hypervisor says of its own definitions which are leftovers, from the cards of the VMs on shared
storage, so none governs another by it: a leftover does not count where another hypervisor has the
VM with the same UUID, and else nothing is done with it.
"""

from __future__ import annotations

import typing as t

from ..base.names import playbook_command

Vm = t.TypeVar("Vm", bound=t.Mapping[str, object])


def without(places: t.Mapping[str, Vm]) -> dict[str, Vm]:
    """The hypervisors that have a VM, without those that only have a leftover of one that another
    of them has; of members that know of one that is defined nowhere, the first."""
    real = {host: vm for host, vm in places.items() if not vm.get("nowhere")}
    first = sorted(places.keys() - real.keys())[:1]
    if first:
        return without(real) or {host: places[host] for host in first}
    there = {vm.get("uuid") for vm in places.values() if not vm.get("leftover")} - {None}
    return {
        host: vm
        for host, vm in places.items()
        if not (vm.get("leftover") and vm.get("uuid") in there)
    }


def uuids(vms: t.Iterable[t.Mapping[str, object]]) -> set[str]:
    """The UUIDs of those VMs of which a hypervisor has more than a leftover. Only they have moved
    on to it from where they are noted."""
    return {str(vm.get("uuid")) for vm in vms if not vm.get("leftover")}


def refusal(name: str, host: str, vm: t.Mapping[str, object]) -> str | None:
    """Why nothing is done with what ``host`` has of a VM, if that is only a leftover."""
    elsewhere, cell = vm.get("leftover"), vm.get("nowhere")
    if cell and vm.get("error"):
        return f"{name!r} is a VM of the cell {str(cell)!r}, and {vm['error']}"
    if cell:
        start = playbook_command("state", vm_name=name, vm_state="running")
        return (
            f"{name!r} is off, and defined on no hypervisor: the cell {str(cell)!r} knows it by its"
            f" card. Have it started first, which defines it: {start}"
        )
    if not elsewhere:
        return None
    return (
        f"what {host} has of {name!r} is a leftover, since by its card the VM is on {elsewhere};"
        f" {playbook_command('repair_vms', vm_name=name)} clears it"
    )


def hindrances(name: str, places: t.Mapping[str, Vm]) -> list[str]:
    """Why a VM cannot be renamed or removed yet: the hypervisors that have a leftover of it would
    not know any more that it is one."""
    return [
        f"{host} has a leftover of {name!r}, which has to be cleared before:"
        f" {playbook_command('repair_vms', vm_name=name)}"
        for host, vm in places.items()
        if vm.get("leftover")
    ]


def warnings(host: str, vms: t.Iterable[t.Mapping[str, object]]) -> list[str]:
    """What ``host`` says of its leftovers among ``vms``."""
    left = sorted((str(vm["name"]), str(vm["leftover"])) for vm in vms if vm.get("leftover"))
    if not left:
        return []
    named = ", ".join(f"{name} (by its card on {elsewhere})" for name, elsewhere in left)
    clear = playbook_command("repair_vms")
    return [f"leftover on {host}: {named}; {clear} clears {'it' if len(left) == 1 else 'them'}"]
