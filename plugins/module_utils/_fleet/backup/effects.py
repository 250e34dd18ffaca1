# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backing VMs up: each in a systemd unit of its own, which ends with the run that asked for it."""

from __future__ import annotations

import dataclasses
import os
import time
import typing as t

from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused, error_message
from ..._records import dataclass, field
from ..base import answers
from ..base import effects_programs as programs
from ..base import read_caller as company
from ..base.effects_connection import Connection, connect
from ..base.effects_lookup import (
    find_domain,
    read_metadata,
    require_domains,
)
from ..base.json_values import as_text
from ..base.metadata import Metadata
from ..engine import effects_attended as attended
from ..engine import effects_backups as units
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.steps import Plan
from . import effects_unit, read
from . import plan as plans
from .facts import BackupFacts, BackupRequest, Clear, Save

_LOCK_SECONDS = 5.0
_END_SECONDS = 60.0
_OTHER_SECONDS = 3000.0  # for a move, or what else ended a backup
_POLL = 0.5
# However the unit ended: the job first, for the guest's sake. A job that a killed process was just
# beginning appears a moment later.
_END = """
for _try in 1 2 3 4 5 6; do
  [ "$SERVICE_RESULT" = success ] && [ -e "$4/$6" ] && break  # it has seen to that itself
  if timeout 60 virsh -q -c "$1" backup-dumpxml "$2" 2>/dev/null | grep -q "/$3'"; then
    timeout 60 virsh -q -c "$1" domjobabort "$2"
  fi
  [ "$SERVICE_RESULT" = success ] && break
  sleep 0.5
done
for file in "$4"/disks/*; do
  umount -l "$file" 2>/dev/null  # not asked first: of a reader that was killed, mountpoint says no
done
rm -rf --one-file-system "$4"
for socket in /var/lib/libvirt/qemu/domain-*/"$3"; do  # of what a loss of power ended
  grep -qF " $socket" /proc/net/unix || rm -f "$socket"
done
rm -f "$5"/"$2"-*.qcow2
exit 0
"""


