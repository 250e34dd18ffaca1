# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The messages about a VM that another run has a lease on."""

from __future__ import annotations

import typing as t

from ..base.names import playbook_command

# What is done to a VM in each phase
WORK: t.Mapping[str, str] = {
    "creating": "created",
    "starting": "created",
    "migrating": "moved",
    "purging": "removed",
    "seeding": "seeded",
    "changing": "changed",
    "renaming": "renamed",
}


class Holder(t.NamedTuple):
    """The living process that has the lease: its name, and since when it runs, for people."""

    pid: int
    name: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name}, since {self.since})"


def held(name: str, phase: str | None, holder: Holder | None) -> str:
    """Why the VM ``name`` is left alone, by whom, and how it is released."""
    work = f"{name!r} is being {WORK.get(str(phase), 'changed')}"
    if holder is None:  # a run that is between two of its steps, on this hypervisor or another
        return f"{work} by another run; wait for it and try again"
    return (
        f"{work} by {holder} on its hypervisor; wait for it and try again, or end it to release the"
        f" VM (kill -9 {holder.pid}): the run that was ended is completed by running it again"
    )


def in_phase(name: str, phase: str | None, holder: Holder | None, before: str = "") -> str:
    """Why nothing is done to a VM in that phase; ``before`` says what."""
    if holder is not None:
        return held(name, phase, holder)
    command = playbook_command("repair_vms", vm_name=name)
    again = f"end its move ({command})" if phase == "migrating" else "run it again to finish it"
    return (
        f"{name!r} is in phase {phase}: another run is working on it or was interrupted; let it"
        f" end, or {again}{before}"
    )
