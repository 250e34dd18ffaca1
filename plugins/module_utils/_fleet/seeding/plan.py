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
import re
import typing as t

from ..._records import dataclass, field
from ..base.json_values import require_type
from ..base.metadata import BEGUN, MADE, Metadata, OwnVolume, metadata_problems
from ..base.results import GENERATED
from ..engine import leases
from ..engine.leases import Holder
from ..engine.steps import Action, Plan, Step
from ..seed import first_boot
from ..seed.types import Seed
from ..spec import request
from . import medium as seed_domain

if t.TYPE_CHECKING:
    from ..base.json_values import Json
    from ..seed.guest_image import Seeded

PHASE = "seeding"
_ENDINGS = ("_seed.iso", "_seed2.iso")

_Step = Step["SeedingFacts"]


@dataclass(frozen=True)
class WritableDisk:
    """A writable disk of the VM; ``users`` describe what else uses the file."""

    path: str
    format: str
    users: tuple[str, ...] = ()
    locked: bool = False


@dataclass(frozen=True)
class SeedingFacts:
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
    disks: tuple[WritableDisk, ...] = ()

    @property
    def noted(self) -> Metadata:
        """What is stored with the VM, if only the defaults."""
        return self.stored or Metadata()

    @property
    def media(self) -> tuple[OwnVolume, ...]:
        """The media that the metadata name."""
        return tuple(volume for volume in self.noted.volumes if volume.role == "seed")

    @property
    def booted(self) -> bool:
        """Whether the guest has read its seed: its medium was removed, or its disk was written."""
        return self.noted.host_key is not None and not self.media


# --- what the steps do ---


@dataclass(frozen=True)
class Eject(Action):
    """Eject a medium from the drive."""

    volume: OwnVolume

    def effect(self, before: SeedingFacts) -> SeedingFacts:
        drive = None if before.drive == self.volume.path else before.drive
        return dataclasses.replace(before, drive=drive)


@dataclass(frozen=True)
class Remove(Action):
    """Remove a medium: the file goes first, then its name."""

    volume: OwnVolume

    def gone(self, before: SeedingFacts) -> SeedingFacts:
        files = before.files - {self.volume.path}
        started = before.started if files else None  # nothing is left to compare with
        return dataclasses.replace(before, files=files, started=started)

    def effect(self, before: SeedingFacts) -> SeedingFacts:
        left = tuple(other for other in before.noted.volumes if other.path != self.volume.path)
        return _stored(self.gone(before), volumes=left)


@dataclass(frozen=True)
class Note(Action):
    """Name a medium in the metadata, before it is created."""

    volume: OwnVolume

    def effect(self, before: SeedingFacts) -> SeedingFacts:
        return named(before, dataclasses.replace(self.volume, made=BEGUN))


@dataclass(frozen=True)
class Create(Action):
    """Create a medium."""

    volume: OwnVolume

    def exists(self, before: SeedingFacts) -> SeedingFacts:
        return dataclasses.replace(before, files=before.files | {self.volume.path})

    def effect(self, before: SeedingFacts) -> SeedingFacts:
        return named(self.exists(before), dataclasses.replace(self.volume, made=MADE))


@dataclass(frozen=True)
class Insert(Action):
    """Put a medium with the seed ``wanted`` into the drive."""

    volume: OwnVolume
    wanted: Seed = field(repr=False)

    def effect(self, before: SeedingFacts) -> SeedingFacts:
        stored = seed_domain.with_record(before.noted, self.wanted, before.name)
        stored = dataclasses.replace(stored, host_key=GENERATED)
        return dataclasses.replace(before, stored=stored, drive=self.volume.path)


@dataclass(frozen=True)
class Claim(Action):
    """Record the seed, so that another one is refused from now on, and prevent a start."""

    wanted: Seed = field(repr=False)

    def effect(self, before: SeedingFacts) -> SeedingFacts:
        stored = seed_domain.with_record(before.noted, self.wanted, before.name)
        outcome = first_boot.expected(dataclasses.replace(self.wanted, method="offline"))
        stored = dataclasses.replace(stored, phase=PHASE, first_boot=outcome)
        return dataclasses.replace(before, stored=stored)


@dataclass(frozen=True)
class Write(Action):
    """Write the seed into the disks."""

    disks: tuple[WritableDisk, ...]


class Generate(Action):
    """Generate the seed."""


class LookAgain(Action):
    """Plan again."""


class ForgetHostKey(Action):
    """Forget the host key of a guest that never was."""


class AcknowledgeBoot(Action):
    """Clear the outcome of the first boot."""


class LetStart(Action):
    """Remove the claim, so that the VM may be started."""


def forgotten(before: SeedingFacts) -> SeedingFacts:
    """The VM without the host key of a guest that never was."""
    return _stored(before, host_key=None)


def acknowledged(before: SeedingFacts) -> SeedingFacts:
    """The VM without the outcome of its first boot."""
    return _stored(before, first_boot=None)


def released(before: SeedingFacts) -> SeedingFacts:
    """The VM without its claim: it may be started."""
    return _stored(before, phase=None, owner=None, host_key=GENERATED)


def named(before: SeedingFacts, volume: OwnVolume) -> SeedingFacts:
    """The VM whose metadata name ``volume``."""
    others = [other for other in before.noted.volumes if other.path != volume.path]
    return _stored(before, volumes=(*others, volume))


def _stored(before: SeedingFacts, **changes: t.Any) -> SeedingFacts:
    return dataclasses.replace(before, stored=dataclasses.replace(before.noted, **changes))


