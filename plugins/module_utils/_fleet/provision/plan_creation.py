# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps that create a VM, from whatever exists under its name.

Its name is claimed first, with a definition that cannot be started. Its volumes are created under
the claim, which records the progress of each. Then the definition is replaced by the final one, and
the VM is started. What an interrupted run left is removed; if it was complete, it is started.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from collections.abc import Mapping

from ..._records import dataclass, field
from ..base.metadata import BEGUN, MADE, NOT_MADE, Metadata, Owner, OwnVolume, metadata_problems
from ..base.names import playbook_command
from ..base.results import GENERATED
from ..engine import leases
from ..engine.leases import Holder
from ..engine.steps import Action, Effect, Plan, Step
from ..spec import request
from ..spec.domain import Domain

CREATING, STARTING = "creating", "starting"
# The VMs of a batch come to each of these together
CLEAR, CLAIM, MAKE, BOOT, RUN = range(5)
# How far the content of a volume has been written
EMPTY, PART, FILLED = "empty", "part", "filled"

_Step = Step["CreationFacts"]


@dataclass(frozen=True)
class CreationFacts:
    """What exists under the name. ``uuid`` is None if there is no domain.

    ``at_work``: its owner is a live process (``holder``), or a run that may be between two of its
    steps.
    ``files`` are its existing volumes by path, and how far they have been written; ``taken`` are
    existing files that do not belong to it; ``stays`` says why what an interrupted run created
    must not be removed. ``state`` is running, paused or None, as far as it matters.
    """

    name: str
    uuid: str | None = None
    stored: Metadata | None = None
    at_work: bool = False
    holder: Holder | None = None
    startable: bool = False
    autostart: bool = False
    state: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    taken: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()


@dataclass(frozen=True)
class Take(Action):
    """Take over what an interrupted run left, and work for ``run``."""

    run: str


@dataclass(frozen=True)
class Volume(Action):
    """Create the volume of a disk, empty."""

    path: str


@dataclass(frozen=True)
class Fill(Action):
    """Fill it, and sync it to disk."""

    path: str


class ClearLeft(Action):
    """Remove the volumes that an interrupted run created."""


class UndefineLeft(Action):
    """Remove the definition that an interrupted run left."""


class ClaimName(Action):
    """Define a VM that cannot be started, so that no other gets its name."""


class BeginClaimed(Action):
    """Take up the claim: this process is at work on it."""


class RecordFiles(Action):
    """Record which files its volumes are."""


class GiveSeed(Action):
    """Create its seed medium, or write the seed into its disk."""


class SetAutostart(Action):
    """Have it start with its hypervisor."""


class DefineFinal(Action):
    """Replace the claim by its definition."""


class StartCreated(Action):
    """Start it."""


class LetRun(Action):
    """Let it run, and end the lease."""


# Those that are reported; the others only coordinate with other runs
_REPORTED = (ClaimName, Volume, GiveSeed, SetAutostart, StartCreated)


@dataclass(frozen=True)
class CreationRequest:
    """The VM that ``run`` requests, on the hypervisor ``home``.

    ``disks`` are the volumes to be created, ``seed`` that of its medium. ``final`` is its metadata
    in the end, ``fleet_cpu`` the CPU that it gets of the fleet, if it does, for people.
    """

    domain: Domain
    run: str
    home: str
    final: Metadata
    disks: tuple[OwnVolume, ...] = ()
    seed: OwnVolume | None = None
    fleet_cpu: str = ""


def plan(facts: CreationFacts, wanted: CreationRequest) -> Plan[CreationFacts]:
    """The steps from ``facts`` to what is wanted; none for an existing VM, whose differences are
    changed by ``plan.py``.
    """
    refusals = _refusals(facts, wanted)
    if refusals:
        return Plan(refusals=tuple(refusals))
    stored = facts.stored
    if stored is None:
        return Plan((*_claim(wanted), *_make(wanted), *_run(wanted)))
    if stored.phase == STARTING:
        return Plan((_take(wanted, wanted.run, MAKE), *_run(wanted, irreversible=True)))
    if stored.phase != CREATING:
        return Plan()
    if is_own(stored, wanted.run):
        return Plan((*_make(wanted), *_run(wanted)))
    # what has to be removed belongs to that run until it is gone
    run = stored.owner.run if stored.owner else ""
    clear = _clear(wanted.domain.name, stored)
    return Plan((_take(wanted, run, CLEAR), *clear, *_claim(wanted), *_make(wanted), *_run(wanted)))


def waits(facts: CreationFacts, wanted: CreationRequest) -> bool:
    """Whether the only obstacle is another run working on it, which is worth waiting for."""
    return facts.at_work and not _refusals(dataclasses.replace(facts, at_work=False), wanted)


def texts(facts: CreationFacts, wanted: CreationRequest) -> list[str]:
    """The texts of the reported steps; the same for every call of a run that makes several."""
    stored = facts.stored
    if stored is not None and is_own(stored, wanted.run):
        facts = CreationFacts(facts.name)
    return [step.text for step in plan(facts, wanted).steps if isinstance(step.action, _REPORTED)]


