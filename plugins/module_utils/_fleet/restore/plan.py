# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restore a VM from its archive: reasons to refuse, and the steps.

As in creation, its name is claimed first with a definition that cannot be started and names the
volumes; they are created empty, it is recorded which files they are, and they are filled; then the
definition is replaced by the final one. What an interrupted run left is removed by the next run of
the same request, which begins again: a volume that is filled in part cannot be told from another.
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
from ..engine.steps import Action, Plan, Step

CREATING = "creating"
CLEAR, CLAIM, MAKE = range(3)
# How far the content of a volume has been written
EMPTY, PART, FILLED = "empty", "part", "filled"
# A claim has a request, since its volumes are its own; no request of a VM is this one
REQUEST = "{}"

_Step = Step["RestoreFacts"]


@dataclass(frozen=True)
class RestoreFacts:
    """What exists under the name. ``uuid`` is None if there is no domain.

    ``at_work``: its owner is a live process (``holder``), or a run that may be between two of its
    steps. ``files`` are its existing volumes by path, and how far they have been written;
    ``states`` the files of its firmware and TPM that exist. ``taken`` are existing files that do
    not belong to it; ``stays`` says why what an interrupted run created must not be removed.
    ``blockers`` prevent that it is restored here.
    """

    name: str
    uuid: str | None = None
    stored: Metadata | None = None
    at_work: bool = False
    holder: Holder | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    states: frozenset[str] = frozenset()
    taken: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True)
class RestoreRequest:
    """The VM that ``run`` restores on the hypervisor ``home`` from the archive ``source``.

    ``final`` is its metadata in the end, ``states`` the files of its firmware and TPM. ``lacks`` is
    what it is defined without.
    """

    name: str
    uuid: str
    source: str
    run: str
    home: str
    final: Metadata
    volumes: tuple[OwnVolume, ...]
    states: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TakeName(Action):
    """Take over what an interrupted run left."""


@dataclass(frozen=True)
class ClearLeft(Action):
    """Remove the volumes that an interrupted run created."""


@dataclass(frozen=True)
class UndefineLeft(Action):
    """Remove the definition that an interrupted run left, and the state of firmware and TPM."""


@dataclass(frozen=True)
class ClaimName(Action):
    """Define a VM that cannot be started, so that no other gets its name."""


@dataclass(frozen=True)
class BeginClaimed(Action):
    """Take up the claim: this process is at work on it."""


@dataclass(frozen=True)
class CreateVolume(Action):
    """Create the volume of a disk, empty."""

    path: str


@dataclass(frozen=True)
class RecordFiles(Action):
    """Record which files its volumes are."""


@dataclass(frozen=True)
class FillVolume(Action):
    """Fill it from the archive, compare its digest, and sync it to disk."""

    path: str


@dataclass(frozen=True)
class PutState(Action):
    """Write the UEFI variables, or the state of the TPM."""

    path: str


@dataclass(frozen=True)
class DefineFinal(Action):
    """Replace the claim by its definition."""


# Those that are reported; the others only coordinate with other runs
REPORTED = (ClearLeft, FillVolume, PutState, DefineFinal)


def is_restored(facts: RestoreFacts, wanted: RestoreRequest) -> bool:
    """Whether the VM is there, complete, and was restored from that archive."""
    stored = facts.stored
    return stored is not None and stored.phase is None and stored.restored_from == wanted.source


def plan(facts: RestoreFacts, wanted: RestoreRequest) -> Plan[RestoreFacts]:
    """The steps from ``facts`` to the VM of the archive, none if it is there."""
    if is_restored(facts, wanted):
        return Plan()
    refusals = tuple(dict.fromkeys(_refusals(facts, wanted)))
    if refusals:
        return Plan((), refusals)
    stored = facts.stored
    if stored is not None and is_own(stored, wanted.run):
        return Plan(tuple(_make(wanted)))
    clear = () if stored is None else _clear(wanted.name, stored)
    return Plan((*clear, _claim(wanted), *_make(wanted)))


def waits(facts: RestoreFacts, wanted: RestoreRequest) -> bool:
    """Whether the only obstacle is another run working on it, which is worth waiting for."""
    idle = dataclasses.replace(facts, at_work=False)
    return facts.at_work and not list(_refusals(idle, wanted))


def is_own(stored: Metadata, run: str) -> bool:
    """Whether it is a claim of an earlier call of ``run`` that no process has taken up."""
    owner = stored.owner
    own = owner is not None and owner.run == run and owner.pid == 0
    return own and stored.phase == CREATING


def exists(name: str, home: str, uuid: str | None, wanted: str) -> str:
    """Why nothing is restored over a VM that exists."""
    same = " (it has the UUID of the one that was saved)" if uuid == wanted else ""
    return (
        f"a VM {name!r} exists on {home}{same}, and a restore never touches one; restore beside it"
        f" under another name: -e vm_new_name={name}-restored"
    )


