# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs left half-done, and where notes and cards differ from what is there."""

from __future__ import annotations

import shlex
import typing as t

from ..base.findings import Finding
from ..base.metadata import NAMESPACE
from ..base.names import CLAIM, NOTES, command_on, module_on, playbook_command
from ..engine.leases import WORK
from ..hosts import rolling_marks
from ..notes import note as notes
from ..notes import rule

if t.TYPE_CHECKING:
    from ..cards.facts import CardEntry
    from ..placement.facts import SeenHost
    from .facts import Examined, ExaminedVm


def find(answers: t.Mapping[str, Examined]) -> list[Finding]:
    """Interrupted work, and cards that are not as they should be."""
    findings: list[Finding] = []
    for host, answer in answers.items():
        checkup = answer.get("checkup")
        for vm in checkup["vms"] if checkup else ():
            findings += _work(host, vm)
        findings += _rolling(host, checkup["rolling"] if checkup else ())
        for claim in answer.get("claims") or ():
            text = (
                f"{host} keeps a place for {claim['name']!r}, which moves from {claim['source']} to"
                f" {claim['destination']}, or did when that was interrupted"
            )
            repair = playbook_command("repair_vms", vm_name=claim["name"])
            findings.append(Finding("move_unfinished", (host,), text, repair))
        findings += _renamed(host, answer.get("cards") or ())
        for card in answer.get("cards") or ():
            if card.get("called"):
                continue
            name, repair = card["name"], playbook_command("repair_vms", vm_name=card["name"])
            if card["leftover"] is not None:
                text = (
                    f"{name!r} was restarted elsewhere, and {host} still has a definition of it;"
                    f" its disks there stay: {', '.join(card['leftover']) or 'none'}"
                )
                findings.append(Finding("definition_left", (host,), text, repair))
            elif card["problem"] is not None:
                stray = card.get("stray")
                gone = command_on(host, "rm", stray) if stray else ""
                fix = f"once you know that the VM is gone for good: {gone}" if gone else ""
                findings.append(Finding("card_unusable", (host,), card["problem"], fix))
            else:
                text = f"the card of {name!r} on shared storage is not as the VM on {host} is"
                findings.append(Finding("card_differs", (host,), text, repair))
    return findings


def _renamed(host: str, cards: t.Sequence[CardEntry]) -> list[Finding]:
    """That cards call a hypervisor as an inventory did before: once, and not for each VM."""
    names: dict[str, list[str]] = {}
    for card in cards:
        if card.get("called"):
            names.setdefault(card["called"], []).append(card["name"])
    return [
        Finding(
            "card_differs",
            (host,),
            f"cards on shared storage ({len(vms)}) call {host} {called!r}: the inventory"
            f" called the same machine so when they were written: {', '.join(sorted(vms))}",
            playbook_command("repair_vms"),
        )
        for called, vms in names.items()
    ]


def _rolling(host: str, volumes: t.Iterable[str]) -> list[Finding]:
    begun = [
        mark.at
        for volume in volumes
        if (mark := rolling_marks.parse(volume)) is not None and mark.state == rolling_marks.BEGUN
    ]
    if not begun:
        return []
    text = (
        f"rolling work on {host} began at {notes.time_text(min(begun))}, and its VMs have not"
        " returned: it is under way, was interrupted, or the hypervisor was not well"
    )
    back = playbook_command("return_vms", virt_host=host)
    fix = f"run the command that began it again; to give up instead: {back}"
    return [Finding("rolling_unfinished", (host,), text, fix)]


def _work(host: str, vm: ExaminedVm) -> list[Finding]:
    name, phase = vm["name"], vm["phase"]
    if name.endswith(CLAIM) and phase == "creating":
        return []  # of a move, which is named with what its source has
    if vm["broken"]:
        remove = ("virsh", "metadata", name, NAMESPACE, "--remove", "--config")
        live = ("--live",) if vm["active"] else ()
        fix = f"{command_on(host, *remove, *live)} && {playbook_command('adopt', vm_name=name)}"
        text = f"the metadata of {name!r} cannot be used: {vm['broken']}"
        return [Finding("metadata_unusable", (host,), text, fix)]
    if phase is None or vm["holder"] is not None:  # a run is at work
        return []
    work = WORK.get(phase, f"in phase {phase}")
    text = f"{name!r} is being {work}, or that was interrupted: no process on {host} does it"
    if phase == "migrating":
        repair = playbook_command("repair_vms", vm_name=name)
        return [Finding("move_unfinished", (host,), text, repair)]
    return [Finding("work_unfinished", (host,), text, _again(host, vm, phase))]


