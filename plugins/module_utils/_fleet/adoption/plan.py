# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adopt VMs made by other means: reasons to refuse, and which disks become their own."""

from __future__ import annotations

import dataclasses

from ..._records import dataclass
from ..base.metadata import Metadata, OwnVolume, metadata_problems
from ..base.names import check_vm_name, playbook_command, valid_vm_name
from ..engine import leases
from ..engine.leases import Holder
from ..engine.steps import Action, Plan, Step
from ..spec import request
from ..storage.base_name import BaseName
from .export import Description

ADOPTED = "yes"
_INCOMING = ("migration", "starting up")


@dataclass(frozen=True)
class AdoptionDisk:
    """A disk of the domain on its storage; ``pool`` is the one whose directory it is in.

    ``kind`` is file, link, absent or other; ``users`` describe what else refers to it.
    """

    target: str
    path: str | None
    device: str = "disk"
    readonly: bool = False
    shareable: bool = False
    pool: str | None = None
    pool_id: str | None = None
    name: str = ""
    shared: bool = False
    kind: str = "absent"
    links: int = 1
    users: tuple[str, ...] = ()
    locked: bool = False
    made: str = ""


@dataclass(frozen=True)
class AdoptionFacts:
    """A domain; ``stored`` is our metadata in its definition, ``live`` that of the running VM.

    ``disks`` are read only if they will become its own.
    """

    name: str
    uuid: str
    persistent: bool
    active: bool
    state: str
    reason: str
    stored: Metadata | None
    live: Metadata | None
    description: Description
    holder: Holder | None = None  # of the lease, if it is alive
    job: str | None = None
    disks: tuple[AdoptionDisk, ...] = ()


@dataclass(frozen=True)
class AdoptionOptions:
    """``disks``: they become the VMs' own. ``shared_ids`` are ids of pools that other hypervisors
    have too."""

    disks: bool = False
    base_pool: str = "base"
    shared_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kept:
    """A disk that does not become the VM's own, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Adopt(Action):
    """Write our metadata."""

    ours: Metadata


def is_candidate(stored: Metadata | None) -> bool:
    """Whether a domain is included if no name is given: it is unmanaged, or adopted before."""
    return stored is None or not stored.made_here or stored.adopted is not None


def plan(facts: AdoptionFacts, options: AdoptionOptions) -> Plan[AdoptionFacts]:
    """The steps that adopt the domain."""
    refusals = [*_leased(facts), *lasting_refusals(facts)]
    if refusals:
        return Plan(refusals=tuple(refusals))
    if not is_candidate(facts.stored):
        return Plan()
    ours = wanted(facts, options)
    if facts.stored == ours and (not facts.active or facts.live == ours):
        return Plan()

    def both(before: AdoptionFacts) -> AdoptionFacts:
        return live(stored(before))

    def stored(before: AdoptionFacts) -> AdoptionFacts:
        return dataclasses.replace(before, stored=ours)

    def live(before: AdoptionFacts) -> AdoptionFacts:
        return dataclasses.replace(before, live=ours) if before.active else before

    torn = (stored, live) if facts.active else ()
    return Plan((Step(Adopt(ours), f"adopt {facts.name}", both, torn),))


def wanted(facts: AdoptionFacts, options: AdoptionOptions) -> Metadata:
    """The domain's metadata once it is adopted; disks that it owns remain its own."""
    before = facts.stored or Metadata()
    taken, _kept = sort_disks(facts, options)
    paths = {one.path for one in before.volumes}
    domain = facts.description.domain
    return dataclasses.replace(
        before,
        adopted=ADOPTED,
        request=None if domain is None else request.to_text(domain),
        volumes=(*before.volumes, *(one for one in taken if one.path not in paths)),
    )


def sort_disks(
    facts: AdoptionFacts, options: AdoptionOptions
) -> tuple[list[OwnVolume], list[Kept]]:
    """The disks that become the VM's own, and those that do not."""
    taken: list[OwnVolume] = []
    kept: list[Kept] = []
    if not options.disks:
        return taken, kept
    own = {one.path for one in facts.stored.volumes} if facts.stored else set()
    for disk in facts.disks:
        if disk.device != "disk" or disk.path in own:
            continue
        reason = _why_not(disk, facts, options)
        if reason is not None or disk.pool is None or disk.path is None:
            kept.append(Kept(disk.path or disk.target, reason or "no file"))
            continue
        taken.append(OwnVolume(disk.pool, disk.name, disk.path, disk.target, "disk", disk.made))
    return taken, kept


def _why_not(disk: AdoptionDisk, facts: AdoptionFacts, options: AdoptionOptions) -> str | None:
    if disk.path is None or not disk.path.startswith("/"):
        return "not a file of this hypervisor"
    if disk.kind != "file":
        return {"absent": "it is missing", "link": "a link"}.get(disk.kind, "not a regular file")
    if disk.pool is None:
        return "in no active directory pool; define one there (virsh pool-define-as)"
    if disk.pool == options.base_pool or BaseName.parse(disk.name) is not None:
        return "a base image, which belongs to no VM"
    if disk.shared or (disk.pool_id is not None and disk.pool_id in options.shared_ids):
        return "on storage that other hypervisors can reach"
    if disk.shareable or disk.readonly:
        return f"{'shareable' if disk.shareable else 'read-only'}, so other VMs may use it"
    if disk.links != 1:
        return f"it has {disk.links} names (hard links)"
    if disk.users:
        return "; ".join(disk.users)
    if disk.locked and not facts.active:
        return f"in use (locked) by a program; fuser -v {disk.path} shows which"
    described = facts.description.domain.disks if facts.description.domain else ()
    if disk.target not in [one.name for one in described]:
        return "not described by the specification"
    return None


def _leased(facts: AdoptionFacts) -> list[str]:
    """That a run is at work on it, or was interrupted: what may be over once it was waited for."""
    name, stored = facts.name, facts.stored
    if stored is None or stored.phase is None or metadata_problems(name, stored, facts.live):
        return []
    return [leases.in_phase(name, stored.phase, facts.holder, ", before the VM is adopted")]


def lasting_refusals(facts: AdoptionFacts) -> list[str]:
    """Why it cannot be adopted, whether or not a run is at work on it."""
    name, stored = facts.name, facts.stored
    problems = metadata_problems(name, stored, facts.live)
    if not facts.persistent:
        problems.append(
            f"{name!r} is transient: it disappears when it stops; define it first (virsh dumpxml"
            f" --security-info {name} | virsh define /dev/stdin)"
        )
    if facts.job is not None:
        problems.append(f"{name!r} has a job running ({facts.job}); wait for it (virsh domjobinfo)")
    if facts.state == "paused" and facts.reason in _INCOMING:
        problems.append(
            f"{name!r} is paused ({facts.reason}), like a VM being migrated in; wait for it"
        )
    if is_candidate(stored):
        problems += [
            f"{name!r} cannot be adopted: {problem}" for problem in facts.description.problems
        ]
        if check_vm_name(name, "", host_name=False):
            command = playbook_command("rename", vm_name=name, vm_new_name=valid_vm_name(name))
            problems.append(f"{name!r} is renamed, while it is shut off, with {command}")
    return problems