def _refusals(facts: RestoreFacts, wanted: RestoreRequest) -> t.Iterator[str]:
    name, stored = facts.name, facts.stored
    if facts.uuid is None:
        yield from facts.blockers
        for path in facts.taken:
            yield (
                f"{path} already exists and does not belong to this VM; refusing to overwrite it:"
                " remove or rename it, or restore under another name (vm_new_name)"
            )
        return
    broken = metadata_problems(name, stored)
    if broken:
        yield from broken
    elif stored is None or stored.phase != CREATING or stored.restored_from is None:
        yield exists(name, wanted.home, facts.uuid, wanted.uuid)
    elif stored.restored_from != wanted.source:
        yield (
            f"{name!r} is being restored from another archive ({stored.restored_from}); if that run"
            f" is dead, remove what it left: {playbook_command('purge_vm', vm_name=name)}"
        )
    elif facts.at_work:
        yield leases.held(name, stored.phase, facts.holder)
    else:
        yield from facts.blockers
        if facts.stays:
            yield (
                f"an interrupted run left {name!r} incomplete, and existing files with the names of"
                f" its disks are not removed: {'; '.join(facts.stays)}. Move away files that belong"
                f" to others; {playbook_command('purge_vm', vm_name=name)} removes the rest"
            )


# --- the steps ---


def _clear(name: str, stored: Metadata) -> tuple[_Step, ...]:
    """Remove its volumes in reverse order of creation, then the definition, which names them."""
    paths = [volume.path for volume in reversed(stored.volumes)]
    parts = [functools.partial(_without, gone=paths[:count]) for count in range(1, len(paths))]
    owned = functools.partial(_owned, run="")
    text = f"remove what an interrupted run restored of {name}"
    return (
        Step(TakeName(), f"take over {name} from an interrupted run", owned, (), True, CLEAR),
        Step(
            ClearLeft(),
            text,
            lambda before: _without(before, paths),
            tuple(parts),
            irreversible=True,
            stage=CLEAR,
        ),
        Step(
            UndefineLeft(),
            f"undefine the incomplete {name}",
            lambda before: RestoreFacts(name, files=before.files, blockers=before.blockers),
            (lambda before: dataclasses.replace(before, states=frozenset()),),
            irreversible=True,
            stage=CLEAR,
        ),
    )


def _claim(wanted: RestoreRequest) -> _Step:
    def claimed(before: RestoreFacts) -> RestoreFacts:
        stored = claim_metadata(wanted, Owner(GENERATED, 0, 0, wanted.run), NOT_MADE)
        return dataclasses.replace(before, uuid=wanted.uuid, stored=stored)

    return Step(ClaimName(), f"claim {wanted.name} on {wanted.home}", claimed, stage=CLAIM)


def _make(wanted: RestoreRequest) -> t.Iterator[_Step]:
    def begun(before: RestoreFacts) -> RestoreFacts:
        return _noted(_owned(before, wanted.run), BEGUN)

    def recorded(before: RestoreFacts) -> RestoreFacts:
        return _noted(before, MADE)

    name = wanted.name
    yield Step(BeginClaimed(), f"take up the claim of {name}", begun, stage=MAKE)
    for volume in wanted.volumes:
        yield Step(
            CreateVolume(volume.path),
            f"create {volume.pool}/{volume.name}",
            functools.partial(_with, path=volume.path, kind=EMPTY),
            stage=MAKE,
        )
    yield Step(RecordFiles(), f"record the files of {name}", recorded, stage=MAKE)
    for volume in wanted.volumes:
        yield Step(
            FillVolume(volume.path),
            f"restore {volume.pool}/{volume.name}",
            functools.partial(_with, path=volume.path, kind=FILLED),
            (functools.partial(_with, path=volume.path, kind=PART),),
            stage=MAKE,
        )
    for path in wanted.states:
        put = functools.partial(_put, path=path)
        yield Step(PutState(path), f"restore {path}", put, (put,), stage=MAKE)
    without = f" without {', '.join(wanted.lacks)}" if wanted.lacks else ""
    yield Step(
        DefineFinal(),
        f"define {name} on {wanted.home}{without}",
        lambda before: dataclasses.replace(before, stored=final_metadata(wanted, {})),
        stage=MAKE,
    )


# --- what is stored with the VM ---


def claim_metadata(wanted: RestoreRequest, owner: Owner, made: str) -> Metadata:
    """The metadata of the claim: it owns its volumes, whatever the VM in the archive did."""
    volumes = tuple(dataclasses.replace(volume, made=made) for volume in wanted.volumes)
    return dataclasses.replace(
        wanted.final, phase=CREATING, owner=owner, request=REQUEST, volumes=volumes
    )


def final_metadata(wanted: RestoreRequest, made: Mapping[str, str]) -> Metadata:
    """The metadata in the end; ``made`` identifies its files by path."""
    volumes = tuple(
        dataclasses.replace(volume, made=made.get(volume.path, MADE))
        for volume in wanted.final.volumes
    )
    return dataclasses.replace(wanted.final, volumes=volumes)


# --- effects ---


def _owned(before: RestoreFacts, run: str) -> RestoreFacts:
    if before.stored is None:
        return before
    stored = dataclasses.replace(before.stored, owner=Owner(GENERATED, 1, 1, run))
    return dataclasses.replace(before, stored=stored)


def _noted(before: RestoreFacts, made: str) -> RestoreFacts:
    if before.stored is None:
        return before
    volumes = tuple(dataclasses.replace(volume, made=made) for volume in before.stored.volumes)
    stored = dataclasses.replace(before.stored, volumes=volumes)
    return dataclasses.replace(before, stored=stored)


def _with(before: RestoreFacts, path: str, kind: str) -> RestoreFacts:
    return dataclasses.replace(before, files={**before.files, path: kind})


def _without(before: RestoreFacts, gone: t.Collection[str]) -> RestoreFacts:
    files = {path: kind for path, kind in before.files.items() if path not in gone}
    return dataclasses.replace(before, files=files)


def _put(before: RestoreFacts, path: str) -> RestoreFacts:
    return dataclasses.replace(before, states=before.states | {path})
