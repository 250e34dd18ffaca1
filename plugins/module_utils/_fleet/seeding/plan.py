# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the seeding of an existing VM: with a medium, on its own disk, or without a seed again.

The metadata name every medium from before it is created until after it is removed, so the next call
removes what a killed one left. The medium is complete before a single definition puts it into the
drive and its host key into the metadata. A VM whose disk is written to cannot be started meanwhile.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t
from dataclasses import dataclass

from ..base.json_values import require_type
from ..base.metadata import BEGUN, MADE, Metadata, OwnVolume, metadata_problems
from ..base.results import GENERATED
from ..engine import leases
from ..engine.leases import Holder
from ..engine.steps import Effect, Plan, Step
from ..seed import first_boot
from ..seed.types import Seed
from ..spec import request
from . import medium as seed_domain

if t.TYPE_CHECKING:
    from ..base.json_values import Json
    from ..seed.guest_image import Seeded

PHASE = "seeding"
# Steps that are reported; the others only let an interrupted run be finished
_TOLD = ("remove", "create", "insert", "acknowledge")
_ENDINGS = ("_seed.iso", "_seed2.iso")

_Step = Step["Facts"]


@dataclass(frozen=True)
class Disk:
    """A writable disk of the VM; ``users`` describe what else uses the file."""

    path: str
    format: str
    users: tuple[str, ...] = ()
    locked: bool = False


@dataclass(frozen=True)
class Facts:
    """A VM as libvirt has it.

    ``drive`` is the path of the medium in its drive, ``files`` those of its media that exist.
    ``started``: it was started since it was given its medium; None if unknown. ``chosen`` is how it
    would be seeded, None until that matters. Then ``disks`` are those to be written to, or
    ``volume`` is the new medium in ``pool`` (None: there is no such pool), ``taken`` if a file of
    somebody else's has its name.
    """

    name: str
    stored: Metadata | None = None
    persistent: bool = True
    active: bool = False
    saved: bool = False
    holder: Holder | None = None
    drive: str | None = None
    files: frozenset[str] = frozenset()
    started: bool | None = None
    chosen: Seeded | None = None
    pool: str = ""
    volume: OwnVolume | None = None
    taken: bool = False
    disks: tuple[Disk, ...] = ()

    @property
    def noted(self) -> Metadata:
        """What is stored with the VM, if only the defaults."""
        return self.stored or Metadata()

    @property
    def media(self) -> tuple[OwnVolume, ...]:
        """The media that the metadata name."""
        return tuple(one for one in self.noted.volumes if one.role == "seed")

    @property
    def booted(self) -> bool:
        """Whether the guest has read its seed: its medium was removed, or its disk was written."""
        return self.noted.host_key is not None and not self.media


