# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is removed with a domain, what is kept and why, and reasons to refuse the removal."""

from __future__ import annotations

import dataclasses
import shlex
import typing as t

from ..._records import dataclass, field
from ..base.metadata import Metadata, OwnVolume, metadata_problems
from ..base.names import playbook_command
from ..engine import leases
from ..engine.leases import Holder
from ..engine.steps import Action, Effect, Step

_WHERE = "virsh -c qemu:///system"
# Phases that a run on the VM's own host is in, and what it does to the VM
_AT_WORK = {
    "creating": "created",
    "starting": "created",
    "purging": "removed",
    "seeding": "seeded",
    "changing": "changed",
}


@dataclass(frozen=True)
class VolumeFacts:
    """One volume that the domain's metadata names, as it was found.

    ``pool_path`` is the directory of the pool of that name, None if there is no such pool; ``path``
    where the volume would be in it. ``kind`` is absent, file, link, directory or other. ``users``
    describes who else uses it, ``own_overlays`` are disks of the domain itself that have it as
    backing file and are not known to be its own. ``attached``: it is a disk of the domain, or a
    backing file of one by its snapshots. ``shared``: other hypervisors can reach the pool;
    ``asked``: they have been asked. ``foreign``: it is not known to be the file created for the
    domain, whose creation was not finished.
    """

    own: OwnVolume
    pool_type: str | None = None
    pool_path: str | None = None
    pool_active: bool = False
    path: str | None = None
    kind: str = "absent"
    left_behind: bool = False  # there is something at the path that the metadata says
    size_mib: int | None = None
    attached: bool = False
    users: tuple[str, ...] = ()
    own_overlays: tuple[str, ...] = ()
    locked: bool = False
    shared: bool = False
    asked: bool = False
    foreign: bool = False


@dataclass(frozen=True)
class DomainFacts:
    """The domain to be removed. ``disks`` are (path, description) of all its disks.

    ``snapshots`` are removed with it, ``external_snapshots`` have files made by other means.
    """

    name: str
    uuid: str
    state: str
    active: bool
    persistent: bool
    metadata: Metadata | None
    holder: Holder | None = None  # of the lease, if it is alive
    managed_save: bool = False
    snapshots: tuple[str, ...] = ()
    external_snapshots: tuple[str, ...] = ()
    disks: tuple[tuple[str, str], ...] = ()
    nvram: str | None = None
    nvram_own: bool = False
    logs: tuple[str, ...] = ()


@dataclass(frozen=True)
class PurgeOptions:
    """``force``: a running domain is destroyed; ``base_pool``: its volumes belong to no VM."""

    force: bool = False
    base_pool: str = "base"


@dataclass(frozen=True)
class Removal:
    """One thing to remove."""

    kind: str
    name: str
    path: str | None = None
    size_mib: int | None = None


