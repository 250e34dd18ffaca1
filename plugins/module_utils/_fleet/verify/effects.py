# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proving backups on a hypervisor, one after the other, each in a unit that ends with its run."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass, field
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from ..base.effects_connection import Connection
from ..base.json_values import as_number, as_text
from ..engine import effects_attended as attended
from ..engine import effects_verb as verb
from ..engine.steps import Plan
from ..hosts import read_rolling
from ..restore.definition import TPM_FOLDER
from . import plan as plans
from . import read
from .definition import name_of
from .effects_unit import ProofOrder
from .facts import Cleared, ClearProof, ProofFacts, Prove
from .options import FOLDER, SavedArchive, VerifyOptions

_END_SECONDS = 300.0
# However the unit ended: the VM first. One that a killed process was just starting appears later.
_END = """
[ -n "$2" ] || exit 1
for _try in 1 2 3 4 5 6 7 8 9 10; do
  timeout 60 virsh -q -c "$1" destroy "$2" >/dev/null 2>&1
  if all=$(timeout 60 virsh -q -c "$1" list --all --uuid 2>/dev/null); then
    case "$all" in
      *"$2"*) ;;
      *) [ "$SERVICE_RESULT" != success ] && [ "$_try" -lt 3 ] || break ;;
    esac
  fi
  sleep 0.5
done
"""
_REMOVE = """
[ -n "$2" ] || exit 1
umount -l "$3/archive" 2>/dev/null  # not asked first: if borg was killed, mountpoint says no
rm -rf --one-file-system "$5/$2" "$3" "$4"
rm -f "$6" "$6".[0-9]  # which libvirt keeps, one for each UUID
exit 0
"""


@dataclass
class _ProofJob(verb.Job[ProofFacts]):
    """One backup and what was found of it."""

    options: VerifyOptions
    wanted: SavedArchive
    made: t.Mapping[str, object] = field(default_factory=dict, init=False)
    changes_vm = False

    def entry(self) -> verb.Shown:
        return {
            "steps": self.steps,
            "proof": as_text(self.made.get("proof")) or None,
            "how": as_text(self.made.get("how")),
            "seconds": as_number(self.made.get("seconds")),
            "screen": as_text(self.made.get("screen")),
            "not_tried": self.not_tried,
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return {"proofs": 0}, {"proofs": 1}


def run(
    connection: Connection, options: VerifyOptions, vms: t.Sequence[SavedArchive], *, check: bool
) -> dict[str, object]:
    """Prove each of the backups; the module's result. One that fails stops no other."""
    verb.require_local(connection, "their VMs run from files there")
    left = tuple(read.left(connection, options["folder"]))
    jobs = []
    for number, vm in enumerate(vms):
        facts = ProofFacts(vm.name, () if number else left)
        planned = plans.plan(facts, vm, options["depth"])
        forbidden = read_rolling.refusals(connection, name_of(vm.proof))
        if (
            forbidden and not vm.unbootable
        ):  # a reboot would end its VM, and say nothing of the backup
            planned = Plan(refusals=tuple(forbidden))
        jobs.append(_ProofJob(connection, vm.name, vm.uuid, facts, planned, options, vm))

    def work(given: t.Sequence[_ProofJob]) -> None:
        for job in given:
            _ACTIONS.carry_out([job])

    return verb.planned(jobs, work, check=check, together=False)


def clear(connection: Connection, folder: str, *, check: bool) -> Cleared:
    """Remove what proofs that were killed have left here."""
    removed = []
    for uuid in read.left(connection, folder):
        if not check:
            remove(connection, folder, uuid)
        removed.append(name_of(uuid))
    return {"changed": bool(removed), "removed": removed}


def remove(connection: Connection, folder: str, uuid: str) -> None:
    """Do what the unit's end does: its hypervisor was lost meanwhile, or it was itself killed."""
    listed = connection.call("list domains", connection.conn.listAllDomains, 0)
    for dom in listed:
        if str(dom.name()) == name_of(uuid) and str(dom.UUIDString()) == uuid:
            connection.call(f"end {name_of(uuid)}", dom.destroy, seconds=_END_SECONDS)
    for place in dict.fromkeys([FOLDER, folder]):
        words = _end_words(connection.uri, place, uuid)
        programs.run(["sh", "-c", _REMOVE, *words], seconds=_END_SECONDS)
    still = [each for each in read.left(connection, folder) if each == uuid]
    if still:
        raise PlanRefused(f"{name_of(uuid)}, which a killed proof has left, is still there")


def _end_words(uri: str, folder: str, uuid: str) -> list[str]:
    run_folder, files = read.run_folder(uuid), read.files_folder(folder, uuid)
    return ["end", uri, uuid, run_folder, files, TPM_FOLDER, read.libvirt_log(uuid)]


def _clear(job: _ProofJob, step: ClearProof) -> None:
    remove(job.connection, job.options["folder"], step.uuid)


def _prove(job: _ProofJob) -> None:
    if not job.wanted.unbootable:  # those before it may have taken hours
        read_rolling.require_startable(job.connection, name_of(job.wanted.proof))
    order, unit = _order(job), read.unit_of(job.wanted.proof)
    end = _end_words(order.uri, job.options["folder"], order.uuid)
    answer = attended.answered(
        unit,
        "verify",
        dataclasses.asdict(order),
        ["/bin/sh", "-c", _END + _REMOVE, *end],
        lambda: systemd.stop(unit, _END_SECONDS),
    )
    if "how" not in answer:
        why = as_text(answer.get("error")) or f"its unit {unit} gave no result"
        raise FleetVirtError(f"nothing is known of {job.name}: {why}")
    job.made = answer
    if not answer.get("proof"):
        raise FleetVirtError(f"nothing is known of {job.name}: {answer.get('how')}")


def _order(job: _ProofJob) -> ProofOrder:
    wanted, options = job.wanted, job.options
    return ProofOrder(
        uri=job.connection.uri,
        timeout=job.connection.timeout,
        uuid=wanted.proof,
        vm=wanted.vm,
        repository=wanted.uuid,
        archive=wanted.archive,
        place=options["place"],
        passphrase=options["passphrase"],
        ssh_key=options["ssh_key"],
        manifest=wanted.manifest,
        definition=wanted.definition,
        expected=wanted.expected,
        unbootable=wanted.unbootable,
        depth=options["depth"],
        boot_seconds=options["boot_seconds"],
        overlay_mib=options["overlay_mib"],
        run=read.run_folder(wanted.proof),
        files=read.files_folder(options["folder"], wanted.proof),
    )


_ACTIONS = verb.Actions[_ProofJob]().on(ClearProof, _clear).simply(Prove, _prove)
