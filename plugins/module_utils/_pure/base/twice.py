# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people are told of a name that several hypervisors have.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t


def text(
    name: str, phases: t.Mapping[str, str | None], uuids: t.Collection[str | None] = ()
) -> str:
    """``phases``: the phase of the VM on each hypervisor that has it; ``uuids``: theirs, where one
    that all have means that it moves.

    A claim of a run that creates it is no duplicate: it goes by itself, and removing it would take
    that run's VM away. Nor are both ends of a move.
    """
    if len(set(uuids)) == 1 and None not in uuids:
        return (
            f"{name!r} is on {' and '.join(sorted(phases))} with one UUID, so it is being moved, or"
            " a move of it was interrupted: wait, or run fleet.virt.repair_vms, and remove none of"
            " them before"
        )
    coming = sorted(where for where, phase in phases.items() if phase == "creating")
    others = sorted(where for where, phase in phases.items() if phase != "creating")
    if coming:
        also = f", and is defined on {' and '.join(others)}" if others else ""
        return (
            f"{name!r} is being created on {' and '.join(coming)} by another run, which has not"
            f" ended{also}; run this again when it has. If that run died, remove what it left there"
            " with virt_purge"
        )
    return (
        f"{name!r} is defined on {' and '.join(others)}; a VM exists once: find out which one is"
        " right, and remove the other on its hypervisor with virt_purge"
    )
