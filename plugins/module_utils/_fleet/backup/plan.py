# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the backup of a VM: reasons to refuse, and the steps.

A backup always makes one more. It holds no lease: a move, a snapshot and whatever else works on
the VM wins, and ends the backup.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.metadata import metadata_problems
from ..base.names import playbook_command
from ..engine import leases
from ..engine.steps import Plan, Step
from .facts import FILES, JOB, BackupFacts, BackupRequest, Clear, Save
from .options_saving import LEAST_SCRATCH

if t.TYPE_CHECKING:
    from ..engine.steps import Effect

_SAVED_STATES = ("running", "paused", "shutoff", "blocked")


def plan(facts: BackupFacts, wanted: BackupRequest) -> Plan[BackupFacts]:
    """The steps to one more backup."""
    problems = list(_refusals(facts))
    if problems:
        return Plan(refusals=tuple(problems))
    steps = []
    if facts.left:
        steps.append(Step(Clear(), "remove what a backup that was killed has left", _cleared))
    count = len(facts.disks)
    disks = f"{count} disk{'' if count == 1 else 's'}"
    how = "of one moment" if facts.active else "of the VM, which is off"
    text = f"save {disks} {how} to {wanted.to}"
    steps.append(Step(Save(), text, _saved, torn=tuple(_torn(active=facts.active))))
    return Plan(tuple(steps))


def _cleared(facts: BackupFacts) -> BackupFacts:
    job = None if JOB in facts.left else facts.job
    return dataclasses.replace(facts, left=frozenset(), job=job)


def _saved(facts: BackupFacts) -> BackupFacts:
    return dataclasses.replace(facts, saved=facts.saved + 1)


def _torn(*, active: bool) -> t.Iterator[Effect[BackupFacts]]:
    """What a kill may leave, with and without the archive: the unit's end removes it, unless the
    hypervisor itself was lost, and the VM with its job."""
    for left in ({FILES}, {JOB, FILES}, {JOB}) if active else ({FILES},):
        for saved in (0, 1):

            def effect(
                facts: BackupFacts, left: frozenset[str] = frozenset(left), saved: int = saved
            ) -> BackupFacts:
                job = "backup" if JOB in left else facts.job
                return dataclasses.replace(facts, left=left, job=job, saved=facts.saved + saved)

            yield effect


def _refusals(facts: BackupFacts) -> t.Iterator[str]:
    name, stored = facts.name, facts.stored
    broken = metadata_problems(name, stored)
    yield from broken
    if stored is not None and stored.phase is not None and not broken:
        yield leases.in_phase(name, stored.phase, facts.holder)
    if not facts.persistent:
        yield f"{name!r} is transient and has no definition; define it first"
    if facts.state not in _SAVED_STATES:
        yield f"{name!r} is {facts.state}; wait until it runs or is off, or bring it there"
    if facts.managed_save:
        yield (
            f"{name!r} has saved memory, without which its disks are as after a power failure;"
            f" start it ({playbook_command('state', vm_name=name, vm_state='running')}) first"
        )
    if facts.own_unit:
        yield f"{name!r} is being backed up by another run; wait for it and try again"
    elif facts.job is not None and JOB not in facts.left:
        yield (
            f"libvirt is busy with {name!r} (its job: {facts.job}), so no backup can begin; wait"
            " until it has ended and try again"
        )
    yield from facts.blockers
    written = [disk for disk in facts.disks if disk.written or not facts.active]
    if not written and not facts.blockers:
        yield f"{name!r} has no writable disk; there is nothing to save"
    if facts.active and facts.scratch_mib < LEAST_SCRATCH:
        yield (
            f"there are {facts.scratch_mib} MiB for what {name!r} overwrites while it is saved;"
            f" {LEAST_SCRATCH} are the least, so make space, or set virt_backup_scratch to a folder"
            " that has some"
        )