def is_own(stored: Metadata, run: str) -> bool:
    """Whether it is a claim of an earlier call of ``run`` that no process has taken up."""
    owner = stored.owner
    own = owner is not None and owner.run == run and owner.pid == 0
    return own and stored.phase == CREATING


def half_made(name: str, stays: t.Iterable[str]) -> str:
    """Why what an interrupted run left is not removed."""
    return (
        f"an interrupted run left {name!r} incomplete, and the existing files with the names of its"
        f" disks are not removed: {'; '.join(stays)}. Move away files that belong to others, or"
        f" choose another name; {playbook_command('purge_vm', vm_name=name)} removes the rest and"
        " nothing else"
    )


def occupied(path: str) -> str:
    """Why a VM is not created where a file has the name of one of its volumes."""
    return (
        f"{path} already exists and does not belong to this VM; refusing to overwrite it:"
        " remove or rename it, or choose another name"
    )


def _refusals(facts: CreationFacts, wanted: CreationRequest) -> list[str]:
    name, stored = facts.name, facts.stored
    if facts.uuid is None:
        return [occupied(path) for path in facts.taken]
    broken = metadata_problems(name, stored)
    if broken:
        return broken
    if stored is None or stored.request is None:
        return [
            f"a domain {name!r} is already defined on {wanted.home} and was not made by this"
            " collection; choose another name"
        ]
    busy = leases.held(name, stored.phase, facts.holder)
    if stored.phase in (None, "changing"):
        return [busy] if stored.phase and facts.at_work else []
    if stored.phase not in (CREATING, STARTING):
        return [leases.in_phase(name, stored.phase, facts.holder)]
    different = request.differences(stored.request, wanted.domain)
    if different:
        return [
            f"{name!r} is being created by another request ({'; '.join(different)}); if that run is"
            " dead, remove what it left with virt_purge"
        ]
    if stored.owner is None:
        return [
            f"{name!r} is being created, but its metadata names no owner; remove it with virt_purge"
        ]
    if facts.at_work:
        return [busy]
    return [half_made(name, facts.stays)] if facts.stays else []


# --- the steps ---


def _take(wanted: CreationRequest, run: str, stage: int) -> _Step:
    """This process takes over the lease of the interrupted run, and works for ``run``."""
    text = f"take over {wanted.domain.name} from an interrupted run"
    effect = functools.partial(_owned, run=run)
    return Step(Take(run), text, effect, irreversible=True, stage=stage)


def _clear(name: str, stored: Metadata) -> tuple[_Step, ...]:
    """Remove its volumes in reverse order of creation, then the definition, which names them."""
    paths = [one.path for one in reversed(stored.volumes)]
    parts = [functools.partial(_without, gone=paths[:count]) for count in range(1, len(paths))]
    text = f"remove what an interrupted run created of {name}"
    return (
        Step(
            ClearLeft(),
            text,
            lambda before: _without(before, paths),
            torn=tuple(parts),
            irreversible=True,
            stage=CLEAR,
        ),
        Step(
            UndefineLeft(),
            f"undefine {name}",
            lambda before: CreationFacts(name, files=before.files),
            irreversible=True,
            stage=CLEAR,
        ),
    )


def _without(before: CreationFacts, gone: t.Collection[str]) -> CreationFacts:
    files = {path: kind for path, kind in before.files.items() if path not in gone}
    return dataclasses.replace(before, files=files)


def _claim(wanted: CreationRequest) -> tuple[_Step, ...]:
    name = wanted.domain.name

    def claimed(before: CreationFacts) -> CreationFacts:
        stored = _kept(wanted, CREATING, NOT_MADE)
        return CreationFacts(name, GENERATED, stored, files=before.files)

    cpu = f" with CPU {wanted.fleet_cpu} (virt_cpu)" if wanted.fleet_cpu else ""
    return (Step(ClaimName(), f"define {name}{cpu}", claimed, stage=CLAIM),)


def _make(wanted: CreationRequest) -> tuple[_Step, ...]:
    """The volumes: all are created empty, then their files are recorded, and then they are filled,
    so that any later run can identify them by one or the other after a sudden end.
    """
    domain = wanted.domain
    disks, seed = wanted.disks, wanted.seed

    def begin(before: CreationFacts) -> CreationFacts:
        return _noted(_owned(before, wanted.run), BEGUN)

    steps = [
        Step[CreationFacts](
            BeginClaimed(), f"take up the claim of {domain.name}", begin, stage=MAKE
        )
    ]
    steps += [
        Step(
            Volume(volume.path),
            f"create {volume.pool}/{volume.name}",
            functools.partial(_with, path=volume.path, kind=EMPTY),
            stage=MAKE,
        )
        for volume in disks
    ]
    paths = [volume.path for volume in disks]
    note = functools.partial(_noted, made=MADE, paths=paths)
    steps.append(Step(RecordFiles(), f"record the files of {domain.name}", note, stage=MAKE))
    for volume in disks:
        disk = next(disk for disk in domain.disks if disk.name == volume.target)
        copied = disk.image is not None and not disk.overlay
        incomplete = functools.partial(_with, path=volume.path, kind=PART)
        complete = functools.partial(_with, path=volume.path, kind=FILLED if copied else EMPTY)
        steps.append(
            Step(
                Fill(volume.path),
                f"{'fill' if copied else 'flush'} {volume.pool}/{volume.name}",
                complete,
                (incomplete,) if copied else (),
                stage=MAKE,
            )
        )
    if domain.seed is not None and (seed is not None or domain.seed.method == "offline"):
        steps.append(_seed(wanted, domain.seed.method, seed))
    return tuple(steps)