def new_volume(facts: Facts, pool: str, path_of: t.Callable[[str], str]) -> OwnVolume:
    """The volume of the next medium: its name is not that of the medium in the drive."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", facts.name)
    names = [f"{stem}{ending}" for ending in _ENDINGS]
    name = next(one for one in names if path_of(one) != facts.drive)
    return OwnVolume(pool, name, path_of(name), "seed", "seed")


def needs_method(facts: Facts, wanted: Seed | None) -> bool:
    """Whether it will be seeded, so that it must be known how."""
    return wanted is not None and not _refusal(facts, wanted) and not _is_seeded(facts, wanted)


def plan(facts: Facts, wanted: Seed | None) -> Plan[Facts]:
    """The steps to a VM with that seed; None removes its media, and the outcome of a first boot."""
    seeds = needs_method(facts, wanted)
    refusal = _method_refusal(facts) if seeds else _refusal(facts, wanted)
    if refusal:
        return Plan(refusals=(refusal,))
    if wanted is None:
        return Plan(tuple(_removal(facts)))
    if not seeds:
        return Plan(tuple(_remove(one) for one in _left(facts)))
    if facts.chosen is not None and facts.chosen["method"] == "offline":
        return Plan(tuple(_on_disk(facts, wanted)))
    return Plan(tuple(_on_medium(facts, wanted)))


def texts(steps: t.Iterable[_Step]) -> list[str]:
    """The texts of the reported steps; all disks are written to in one of them."""
    lines = []
    for step in steps:
        if step.kind == "write":
            disks = t.cast("tuple[Disk, ...]", step.payload)
            lines += [f"write the seed into {disk.path}" for disk in disks]
        elif step.kind in _TOLD:
            lines.append(step.text)
    return lines


def shown(facts: Facts, wanted: Seed | None) -> dict[str, Json]:
    """The VM as a diff shows it; what a disk holds of an unfinished seed is unknown."""
    vm: dict[str, Json] = {"media": [medium.path for medium in facts.media]}
    if wanted is not None:
        vm["seed"] = None if facts.noted.phase else seed_domain.recorded(facts.stored)
    return vm


# --- refusals ---


def _is_seeded(facts: Facts, wanted: Seed) -> bool:
    before = seed_domain.recorded(facts.stored)
    ready = facts.booted or facts.drive in facts.files
    if before is None or not ready or facts.noted.phase:
        return False
    return not request.compare(before, seed_domain.as_plain(wanted, facts.name))


def _refusal(facts: Facts, wanted: Seed | None) -> str | None:
    """The first reason that concerns the VM itself."""
    name, phase = facts.name, facts.noted.phase
    if facts.noted.broken:
        return "; ".join(metadata_problems(name, facts.noted))
    if not facts.persistent:
        return f"{name!r} is transient: it has no persistent definition; define it"
    if phase not in (None, PHASE):
        return leases.in_phase(
            name, phase, facts.holder, ", or remove the leftovers with virt_purge"
        )
    if phase and wanted is None:
        return (
            f"an interrupted run left {name!r} partially seeded; repeat that run, or recreate the"
            " VM"
        )
    if wanted is None:
        return None
    if phase and facts.holder is not None:
        return leases.held(name, phase, facts.holder)
    before = seed_domain.recorded(facts.stored) or {}
    if phase and request.compare(before, seed_domain.as_plain(wanted, name)):
        return (
            f"an interrupted run left {name!r} partially seeded with another seed; repeat that run,"
            " or recreate the VM"
        )
    return None if _is_seeded(facts, wanted) else _boot_refusal(facts)


def _boot_refusal(facts: Facts) -> str | None:
    """Why it is too late: a guest reads only one seed, and another would only make its host key
    unknown."""
    name = facts.name
    if facts.active:
        return (
            f"{name!r} is running, but a seed is only read at the first boot; shut it down first,"
            " for example with virt_state"
        )
    if facts.saved:
        return f"{name!r} has the saved memory of a running system; start it and shut it down first"
    method = (seed_domain.recorded(facts.stored) or {}).get("method")
    if facts.booted and method in ("offline", "auto"):
        return (
            f"{name!r} was already seeded on its disk, and another seed would leave parts of that"
            " one; change it from inside, or recreate it with virt_purge and virt_init"
        )
    if facts.booted or facts.started:
        return (
            f"{name!r} was already seeded and has been started since; a guest only reads its seed"
            " at its first boot. Change it from inside, or recreate it with virt_purge and"
            " virt_init"
        )
    return None


def _method_refusal(facts: Facts) -> str | None:
    """The first reason that concerns how it would be seeded."""
    name, volume = facts.name, facts.volume
    if facts.chosen is not None and facts.chosen["method"] == "offline":
        return _disk_refusal(facts)
    if facts.noted.phase and facts.chosen is not None:
        return (
            f"an interrupted run left {name!r} partially seeded on its disk, and now it would be"
            f" seeded with a medium ({facts.chosen['reason']}); change that and repeat the run, or"
            " recreate the VM"
        )
    if volume is None:
        return (
            f"no pool {facts.pool!r} for the medium of {name!r}; specify one with pool, or create"
            " it with virt_pool"
        )
    if facts.taken:
        return (
            f"{volume.path} already exists and does not belong to this VM; refusing to overwrite"
            " it. Remove or rename it"
        )
    return None


def _disk_refusal(facts: Facts) -> str | None:
    name = facts.name
    if facts.media:
        return (
            f"{name!r} has a seed medium; remove it first, with state absent, so that the VM has"
            " only one seed"
        )
    if not facts.disks:
        return f"{name!r} has no file-based disk of its own that a seed could be written to"
    for disk in facts.disks:
        if disk.users:
            return f"refusing to write to {disk.path}: {', '.join(disk.users)}; copy it first"
        if disk.locked:
            return f"{disk.path} is in use by a running QEMU process; stop it first"
    return None


# --- the steps ---


def _left(facts: Facts) -> list[OwnVolume]:
    """Media in no drive: an interrupted run left them."""
    return [one for one in facts.media if one.path != facts.drive]


def _removal(facts: Facts) -> t.Iterator[_Step]:
    for medium in facts.media:
        ejected = functools.partial(_ejected, path=medium.path)
        yield Step(
            "eject",
            f"eject {medium.pool}/{medium.name}",
            ejected,
            payload=medium,
            irreversible=True,
        )
    if facts.media and facts.started is False and not facts.active:
        # the guest never read it; while its medium is named, that can be told once more
        forget = _stored(lambda metadata: dataclasses.replace(metadata, host_key=None))
        yield Step("forget", f"forget the host key of {facts.name}", forget, irreversible=True)
    for medium in facts.media:
        yield _remove(medium, irreversible=True)
    if facts.noted.first_boot is not None:
        clear = _stored(lambda metadata: dataclasses.replace(metadata, first_boot=None))
        yield Step("acknowledge", "clear the outcome of its first boot", clear, irreversible=True)


def _on_medium(facts: Facts, wanted: Seed) -> t.Iterator[_Step]:
    name, volume = facts.name, require_type(facts.volume, OwnVolume)
    yield Step("generate", f"generate the seed of {name}", _same)
    for medium in _left(facts):
        yield _remove(medium)
    note = functools.partial(named, volume=dataclasses.replace(volume, made=BEGUN))
    yield Step("note", f"name {volume.name} in the metadata", note, payload=volume)
    empty, made = functools.partial(_exists, path=volume.path), functools.partial(_made, volume)
    text = f"create {volume.pool}/{volume.name}"
    yield Step("create", text, made, torn=(empty, made), payload=volume)
    yield Step("look_again", f"look at {name} again", _same)
    inserted = functools.partial(_inserted, path=volume.path, wanted=wanted)
    yield Step("insert", f"insert it into {name}", inserted, payload=volume)
    for medium in facts.media:
        if medium.path == facts.drive:
            yield _remove(medium, irreversible=True)


def _on_disk(facts: Facts, wanted: Seed) -> t.Iterator[_Step]:
    """A killed write leaves the claim, whose owner is dead: all of it is written again."""
    name = facts.name
    claimed = functools.partial(_claimed, wanted=wanted)
    yield Step("claim", f"keep {name} from starting", claimed)
    yield Step("look_again", f"look at {name} again", _same)
    text = f"write the seed into the disks of {name}"
    yield Step("write", text, _same, torn=(_same,), payload=facts.disks, irreversible=True)
    yield Step("release", f"let {name} be started", _stored(_released), irreversible=True)


def _remove(volume: OwnVolume, *, irreversible: bool = False) -> _Step:
    """The file goes first, then its name."""
    gone = functools.partial(_gone, path=volume.path)
    unnamed = functools.partial(_unnamed, path=volume.path)
    text = f"remove {volume.pool}/{volume.name}"
    return Step("remove", text, unnamed, torn=(gone,), payload=volume, irreversible=irreversible)


# --- their effects ---


def _same(before: Facts) -> Facts:
    return before


def _stored(change: Effect[Metadata]) -> Effect[Facts]:
    return lambda before: dataclasses.replace(before, stored=change(before.noted))


def named(before: Facts, volume: OwnVolume) -> Facts:
    """The VM whose metadata name ``volume``."""
    others = [other for other in before.noted.volumes if other.path != volume.path]
    return _stored(lambda metadata: dataclasses.replace(metadata, volumes=(*others, volume)))(
        before
    )


def _exists(before: Facts, path: str) -> Facts:
    return dataclasses.replace(before, files=before.files | {path})


def _made(volume: OwnVolume, before: Facts) -> Facts:
    return named(_exists(before, volume.path), dataclasses.replace(volume, made=MADE))


def _inserted(before: Facts, path: str, wanted: Seed) -> Facts:
    stored = seed_domain.with_record(before.noted, wanted, before.name)
    stored = dataclasses.replace(stored, host_key=GENERATED)
    return dataclasses.replace(before, stored=stored, drive=path)


def _ejected(before: Facts, path: str) -> Facts:
    return dataclasses.replace(before, drive=None if before.drive == path else before.drive)


def _gone(before: Facts, path: str) -> Facts:
    files = before.files - {path}
    started = before.started if files else None  # nothing is left to compare with
    return dataclasses.replace(before, files=files, started=started)


def _unnamed(before: Facts, path: str) -> Facts:
    left = tuple(other for other in before.noted.volumes if other.path != path)
    return _stored(lambda metadata: dataclasses.replace(metadata, volumes=left))(
        _gone(before, path)
    )


def _claimed(before: Facts, wanted: Seed) -> Facts:
    """The record of the seed, so that another one is refused from now on."""
    stored = seed_domain.with_record(before.noted, wanted, before.name)
    outcome = first_boot.expected(dataclasses.replace(wanted, method="offline"))
    stored = dataclasses.replace(stored, phase=PHASE, first_boot=outcome)
    return dataclasses.replace(before, stored=stored)


def _released(claim: Metadata) -> Metadata:
    return dataclasses.replace(claim, phase=None, owner=None, host_key=GENERATED)
