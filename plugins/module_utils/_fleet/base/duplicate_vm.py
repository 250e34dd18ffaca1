# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The message about a VM name that several hypervisors have."""

from __future__ import annotations

import shlex
import typing as t

from .names import playbook_command


def duplicate_vm_message(
    name: str,
    phases: t.Mapping[str, str | None],
    uuids: t.Collection[str | None] = (),
    *,
    selectable: bool = False,
) -> str:
    """The message about ``name``.

    ``phases`` is the phase of the VM on each hypervisor that has it. ``uuids`` are its UUIDs; a
    single one means that it is being moved. A claim of a run that is creating the VM is not a
    duplicate: the run removes it itself, and removing it by hand would remove that run's VM. Nor
    are the two ends of a move duplicates. ``selectable``: the verb acts on one whose hypervisor is
    named.
    """
    if len(set(uuids)) == 1 and None not in uuids:
        return (
            f"{name!r} is on {' and '.join(sorted(phases))} with the same UUID, so it is being"
            " moved or its move was interrupted: wait, or run ansible-playbook"
            " fleet.virt.repair_vms; remove none of them before that"
        )
    creating = sorted(where for where, phase in phases.items() if phase == "creating")
    others = sorted(where for where, phase in phases.items() if phase != "creating")
    if creating:
        also = f", and is defined on {' and '.join(others)}" if others else ""
        return (
            f"{name!r} is being created on {' and '.join(creating)} by another run that has not"
            f" finished{also}; run this again when it has. If that run died, remove its leftovers"
            " with virt_purge"
        )
    word, other = shlex.quote(name), shlex.quote(f"{name}-2")
    act = f"; to act on one as it is, name its hypervisor: -e vm_host={others[0]}"
    if not selectable:
        shut = playbook_command("state", vm_name=name, vm_host=others[-1], vm_state="shutoff")
        act = f"; what shuts off the one there: {shut}"
    return (
        f"{name!r} is defined on {' and '.join(others)}; a VM may exist only once: find out which"
        " one is right, and on the hypervisor of the other rename that while it is shut off (virsh"
        f" domrename {word} {other}), or remove it there, if this collection made it (ansible"
        f" {others[-1]} -b -m fleet.virt.virt_purge -a name={word}){act}"
    )
