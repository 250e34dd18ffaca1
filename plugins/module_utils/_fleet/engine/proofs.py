# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each verb has to prove before it acts, and which hypervisors must answer for that.

``PROOFS`` is the only place that decides whether a silent hypervisor prevents an action, and the
guide shows it. Code that needs answers calls :func:`missing`.
"""

from __future__ import annotations

import re
import typing as t

from ..._records import dataclass
from . import outcomes

Answer = t.Mapping[str, object]
# Those that answer; those the action concerns, by name; all, since any silent one may be concerned;
# all as well, but for one that is silent others may answer by what they noted (notes/rule.py)
ANY, CONCERNED, ALL, NOTED = "any", "concerned", "all", "noted"


@dataclass(frozen=True)
class Proof:
    """One row of the table: ``who`` is for the code, ``answer`` is the same for people."""

    verb: str
    proven: str
    answer: str
    who: str


PROOFS: dict[str, Proof] = {
    "read": Proof(
        "``list``, ``query``, ``host_info``, ``screenshot``, ``console_log``, ``snapshots``,"
        " ``doctor``, the inventory",
        "nothing; silent hypervisors are named, and the first three and the inventory show their"
        " VMs as others noted them",
        "at least one",
        ANY,
    ),
    "create": Proof(
        "``provision_vm``, ``clone``, ``import_vm`` and ``plan`` of a VM that is found nowhere, or"
        " gets a NIC",
        "no hypervisor has a VM of that name or MAC address",
        "more than half of the fleet; for each other, one that noted what it had",
        NOTED,
    ),
    "create alone": Proof(
        "``virt_init`` on its own",
        "no hypervisor has a VM of that name",
        "all hypervisors of the fleet",
        ALL,
    ),
    "change": Proof(
        "``provision_vm`` of a VM that exists and gets no NIC",
        "the VM is on that hypervisor",
        "that hypervisor",
        ANY,  # that it has the VM is its answer
    ),
    "adopt": Proof(
        "``adopt``",
        "the VM is on that hypervisor; none that answers has another of its name, UUID or MAC"
        " address",
        "that hypervisor",
        CONCERNED,  # it makes no name appear: the VM has it already
    ),
    "adopt disks": Proof(
        "``adopt`` with ``vm_adopt_disks``",
        "no other hypervisor has the pool of its disks",
        "all hypervisors of the fleet",
        ALL,
    ),
    "move": Proof(
        "``migrate_vm``, each VM of ``evacuate`` and of ``return_vms``",
        "the VM is on its source; the destination can take it",
        "source and destination; without ``vm_host``, the best of those that answered is chosen",
        CONCERNED,
    ),
    "finish": Proof(
        "the same, and ``repair_vms``, where a move of the VM is unfinished",
        "which of the two ends has the VM",
        "both ends of that move",
        CONCERNED,
    ),
    "finish lost": Proof(
        "``repair_vms``, where the source of an unfinished move is declared lost",
        "what the destination has of the VM",
        "the destination of that move",
        CONCERNED,
    ),
    "evacuate": Proof(
        "``evacuate``, each hypervisor that ``rolling`` works on",
        "which VMs the hypervisor has",
        "that hypervisor",
        CONCERNED,
    ),
    "return": Proof(
        "``return_vms``, each hypervisor that ``rolling`` works on",
        "which VMs the hypervisor can take back",
        "that hypervisor",
        CONCERNED,
    ),
    "return all": Proof(
        "``return_vms``, to end without an error",
        "no other hypervisor has a VM that was evacuated from it",
        "all hypervisors of the play; the VMs of those that answered are returned anyway",
        ALL,
    ),
    "repair": Proof(
        "``repair_vms`` without a name, to end without an error",
        "no move is left unfinished",
        "all hypervisors of the play; unfinished moves that are known are repaired anyway",
        ALL,
    ),
    "rename": Proof(
        "``rename``",
        "no hypervisor has a VM of the new name, before and after it is taken",
        "more than half of the fleet; for each other, one that noted what it had",
        NOTED,
    ),
    "purge": Proof(
        "``purge_vm``, disks on a file system of the hypervisor's own",
        "the VM is on that hypervisor",
        "that hypervisor",
        CONCERNED,
    ),
    "purge shared": Proof(
        "``purge_vm``, disks on shared storage",
        "no other hypervisor uses the disks",
        "all hypervisors, since each may share the storage",
        ALL,
    ),
    "state": Proof(
        "``state``, ``console``, ``snapshot``, ``move_disk``, ``backup``, ``restore_disk``",
        "the VM is on that hypervisor",
        "that hypervisor",
        CONCERNED,
    ),
    "selection": Proof(
        "``state``, ``migrate_vm``, ``purge_vm``, ``snapshot``, ``move_disk``, ``backup``,"
        " ``adopt`` of a group or a pattern, to end without an error",
        "no other hypervisor has a VM that is meant too",
        "all hypervisors of the play; it is done to VMs of those that answered anyway",
        ALL,
    ),
    "absent": Proof(
        "``migrate_vm``, ``repair_vms``, ``purge_vm``, ``state``, ``console``, ``snapshot``,"
        " ``move_disk``, ``backup``, ``restore_disk``, ``adopt``, ``clone`` of a VM that is found"
        " nowhere",
        "no hypervisor has the VM",
        "all hypervisors of the fleet",
        ALL,
    ),
    "restart": Proof(
        "``restart_elsewhere``",
        "the hypervisor is off, and no other has one of its VMs",
        "those that take the VMs over; what others that answer say counts",
        ANY,
    ),
    "verify": Proof(
        "``verify_backups``",
        "nothing of the fleet: each backup is booted on a hypervisor that answers, under a name of"
        " its own",
        "at least one",
        ANY,
    ),
    "prune": Proof(
        "``images`` with ``virt_images_prune``",
        "no other hypervisor has the pool of base images",
        "all hypervisors of the fleet, where the pool has an id (role ``storage``)",
        ALL,
    ),
}


@dataclass(frozen=True)
class Silence:
    """Why a hypervisor gave no answer; ``reached``: it is reachable, but could not answer;
    ``asked``: false if ``--limit`` excludes it. ``killed``: its module was killed."""

    why: str
    reached: bool = False
    asked: bool = True
    killed: bool = False


# Errors that only a machine that answers causes, whatever stands between it and the controller
_ANSWERS = (
    "Permission denied",
    "Host key verification failed",
    "no libvirt socket there",
    "/libvirt-sock",
    "/virtqemud-sock",
)


_MACHINE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHAPELESS = "its response is not what a module of this collection returns"


def answers(error: str) -> bool:
    """Whether this error shows that the hypervisor's machine answers."""
    return any(text in error for text in _ANSWERS)