def _same(before: SeedingFacts) -> SeedingFacts:
    return before


def new_volume(facts: SeedingFacts, pool: str, path_of: t.Callable[[str], str]) -> OwnVolume:
    """The volume of the next medium: its name is not that of the medium in the drive."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", facts.name)
    names = [f"{stem}{ending}" for ending in _ENDINGS]
    name = next(name for name in names if path_of(name) != facts.drive)
    return OwnVolume(pool, name, path_of(name), "seed", "seed")


def needs_method(facts: SeedingFacts, wanted: Seed | None) -> bool:
    """Whether it will be seeded, so that it must be known how."""
    return wanted is not None and not _refusal(facts, wanted) and not _is_seeded(facts, wanted)


def plan(facts: SeedingFacts, wanted: Seed | None) -> Plan[SeedingFacts]:
    """The steps to a VM with that seed; None removes its media, and the outcome of a first boot."""
    seeds = needs_method(facts, wanted)
    refusal = _method_refusal(facts) if seeds else _refusal(facts, wanted)
    if refusal:
        return Plan(refusals=(refusal,))
    if wanted is None:
        return Plan(tuple(_removal(facts)))
    if not seeds:
        return Plan(tuple(_remove(medium) for medium in _left(facts)))
    if facts.chosen is not None and facts.chosen["method"] == "offline":
        return Plan(tuple(_on_disk(facts, wanted)))
    return Plan(tuple(_on_medium(facts, wanted)))


def texts(steps: t.Iterable[_Step]) -> list[str]:
    """The texts of the reported steps; all disks are written to in one of them."""
    lines = []
    for step in steps:
        if isinstance(step.action, Write):
            lines += [f"write the seed into {disk.path}" for disk in step.action.disks]
        elif isinstance(step.action, (Remove, Create, Insert, AcknowledgeBoot)):
            lines.append(step.text)
    return lines


def shown(facts: SeedingFacts, wanted: Seed | None) -> dict[str, Json]:
    """The VM as a diff shows it; what a disk holds of an unfinished seed is unknown."""
    vm: dict[str, Json] = {"media": [medium.path for medium in facts.media]}
    if wanted is not None:
        vm["seed"] = None if facts.noted.phase else seed_domain.recorded(facts.stored)
    return vm


# --- refusals ---


def _is_seeded(facts: SeedingFacts, wanted: Seed) -> bool:
    before = seed_domain.recorded(facts.stored)
    ready = facts.booted or facts.drive in facts.files
    if before is None or not ready or facts.noted.phase:
        return False
    return not request.compare(before, seed_domain.as_plain(wanted, facts.name))


def _refusal(facts: SeedingFacts, wanted: Seed | None) -> str | None:
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


def _boot_refusal(facts: SeedingFacts) -> str | None:
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


def _method_refusal(facts: SeedingFacts) -> str | None:
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


def _disk_refusal(facts: SeedingFacts) -> str | None:
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


def _left(facts: SeedingFacts) -> list[OwnVolume]:
    """Media in no drive: an interrupted run left them."""
    return [medium for medium in facts.media if medium.path != facts.drive]


def _removal(facts: SeedingFacts) -> t.Iterator[_Step]:
    for medium in facts.media:
        eject = Eject(medium)
        text = f"eject {medium.pool}/{medium.name}"
        yield Step(eject, text, eject.effect, irreversible=True)
    if facts.media and facts.started is False and not facts.active:
        # the guest never read it; while its medium is named, that can be told once more
        text = f"forget the host key of {facts.name}"
        yield Step(ForgetHostKey(), text, forgotten, irreversible=True)
    for medium in facts.media:
        yield _remove(medium, irreversible=True)
    if facts.noted.first_boot is not None:
        text = "clear the outcome of its first boot"
        yield Step(AcknowledgeBoot(), text, acknowledged, irreversible=True)


def _on_medium(facts: SeedingFacts, wanted: Seed) -> t.Iterator[_Step]:
    name, volume = facts.name, require_type(facts.volume, OwnVolume)
    yield Step(Generate(), f"generate the seed of {name}", _same)
    for medium in _left(facts):
        yield _remove(medium)
    note, create, insert = Note(volume), Create(volume), Insert(volume, wanted)
    yield Step(note, f"name {volume.name} in the metadata", note.effect)
    text = f"create {volume.pool}/{volume.name}"
    yield Step(create, text, create.effect, torn=(create.exists, create.effect))
    yield Step(LookAgain(), f"look at {name} again", _same)
    yield Step(insert, f"insert it into {name}", insert.effect)
    for medium in facts.media:
        if medium.path == facts.drive:
            yield _remove(medium, irreversible=True)


def _on_disk(facts: SeedingFacts, wanted: Seed) -> t.Iterator[_Step]:
    """A killed write leaves the claim, whose owner is dead: all of it is written again."""
    name, claim = facts.name, Claim(wanted)
    yield Step(claim, f"keep {name} from starting", claim.effect)
    yield Step(LookAgain(), f"look at {name} again", _same)
    text = f"write the seed into the disks of {name}"
    yield Step(Write(facts.disks), text, _same, torn=(_same,), irreversible=True)
    yield Step(LetStart(), f"let {name} be started", released, irreversible=True)


def _remove(volume: OwnVolume, *, irreversible: bool = False) -> _Step:
    remove, text = Remove(volume), f"remove {volume.pool}/{volume.name}"
    return Step(remove, text, remove.effect, (remove.gone,), irreversible=irreversible)