def _seed(wanted: CreationRequest, method: str, seed: OwnVolume | None) -> _Step:
    """Create a medium, or write the seed into a disk; for ``auto`` the disk decides which."""
    name = wanted.domain.name
    paths = [one.path for one in wanted.disks]
    torn: list[Effect[CreationFacts]] = []
    if seed is None:
        text = f"write the seed into {name}"
        effect: Effect[CreationFacts] = functools.partial(_with_all, paths=paths, kind=FILLED)
        torn.append(functools.partial(_with_all, paths=paths, kind=PART))
    else:
        text = f"seed {name}" if method == "auto" else f"create {seed.pool}/{seed.name}"
        made = functools.partial(_with, path=seed.path, kind=EMPTY)
        note = functools.partial(_noted, made=MADE, paths=[seed.path])

        def effect(before: CreationFacts) -> CreationFacts:
            return _with(note(made(before)), path=seed.path, kind=FILLED)

        def part(before: CreationFacts) -> CreationFacts:
            return _with(note(made(before)), path=seed.path, kind=PART)

        torn += [made, lambda before: note(made(before)), part]
    return Step(GiveSeed(), text, effect, torn=tuple(torn), stage=MAKE)


def _run(wanted: CreationRequest, *, irreversible: bool = False) -> tuple[_Step, ...]:
    """Define, start and release the complete VM; ``irreversible``: it was complete before."""
    domain, steps = wanted.domain, []
    start = domain.start or irreversible
    if domain.autostart and not irreversible:
        set_it: Effect[CreationFacts] = lambda before: dataclasses.replace(before, autostart=True)  # noqa: E731
        steps.append(Step[CreationFacts](SetAutostart(), "set autostart", set_it, stage=BOOT))
    if not irreversible:
        phase = STARTING if start else None
        steps.append(
            Step(
                DefineFinal(),
                f"define the final {domain.name}",
                lambda before: dataclasses.replace(
                    before, stored=_kept(wanted, phase, MADE), startable=True
                ),
                stage=BOOT,
            )
        )
    if start:
        on: Effect[CreationFacts] = lambda before: dataclasses.replace(before, state="paused")  # noqa: E731
        run: Effect[CreationFacts] = lambda before: dataclasses.replace(before, state="running")  # noqa: E731
        steps.append(
            Step(StartCreated(), "start", on, torn=(run,), irreversible=irreversible, stage=BOOT)
        )
        steps.append(Step(LetRun(), f"let {domain.name} run", _released, (run,), irreversible, RUN))
    return tuple(steps)


# --- their effects ---


def _kept(wanted: CreationRequest, phase: str | None, made: str) -> Metadata:
    volumes = tuple(dataclasses.replace(one, made=made) for one in wanted.final.volumes)
    owner = _process(wanted.run) if phase else None
    return dataclasses.replace(wanted.final, phase=phase, owner=owner, volumes=volumes)


def _process(run: str) -> Owner:
    """The process that does this."""
    return Owner(GENERATED, 1, 1, run)


def _owned(before: CreationFacts, run: str) -> CreationFacts:
    if before.stored is None:
        return before
    stored = dataclasses.replace(before.stored, owner=_process(run))
    return dataclasses.replace(before, stored=stored)


def _noted(
    before: CreationFacts, made: str, paths: t.Collection[str] | None = None
) -> CreationFacts:
    if before.stored is None:
        return before
    volumes = tuple(
        dataclasses.replace(one, made=made) if paths is None or one.path in paths else one
        for one in before.stored.volumes
    )
    stored = dataclasses.replace(before.stored, volumes=volumes)
    return dataclasses.replace(before, stored=stored)


def _with(before: CreationFacts, path: str, kind: str) -> CreationFacts:
    return dataclasses.replace(before, files={**before.files, path: kind})


def _with_all(before: CreationFacts, paths: t.Sequence[str], kind: str) -> CreationFacts:
    return dataclasses.replace(before, files={**before.files, **dict.fromkeys(paths, kind)})


def _released(before: CreationFacts) -> CreationFacts:
    if before.stored is None:
        return before
    stored = dataclasses.replace(before.stored, phase=None, owner=None)
    return dataclasses.replace(before, stored=stored, state="running")