def _responded(answer: Answer) -> bool:
    return bool(answer) and not answer.get("unreachable") and not answer.get("skipped")


def silences(
    registered: t.Mapping[str, Answer],
    answered: t.Collection[str],
    expected: t.Sequence[str] | None,
    lost: t.Collection[str],
) -> dict[str, Silence]:
    """The hypervisors of the fleet that gave no answer and are not declared lost."""
    silent = {
        name: Silence(
            outcomes.reason(answer)
            if outcomes.was_killed(answer)
            else str(
                outcomes.unreached(str(answer.get("msg") or ""))
                or (_SHAPELESS if _responded(answer) else "it did not answer")
            ),
            reached=bool(answer)
            and (not answer.get("unreachable") or answers(str(answer.get("msg")))),
            killed=outcomes.was_killed(answer),
        )
        for name, answer in registered.items()
        if name not in answered and name not in lost
    }
    for name in expected or ():
        if name not in registered and name not in lost:
            silent[name] = Silence("excluded by --limit", asked=False)
    return silent


def unknown_lost(lost: t.Collection[str], known: t.Collection[str]) -> str | None:
    """What is wrong with ``virt_hypervisors_lost``."""
    return unknown_names("virt_hypervisors_lost", lost, known)


def unknown_names(variable: str, names: t.Collection[str], known: t.Collection[str]) -> str | None:
    """What is wrong with a ``variable`` that names hypervisors, or the UUIDs of machines that the
    inventory need not have."""
    unknown = [name for name in names if name not in known and not _MACHINE.fullmatch(name)]
    if not unknown:
        return None
    return (
        f"{variable} names {', '.join(unknown)}, not a hypervisor of this play; its"
        f" hypervisors: {', '.join(known)}"
    )


def missing(
    proof: str, silent: t.Mapping[str, Silence], *concerned: str | None
) -> dict[str, Silence]:
    """Which of ``silent`` must answer before ``proof`` is given; ``concerned`` are the hypervisors
    that the action is about."""
    who = PROOFS[proof].who
    if who in (ALL, NOTED):
        return dict(silent)
    return {
        name: silence for name, silence in silent.items() if who == CONCERNED and name in concerned
    }


def named(silent: t.Mapping[str, Silence]) -> str:
    """The silent ones, each with its reason."""
    return "; ".join(f"{name}: {silence.why}" for name, silence in silent.items())


def remedy(silent: t.Mapping[str, Silence]) -> str:
    """What to do about them. Only one that cannot be reached at all may be permanently gone."""
    gone = [name for name, silence in silent.items() if silence.asked and not silence.reached]
    killed = [name for name, silence in silent.items() if silence.killed]
    ill = [
        name
        for name, silence in silent.items()
        if silence.asked and silence.reached and not silence.killed
    ]
    unasked = [name for name, silence in silent.items() if not silence.asked]
    remedies = []
    if gone:
        remedies.append(
            f"bring {', '.join(gone)} back; only if permanently gone, name it in"
            f" virt_hypervisors_lost, for example -e virt_hypervisors_lost={','.join(gone)}"
        )
    if ill:
        remedies.append(f"{', '.join(ill)} can be reached, so fix the problem reported for it")
    if killed:
        remedies.append(f"run it again: the module on {', '.join(killed)} was killed")
    if unasked:
        remedies.append(f"run without --limit to include {', '.join(unasked)}")
    return "; ".join(remedies)
