# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rename a VM: reasons to refuse, and the steps.

Files named after it come first: the console log gets the new name, the firmware variables a name
from the VM's UUID, since libvirt uses whatever exists under the name of a new VM; on request, its
own volumes are renamed too. Each file has both names until the definition uses the new one. Then
libvirt renames the domain, in one call. What exists shows how far a run came.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import shlex
import typing as t

from ..._records import dataclass
from ..base.metadata import Metadata, Owner, OwnVolume, metadata_problems
from ..base.names import check_vm_name, playbook_command, snapshot_removal
from ..engine import leases
from ..engine.leases import Holder
from ..engine.steps import Action, Effect, Plan, Step

PHASE = "renaming"
LOG_FOLDER = "/var/log/libvirt/qemu"
NVRAM_FOLDER = "/var/lib/libvirt/qemu/nvram"
_SEPARATORS = "_.-"  # after the VM's name in the name of a volume
_WAYS: dict[str, t.Callable[[str], str]] = {
    "snapshot": snapshot_removal,
    "checkpoint": lambda name: f"virsh checkpoint-delete {shlex.quote(name)} NAME",
}


@dataclass(frozen=True)
class RenamedFile:
    """A file named after the VM: whether the old and the new name exist, and whether they are the
    same file. ``named``: the definition uses the old one."""

    old: str
    new: str
    named: bool
    old_exists: bool = False
    new_exists: bool = False
    same: bool = False
    volume: bool = False


@dataclass(frozen=True)
class RenameFacts:
    """The VM under its present name; ``taken``: another domain here has the new one.

    ``users`` describe what else refers to a volume that will be renamed, ``kept`` are the paths of
    its disks that keep their names although its volumes are renamed, each with the reason.
    """

    name: str
    uuid: str
    persistent: bool = True
    active: bool = False
    state: str = "shutoff"
    managed_save: bool = False
    snapshots: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    stored: Metadata | None = None
    holder: Holder | None = None
    files: tuple[RenamedFile, ...] = ()
    taken: bool = False
    users: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Note(Action):
    """Write our metadata, or remove them."""

    ours: Metadata | None


@dataclass(frozen=True)
class Rename(Action):
    """Give the domain its other name."""

    present: str
    wanted: str


@dataclass(frozen=True)
class Link(Action):
    """Give the file its new name too."""

    file: RenamedFile


class Define(Action):
    """Use the new names of files in the definition."""


@dataclass(frozen=True)
class Unlink(Action):
    """Remove the old name of the file."""

    file: RenamedFile


def volume_name(path: str, old: str, new: str) -> str | None:
    """The name of a volume once the VM is renamed; None if it is not named after the VM.

    Other programs call the disk of ``web1`` ``web1.qcow2`` or ``web1-1.qcow2``. One name may begin
    with the other: the longer that fits is the one that the volume has.
    """
    folder, name = posixpath.split(path)
    if not _is_named_after(name, old) or (len(new) > len(old) and _is_named_after(name, new)):
        return None
    return f"{folder}/{new}{name[len(old) :]}"


def _is_named_after(name: str, vm: str) -> bool:
    return name.startswith(tuple(f"{vm}{separator}" for separator in _SEPARATORS))


def kept(
    own: t.Iterable[OwnVolume], disks: t.Iterable[str], old: str, new: str
) -> t.Iterator[tuple[str, str]]:
    """The files of its ``disks``, and its ``own`` volumes, that keep their names, and why."""
    own_paths = [volume.path for volume in own]
    for path in dict.fromkeys([*own_paths, *disks]):
        renamed = volume_name(path, old, new) or _is_named_after(posixpath.basename(path), new)
        if path in own_paths and not renamed:
            yield path, f"it is not named after {old!r}"
        elif path not in own_paths:
            yield path, f"it does not belong to {old!r}"


def names_of(path: str, old: str, new: str, uuid: str) -> tuple[str, str] | None:
    """The names before and after of a file in the definition; None if it is not named after the
    VM."""
    folder, name = posixpath.split(path)
    log, logs = f"{LOG_FOLDER}/{old}-console.log", f"{LOG_FOLDER}/{new}-console.log"
    if path in (log, logs):
        return log, logs
    if folder != NVRAM_FOLDER:
        return None
    for begin in (old, uuid):
        if name.startswith(f"{begin}_"):
            rest = name[len(begin) :]
            return f"{NVRAM_FOLDER}/{old}{rest}", f"{NVRAM_FOLDER}/{uuid}{rest}"
    return None


def is_done(facts: RenameFacts, old: str, new: str) -> bool:
    """Whether the VM was renamed before."""
    stored = facts.stored
    return facts.name == new and stored is not None and stored.renamed_from == old


def plan(facts: RenameFacts, old: str, new: str, owner: Owner | None = None) -> Plan[RenameFacts]:
    """The steps from any state to the new name; the last ends the phase."""
    stored = facts.stored
    late = any(file.volume for file in facts.files)  # what is done has none
    if is_done(facts, old, new) and stored is not None and stored.phase is None and not late:
        return Plan()
    refusals = _refusals(facts, old, new)
    if refusals:
        return Plan(refusals=tuple(refusals))
    stored = stored or Metadata()  # of a VM that is not adopted, as its name may prevent
    ours = dataclasses.replace(
        _with_requested_name(stored, new), phase=PHASE, owner=owner, renamed_from=old
    )
    steps: list[Step[RenameFacts]] = []
    if facts.name == old or any(
        file.volume and (file.named or file.old_exists) for file in facts.files
    ):
        steps.append(_note(ours, f"mark {facts.name}"))
        steps += _moving(facts)
    if facts.name == old:
        steps.append(_rename(old, new))
    last = dataclasses.replace(ours, phase=None, owner=None, volumes=_volumes(facts, stored))
    steps.append(_note(last, f"mark {new} as complete"))
    return Plan(tuple(steps))