def _again(host: str, vm: ExaminedVm, phase: str) -> str:
    """What finishes the work of that phase, or undoes it."""
    name, move = vm["name"], vm["disk_move"]
    if phase == "renaming":
        again = playbook_command("rename", vm_name=name, vm_new_name="NAME")
        return f"with the name it was to have: {again}"
    if phase == "seeding":
        again = module_on(host, "virt_seed", name=name)
        return f"with the options that it was seeded with: {again}"
    if phase == "changing" and move is not None:
        disk, pool = move["disk"], move["pool"]
        return playbook_command("move_disk", vm_name=name, virt_disk=disk, virt_to_pool=pool)
    if phase == "changing":
        return playbook_command("provision_vm", vm_name=name)
    purge = playbook_command("purge_vm", vm_name=name)
    if phase == "purging":
        return purge
    return f"the run that creates it finishes that; else what it left is removed by {purge}"


def compare_notes(
    answers: t.Mapping[str, Examined], silent: t.Collection[str], lost: t.Collection[str]
) -> list[Finding]:
    """VMs that nobody noted, of hypervisors that answer, and machines that no inventory names and
    that are not declared ``lost``."""
    seen = {name: host for name, one in answers.items() if (host := one.get("host")) is not None}
    by_machine = {str(host.get("uuid")): name for name, host in seen.items()}
    held = [note for host in seen.values() for note in notes.notes(host.get("notes") or ())]
    claimed = {note.value for note in held if isinstance(note, notes.Claim) and note.kind == "uuid"}
    noted = {note.machine for note in held if isinstance(note, notes.Reading)}
    findings = [
        Finding(
            "note_differs",
            (name,),
            f"no other hypervisor has noted what {name} has: while {name} is silent, nothing can be"
            " created",
        )
        for machine, name in by_machine.items()
        if machine not in noted and len(seen) > 1
    ]
    for by, host in seen.items():
        findings += _ahead(by, host, by_machine, seen)
    for by, answer in answers.items():
        checkup = answer.get("checkup")
        for volume, text in (checkup["noted"] if checkup else {}).items():
            note = notes.parse(volume)
            body = notes.opened(note, text) if isinstance(note, notes.Reading) else None
            if body is None or not isinstance(note, notes.Reading):
                continue
            name = by_machine.get(note.machine, by)
            if name != by:
                known = claimed | {vm["uuid"] for vm in body[1]}
                findings += _not_noted(by, name, note, answers[name], known)
    answering = {
        name: rule.Answering(str(host.get("uuid")), host.get("notes") or ())
        for name, host in seen.items()
    }
    unlisted = [machine for machine in rule.silent_machines(answering) if machine not in lost]
    if unlisted and not silent:
        names = shlex.quote(",".join(unlisted))
        text = (
            f"the fleet also has machine {', '.join(unlisted)} by what was noted, which no"
            " hypervisor of the inventory is: nothing is created until that is decided"
        )
        fix = (
            "add it to the inventory; only if it is permanently gone, for this run -e"
            f" virt_hypervisors_lost={names}, or that variable in the group_vars"
        )
        findings.append(Finding("machine_unlisted", tuple(seen), text, fix))
    return findings


def _ahead(
    by: str,
    host: SeenHost,
    by_machine: t.Mapping[str, str],
    seen: t.Mapping[str, SeenHost],
) -> t.Iterator[Finding]:
    """Readings that ``by`` holds of machines whose clocks are not so far by now: nothing that is
    read of them until then replaces these, and what is claimed there counts as settled."""
    for note in notes.notes(host.get("notes") or ()):
        name = by_machine.get(note.machine)
        now = seen[name].get("at") if name is not None else None
        if name is None or now is None or not isinstance(note, notes.Reading):
            continue
        if note.at - now > notes.GRACE:
            text = (
                f"{by} noted what {name} had at {notes.time_text(note.at)}, where it is"
                f" {notes.time_text(now)}: its clock was ahead; if {name} falls silent before that"
                " time, another VM of a name that it has can be created"
            )
            fix = command_on(by, "virsh", "-q", "vol-delete", note.volume, "--pool", NOTES)
            yield Finding("note_ahead", (by, name), text, fix)


def _not_noted(
    by: str, name: str, note: notes.Reading, answer: Examined, known: t.Collection[str]
) -> t.Iterator[Finding]:
    """The VMs of ``name`` whose UUIDs are not ``known`` from that note or claims since."""
    checkup = answer.get("checkup")
    for vm in checkup["vms"] if checkup else ():
        if vm["uuid"] in known or vm["name"].endswith(CLAIM):
            continue
        text = (
            f"{vm['name']!r} is on {name}, and what {by} noted of it at"
            f" {notes.time_text(note.at)} lacks that VM: while {name} is silent, another one of"
            " that name can be created"
        )
        yield Finding("note_differs", (name,), text)