@dataclass
class _BackupJob(verb.Job[BackupFacts]):
    """One domain and what came of its backup."""

    wanted: BackupRequest
    made: t.Mapping[str, object] = field(default_factory=dict, init=False)
    changes_vm = False

    @property
    def gave_way(self) -> bool:
        """Whether something else was done to the VM, which wins."""
        return self.made.get("gave_way") is True

    def step_is_done(self) -> None:
        super().step_is_done()
        self.after = self.step.effect(self.after)

    def entry(self) -> verb.Shown:
        size, added = self.made.get("size"), self.made.get("added")
        return {
            "steps": self.steps,
            "archive": as_text(self.made.get("archive")),
            "consistency": as_text(self.made.get("consistency")),
            "size": size if isinstance(size, int) else None,
            "added": added if isinstance(added, int) else None,
            "left_out": [str(one) for one in self.facts.left_out],
            "one_file": [str(one) for one in self.facts.one_file],
            "gave_way": self.gave_way,
            "not_tried": self.not_tried,
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return {"new backups": 0}, {"new backups": self.after.saved}


def look(
    connection: Connection,
    names: t.Sequence[str],
    groups: t.Sequence[str] = (),
    *,
    again: bool = False,
) -> answers.GroupedLook:
    """The VMs of ``names``, names or patterns, and of ``groups`` that are here. ``again``: backups
    of them were ended for other work on this host, which is waited for."""
    if again:
        _wait(connection, names, lambda stored: owners.is_alive(stored.owner), _OTHER_SECONDS)
    return verb.look(connection, names, groups)


def run(
    connection: Connection,
    names: t.Sequence[str],
    wanted: BackupRequest,
    *,
    check: bool,
    again: bool = False,
) -> dict[str, object]:
    """Save each domain, one after the other; the module's result. One that fails stops no other.

    ``again`` as for :func:`look`: one that was moved here may have the mark for a moment more.
    """
    verb.require_local(connection, "its files are read there")
    if again and not check:
        _wait(connection, names, lambda stored: stored.phase == "migrating", lease.PATIENCE)

    def planned() -> list[_BackupJob]:
        return [_job(connection, name, wanted) for name in dict.fromkeys(names)]

    def work(jobs: t.Iterable[_BackupJob]) -> None:
        for job in jobs:
            _carry_out(job)

    return verb.run(connection, names, planned, work, check=check, together=False)


def _wait(
    connection: Connection,
    names: t.Sequence[str],
    busy: t.Callable[[Metadata], bool],
    seconds: float,
) -> None:
    """Wait while any of the domains that are here is in a phase, and ``busy``."""
    limit = time.monotonic() + seconds
    for name in names:
        while time.monotonic() < limit:
            company.require()
            try:
                dom = find_domain(connection, name)
                stored = read_metadata(connection, dom) if dom is not None else None
            except LibvirtFailure:  # it has just been moved
                break
            if stored is None or stored.phase is None or not busy(stored):
                break
            time.sleep(_POLL)


def _job(connection: Connection, name: str, wanted: BackupRequest) -> _BackupJob:
    """The job of a VM; one that cannot be read fails alone."""
    try:
        return _planned(connection, name, wanted)
    except FleetVirtError as error:
        connection.call("ask libvirt", connection.conn.getLibVersion)  # else all have failed
        refused: Plan[BackupFacts] = Plan(refusals=(error_message(error),))
        return _BackupJob(connection, name, None, BackupFacts(name, ""), refused, wanted)


def _planned(connection: Connection, name: str, wanted: BackupRequest) -> _BackupJob:
    dom = require_domains(connection, [name])[name]
    facts = read.facts(connection, dom, wanted)
    plan = plans.plan(facts, wanted)
    return _BackupJob(connection, facts.name, facts.uuid, facts, plan, wanted)


def _carry_out(job: _BackupJob) -> None:
    """Do the steps under the VM's lock, after planning them again."""
    try:
        # a libvirtd that was restarted during the last one has ended its connection
        with (
            connect(job.connection.uri, job.connection.timeout) as connection,
            owners.host_lock(_LOCK_SECONDS, f"backup-{job.facts.uuid}"),
        ):
            job.connection = connection
            current = _planned(job.connection, job.name, job.wanted)
            job.facts, job.after, job.plan = current.facts, current.after, current.plan
            job.problem = current.problem
            if not job.problem:
                _ACTIONS.carry_out([job])
    except FleetVirtError as error:  # the lock, or it is here no more
        job.problem = str(error)


def _clear(job: _BackupJob) -> None:
    """Do what the unit's end does: its hypervisor was lost meanwhile."""
    programs.run(["sh", "-c", _END, *_end_words(job)], seconds=_END_SECONDS)


def _end_words(job: _BackupJob) -> list[str]:
    uuid = job.facts.uuid
    folder = str(read.folder(uuid))
    return [
        "end",
        job.connection.uri,
        uuid,
        read.SOCKET,
        folder,
        job.wanted.scratch,
        read.JOB_ENDED,
    ]


def _save(job: _BackupJob) -> None:
    unit = units.unit_of(job.facts.uuid)
    answer = attended.answered(
        unit,
        "backup",
        dataclasses.asdict(_order(job)),
        ["/bin/sh", "-c", _END, *_end_words(job)],
        lambda: units.give_way(job.connection, job.facts.uuid),
    )
    job.made = answer
    if "archive" not in answer:
        why = as_text(answer.get("error")) or f"its unit {unit} gave no result"
        why += "; try again" if job.gave_way else ""
        raise PlanRefused(f"the backup of {job.name!r} was abandoned, and it is as before: {why}")


def _order(job: _BackupJob) -> effects_unit.UnitOrder:
    facts, wanted, connection = job.facts, job.wanted, job.connection
    return effects_unit.UnitOrder(
        uri=connection.uri,
        timeout=connection.timeout,
        name=facts.name,
        uuid=facts.uuid,
        host=company.host() or os.uname().nodename,
        active=facts.active,
        quiesce=wanted.quiesce,
        to=wanted.to,
        passphrase=wanted.passphrase,
        ssh_key=wanted.ssh_key,
        scratch=wanted.scratch,
        scratch_mib=facts.scratch_mib,
        domain=facts.domain,
        seed=facts.stored.seed if facts.stored is not None else None,
        disks=[*facts.disks],
        left_out=[*facts.left_out],
        one_file=[*facts.one_file],
    )


_ACTIONS = verb.Actions[_BackupJob]().simply(Clear, _clear).simply(Save, _save)