def withdrawal(facts: RenameFacts, old: str, new: str) -> Plan[RenameFacts]:
    """The steps back from a new name that turned out to be taken; ``facts`` are those of a
    renaming from ``new`` to ``old``."""
    stored = facts.stored
    if stored is None or stored.phase != PHASE or stored.renamed_from != old:
        return Plan(refusals=(f"{facts.name!r} is not being renamed from {old!r}",))
    steps = [_rename(new, old)] if facts.name == new else []
    steps += _moving(facts)
    kept = dataclasses.replace(
        _with_requested_name(stored, old), phase=None, owner=None, renamed_from=None
    )
    steps.append(_note(kept if kept != Metadata() else None, f"mark {old} as restored"))
    return Plan(tuple(steps))


def _volumes(facts: RenameFacts, stored: Metadata) -> tuple[OwnVolume, ...]:
    after = {file.old: file.new for file in facts.files if file.volume}
    return tuple(
        dataclasses.replace(
            volume, path=after[volume.path], name=posixpath.basename(after[volume.path])
        )
        if volume.path in after
        else volume
        for volume in stored.volumes
    )


def _rename(present: str, wanted: str) -> Step[RenameFacts]:
    def renamed(before: RenameFacts) -> RenameFacts:
        return dataclasses.replace(before, name=wanted)

    return Step(Rename(present, wanted), f"rename {present} to {wanted}", renamed)


def _moving(facts: RenameFacts) -> t.Iterator[Step[RenameFacts]]:
    """Files get their new names, and lose their old ones once nothing uses them any more."""
    called = [file for file in facts.files if file.named or file.volume]
    both = [file for file in called if file.old_exists and not file.new_exists]
    for file in both:
        linked = dataclasses.replace(file, new_exists=True, same=True)
        text = f"link {file.old} as {posixpath.basename(file.new)}"
        yield Step(Link(file), text, _file(file.old, linked))
    if any(file.named for file in facts.files):
        yield Step(Define(), "use the new names in the definition", _defined)
    for file in facts.files:
        if file.old_exists and (file.same or file in both):
            gone = dataclasses.replace(file, old_exists=False, new_exists=True, named=False)
            gone = dataclasses.replace(gone, same=False)
            yield Step(Unlink(file), f"remove {file.old}", _file(file.old, gone))


def _with_requested_name(stored: Metadata, name: str) -> Metadata:
    """The metadata with the new name in the VM's request."""
    try:
        requested = json.loads(stored.request or "")
    except ValueError:
        return stored
    if not isinstance(requested, dict) or "name" not in requested:
        return stored
    requested = {**requested, "name": name}
    return dataclasses.replace(
        stored, request=json.dumps(requested, sort_keys=True, separators=(",", ":"))
    )


def _note(ours: Metadata | None, text: str) -> Step[RenameFacts]:
    return Step(Note(ours), text, lambda before: dataclasses.replace(before, stored=ours))


def _file(old: str, changed: RenamedFile) -> Effect[RenameFacts]:
    def effect(before: RenameFacts) -> RenameFacts:
        files = tuple(changed if file.old == old else file for file in before.files)
        return dataclasses.replace(before, files=files)

    return effect


def _defined(before: RenameFacts) -> RenameFacts:
    files = tuple(dataclasses.replace(file, named=False) for file in before.files)
    return dataclasses.replace(before, files=files)


def _refusals(facts: RenameFacts, old: str, new: str) -> list[str]:
    name, stored = facts.name, facts.stored
    refusals = [
        f"new_name: {problem.message}" for problem in check_vm_name(new, "", host_name=False)
    ]
    if old == new:
        refusals.append(f"new_name: {new!r} is its present name; give another")
    broken = metadata_problems(name, stored)
    stored = stored or Metadata()
    ours = stored.phase == PHASE and stored.renamed_from == old
    if broken:
        refusals += broken
    elif stored.phase is not None and not ours:
        before = ", before the VM is renamed"
        refusals.append(leases.in_phase(name, stored.phase, facts.holder, before))
    elif facts.holder is not None:
        refusals.append(leases.held(name, stored.phase, facts.holder))
    if not facts.persistent:
        refusals.append(f"{name!r} is transient and has no definition; define it first")
    if facts.active:
        refusals.append(
            f"{name!r} is {facts.state}; libvirt renames only what is shut off: shut it down first"
            f" ({playbook_command('state', vm_name=name, vm_state='shutoff')})"
        )
    if facts.managed_save:
        refusals.append(
            f"{name!r} has saved memory, stored under its name; start it and shut it down,"
            f" or discard it with virsh managedsave-remove {shlex.quote(name)}"
        )
    for what, names in (("snapshot", facts.snapshots), ("checkpoint", facts.checkpoints)):
        if names:
            refusals.append(
                f"{name!r} has {what}s ({', '.join(names)}), and libvirt renames no VM with them;"
                f" remove them first ({_WAYS[what](name)})"
            )
    if facts.taken:
        refusals.append(f"a VM {new!r} already exists on its hypervisor; choose another name")
    refusals += [f"{user}; remove that first, or rename without volumes" for user in facts.users]
    refusals += [
        f"{file.old} does not exist; find out where it is, or rename without volumes"
        for file in facts.files
        if file.volume and not file.old_exists and not file.new_exists
    ]
    refusals += [
        f"{file.new} exists and does not belong to {name!r}; find its owner, and move it away"
        for file in facts.files
        if (file.named or (file.volume and file.old_exists)) and file.new_exists and not file.same
    ]
    return refusals