@dataclass(frozen=True)
class Kept:
    """One file that is kept, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Belongings:
    """The domain, None once it is removed, and what its metadata names."""

    domain: DomainFacts | None
    volumes: tuple[VolumeFacts, ...] = ()


@dataclass(frozen=True)
class Removing(Action):
    """What a step removes."""

    removed: tuple[Removal, ...] = ()


class Mark(Removing):
    """Mark the domain, so that it cannot be started."""


class Destroy(Removing):
    """Turn it off."""


class LookAgain(Removing):
    """Plan again."""


class ForgetMemory(Removing):
    """Remove its saved memory."""


class RemoveVolume(Removing):
    """Remove a volume of its own."""


class RemoveLog(Removing):
    """Remove its log."""


class Undefine(Removing):
    """Remove its definition, and what goes with that."""


# What is removed separately; the rest is removed with the domain's definition
_BY_THEMSELVES: dict[str, type[Removing]] = {
    "managed_save": ForgetMemory,
    "volume": RemoveVolume,
    "seed": RemoveVolume,
    "log": RemoveLog,
}


@dataclass
class Removals:
    """``removed`` in the order of removal; with ``problems`` nothing is removed at all."""

    removed: list[Removal] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    volumes: list[VolumeFacts] = field(default_factory=list)
    foreign: list[OwnVolume] = field(default_factory=list)  # not its own after all


def plan(domain: DomainFacts, volumes: t.Sequence[VolumeFacts], options: PurgeOptions) -> Removals:
    """What is removed with ``domain``, and what is kept."""
    removals = Removals()
    removals.problems = _refusals(domain, options)
    if removals.problems:
        return removals
    if domain.managed_save:
        removals.removed.append(Removal("managed_save", domain.name))
    named: set[str | None] = set()
    for volume in volumes:
        problem = _volume(volume, domain, options, removals)
        if problem:
            removals.problems.append(problem)
            named.add(volume.path or volume.own.path)
    named |= {kept.path for kept in removals.kept} | {item.path for item in removals.removed}
    for path, what in domain.disks:
        if path not in named:
            named.add(path)
            removals.kept.append(Kept(path, f"{what}, and not made for {domain.name!r}"))
    removals.removed += [Removal("log", domain.name, path) for path in domain.logs]
    removals.removed += [Removal("snapshot", name) for name in domain.snapshots]
    if domain.nvram is not None and domain.nvram_own:
        removals.removed.append(Removal("nvram", domain.name, domain.nvram))
    elif domain.nvram is not None:
        reason = "firmware variables that are not in libvirt's own directory or are used by others"
        removals.kept.append(Kept(domain.nvram, reason))
    removals.removed.append(Removal("domain", domain.name))
    return removals


def steps(removals: Removals, domain: DomainFacts) -> tuple[Step[Belongings], ...]:
    """The steps that remove ``removals``: first the domain is kept from starting; its definition,
    which names everything else, is removed last.
    """
    name = domain.name
    first = [Step(Mark(), f"mark {name}", _marked(removals))]
    if domain.active:
        off = _domain(lambda facts: dataclasses.replace(facts, state="shutoff", active=False))
        first.append(Step(Destroy(), f"destroy {name}", off))
    first.append(Step(LookAgain(), f"look at {name} again", lambda before: before))
    last: list[Removal] = []
    for item in removals.removed:
        kind = _BY_THEMSELVES.get(item.kind)
        if kind is not None:
            text = f"remove {item.path or 'its saved memory'}"
            first.append(Step(kind((item,)), text, _gone(item), irreversible=True))
        else:
            last.append(item)  # removed with the definition
    undefine: Step[Belongings] = Step(
        Undefine(tuple(last)),
        f"undefine {name}",
        lambda before: dataclasses.replace(before, domain=None),
        irreversible=True,
    )
    return (*first, undefine)


def _domain(change: Effect[DomainFacts]) -> Effect[Belongings]:
    def effect(before: Belongings) -> Belongings:
        if before.domain is None:
            return before
        return dataclasses.replace(before, domain=change(before.domain))

    return effect


def _marked(removals: Removals) -> Effect[Belongings]:
    def effect(before: Belongings) -> Belongings:
        stored = before.domain.metadata if before.domain else None
        if stored is None:
            return before
        own = tuple(volume for volume in stored.volumes if volume not in removals.foreign)
        marked = dataclasses.replace(stored, phase="purging", volumes=own)
        volumes = tuple(volume for volume in before.volumes if volume.own not in removals.foreign)
        mark = _domain(lambda facts: dataclasses.replace(facts, metadata=marked))
        return dataclasses.replace(mark(before), volumes=volumes)

    return effect


def _gone(item: Removal) -> Effect[Belongings]:
    def effect(before: Belongings) -> Belongings:
        if item.kind == "managed_save":
            return _domain(lambda facts: dataclasses.replace(facts, managed_save=False))(before)
        if item.kind == "log":
            logs = before.domain.logs if before.domain else ()
            left = tuple(path for path in logs if path != item.path)
            return _domain(lambda facts: dataclasses.replace(facts, logs=left))(before)
        volumes = tuple(
            dataclasses.replace(volume, kind="absent", left_behind=False)
            if volume.path == item.path
            else volume
            for volume in before.volumes
        )
        return dataclasses.replace(before, volumes=volumes)

    return effect


def _refusals(domain: DomainFacts, options: PurgeOptions) -> list[str]:
    """Reasons that concern the domain itself."""
    name, stored = domain.name, domain.metadata
    broken = metadata_problems(name, stored)
    if broken:
        return broken
    if stored is None or not (stored.made_here or stored.seed is not None):
        return [
            f"{name!r} was neither made nor adopted by this collection, so it is"
            f" unknown which files belong to it and nothing is removed. By hand: {_WHERE} undefine"
            f" {shlex.quote(name)} --nvram --managed-save --snapshots-metadata, then its files; or"
            f" adopt it first, with its disks:"
            f" {playbook_command('adopt', vm_name=name, vm_adopt_disks='true')}"
        ]
    if not stored.made_here and stored.seed is not None:
        return [
            f"{name!r} was not made by this collection, which only gave it a seed, so it is unknown"
            " which disks belong to it and nothing is removed. Remove its seed medium with"
            f" virt_seed (state absent), then by hand: {_WHERE} undefine {name} --nvram"
            " --managed-save --snapshots-metadata, then its files"
        ]
    refusals = []
    if stored.phase not in (None, *_AT_WORK):
        before = ", before anything is removed"
        refusals.append(leases.in_phase(name, stored.phase, domain.holder, before))
    elif stored.phase is not None and domain.holder is not None:
        refusals.append(leases.held(name, stored.phase, domain.holder))
    if not domain.persistent:
        refusals.append(
            f"{name!r} is transient: it disappears when it stops ({_WHERE} destroy {name}), and has"
            " no definition to remove"
        )
    if domain.active and not options.force:
        refusals.append(
            f"{name!r} is {domain.state}; shut it down first"
            f" ({playbook_command('state', vm_name=name, vm_state='shutoff')}), or destroy it with"
            " force (with the playbook: -e vm_force=true)"
        )
    if domain.external_snapshots:
        refusals.append(
            f"{name!r} has external snapshots ({', '.join(domain.external_snapshots)}) made by"
            f" other means, whose files would be left behind; merge them first ({_WHERE}"
            f" blockcommit) and remove them ({_WHERE} snapshot-delete --metadata)"
        )
    return refusals


def _volume(
    volume: VolumeFacts, domain: DomainFacts, options: PurgeOptions, removals: Removals
) -> str | None:
    """Sort one volume into ``removals``; return the reason to remove nothing at all, if any."""
    own = volume.own
    named = f"{own.pool}/{own.name}"
    if volume.path is None:
        if not volume.left_behind:
            return None
        if volume.pool_path is None:
            return (
                f"{named} of {domain.name!r} is at {own.path}, but there is no pool {own.pool!r};"
                " define the pool again"
            )
        removals.kept.append(Kept(own.path, f"outside the pool {own.pool!r}, which is elsewhere"))
        return None
    if volume.kind == "absent":
        if volume.left_behind:
            reason = f"outside the pool {own.pool!r}, which is elsewhere"
            removals.kept.append(Kept(own.path, reason))
        return None
    if volume.foreign:
        removals.foreign.append(own)  # it is returned with the disks that were not made for it
        return None
    if volume.own_overlays:
        return (
            f"{volume.path} is the backing file of {', '.join(volume.own_overlays)}, which"
            f" {domain.name!r} uses now and which would be left behind: most likely a snapshot;"
            f" merge it first ({_WHERE} blockcommit)"
        )
    why = _why_kept(volume, domain, options)
    if why is not None:
        removals.kept.append(Kept(volume.path, why))
        return None
    if volume.users and not volume.attached:
        removals.kept.append(Kept(volume.path, "; ".join(volume.users)))
        return None
    if volume.users:
        return (
            f"{volume.path} of {domain.name!r} is needed by others: {'; '.join(volume.users)}."
            " Remove or detach those first, or make them independent (for an overlay on it:"
            f" {_WHERE} blockpull; that of a transient disk goes when its VM is shut off); nothing"
            " is removed until then"
        )
    if volume.locked and not domain.active:
        return (
            f"{volume.path} is in use (locked) by a program, though {domain.name!r} is not"
            f" running; find out by which (fuser -v {volume.path})"
        )
    if not volume.pool_active:
        return (
            f"pool {own.pool!r} with {volume.path} is not active; start it ({_WHERE} pool-start"
            f" {own.pool})"
        )
    if volume.shared and not volume.asked:
        return (
            f"{volume.path} is on storage that other hypervisors can reach, and it is not known"
            " here whether they use it; use the playbook purge_vm, which asks them"
        )
    removals.volumes.append(volume)
    kind = "seed" if own.role == "seed" else "volume"
    removals.removed.append(Removal(kind, named, volume.path, volume.size_mib))
    return None


def _why_kept(volume: VolumeFacts, domain: DomainFacts, options: PurgeOptions) -> str | None:
    own = volume.own
    if volume.kind != "file":
        return {"link": "a link", "directory": "a directory"}.get(volume.kind, "not a regular file")
    if volume.path != own.path:
        return f"at another place than when it was created ({own.path})"
    if own.pool == options.base_pool:
        return "in the pool of base images, which belong to no VM"
    if own.role != "seed" and not volume.attached and not volume.users:
        return (
            f"made for {domain.name!r}, but no longer one of its disks; if it is not needed:"
            f" {_WHERE} vol-delete {own.name} {own.pool}"
        )
    return None
