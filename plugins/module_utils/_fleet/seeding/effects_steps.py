# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seeding an existing VM: how each step is done and rolled back.

The medium is complete before anything but the metadata refers to it, and a single definition puts
it into the drive and its host key into the metadata: whenever the VM is started, it has either the
old medium or the complete new one. The metadata name every medium from before it is created until
after it is removed, so the next call removes what a killed one left.

While its disk is written to, the VM cannot be started: its definition has phase ``seeding`` and a
drive whose medium never exists. A killed call leaves that state, with a record of what it was to
write; only the same call may run again, and rewrites all of it: another seed would leave parts of
this one.
"""

from __future__ import annotations

import copy
import dataclasses
import typing as t
import uuid as uuids
from pathlib import Path

from ... import _lxml
from ..._errors import DeadlineExceeded, FleetVirtError, PlanRefused
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import metadata, unstartable
from ..base import read_file_identity as identity
from ..base.effects_connection import Connection
from ..base.metadata import BEGUN, Metadata, Owner, OwnVolume
from ..engine import effects_lease_holder as owners
from ..engine.effects_executor import Turns
from ..engine.steps import Effect, Step
from ..seed import effects_nocloud as seed_nocloud
from ..seed.types import Seed, SeededNic
from . import effects_medium as seed_medium
from . import medium as seed_domain
from . import plan as planning
from . import read as seeding_facts
from .plan import Facts
from .read import Vm

if t.TYPE_CHECKING:
    from ..seed.guest_image import Seeded
    from ..storage import effects_storage as storage
    from .plan import Disk

_MARKER = ".fleet-virt-seeding"


class Work:
    """The steps of one VM; ``facts`` are those after the steps so far."""

    def __init__(
        self, connection: Connection, vm: Vm, seed: Seed | None, nics: t.Sequence[SeededNic]
    ) -> None:
        self.connection, self.dom, self.root, self.facts = connection, vm.dom, vm.root, vm.facts
        self.name, self.pool, self.nics = vm.facts.name, vm.pool, nics
        self.wanted = seed
        self.me: Owner | None = None
        self.content = b""  # of the new medium, which is secret
        self.host_key: str | None = None
        self.made: OwnVolume | None = None  # a volume of that name is not ours before it is made
        self.before = ""  # the definition before it was changed
        self.stuck = False  # rolling back ended at the step that had failed

    @property
    def seed(self) -> Seed:
        """The seed; only steps that remove need none."""
        return t.cast("Seed", self.wanted)

    @property
    def uuid(self) -> str:
        return str(self.dom.UUIDString())

    def do(self, step: Step[Facts]) -> Turns:
        yield from ()
        try:
            _DO[step.kind](self, step)
        except BaseException:
            if not step.irreversible:
                self._undo_failed(step)
            raise

    def _undo_failed(self, step: Step[Facts]) -> None:
        """Undo a step that failed: libvirt may have done what it gave no answer to.

        If that fails too, what was done before it stays: it may be in use by what is left.
        """
        try:
            self.undo(step)
        except Exception:
            self.stuck = True

    def undo(self, step: Step[Facts]) -> None:
        action = _UNDO.get(step.kind)
        if self.stuck and action is not None:
            raise PlanRefused("a later step could not be rolled back")
        if action is not None:
            action(self, step)

    def finish(self) -> None:
        """Do nothing: libvirt's reply confirms each step."""

    # --- what several steps need ---

    def require_unchanged(self, stored: Metadata | None) -> None:
        """Raise PlanRefused if others have changed the metadata since they were read."""
        if stored != self.facts.stored:
            raise PlanRefused(f"{self.name!r} was changed by another run meanwhile; try again")

    def read(self) -> Metadata | None:
        return lookup.read_metadata(self.connection, self.dom)

    def write(self, effect: Effect[Facts]) -> None:
        """Write the metadata as ``effect`` changes them, with what others have noted meanwhile."""
        with owners.host_lock():
            self.facts = effect(dataclasses.replace(self.facts, stored=self.read()))
            seed_medium.write(self.connection, self.dom, self.facts.noted, active=self.facts.active)

    def define(self, text: str) -> None:
        """Replace the definition; it can be restored."""
        self.before = _lxml.tostring(self.root)
        domains.define(self.connection, f"define {self.name}", text)


# --- the steps ---


def _generate(work: Work, _step: Step[Facts]) -> None:
    made = seed_nocloud.make(work.seed, work.name, work.uuid, work.nics)
    work.content, work.host_key = made.content, made.host_key


def _eject(work: Work, step: Step[Facts]) -> None:
    path = _volume(step).path
    seed_medium.eject(work.connection, work.dom, path, active=work.facts.active)
    work.facts = step.effect(work.facts)


def _remove(work: Work, step: Step[Facts]) -> None:
    """Remove a medium that is in no drive, then its name from the metadata."""
    seed_medium.delete(work.connection, work.dom, [_volume(step)])
    work.write(step.effect)


def _note(work: Work, step: Step[Facts]) -> None:
    work.write(step.effect)


def _create(work: Work, step: Step[Facts]) -> None:
    own, pool = _volume(step), t.cast("storage.Pool", work.pool)

    def noted() -> None:
        made = work.made = dataclasses.replace(own, made=identity.of_file(own.path))
        work.write(lambda before: planning.named(step.effect(before), made))

    try:
        seed_nocloud.store(work.connection, pool, own.name, work.content, noted)
    except DeadlineExceeded:  # libvirt may still complete a call that timed out
        work.made = work.made or dataclasses.replace(own, made=BEGUN)
        raise


def _look_again(work: Work, _step: Step[Facts]) -> None:
    """Plan again from the current state; raise PlanRefused if the VM must not be seeded any more.

    From here on the current definition of a VM without a claim is the one that is changed.
    """
    again, known = seeding_facts.read(work.connection, work.name, work.me), work.facts
    facts = dataclasses.replace(
        again.facts,
        chosen=known.chosen,
        pool=known.pool,
        volume=known.volume,
        disks=known.disks,
    )
    refusals = planning.plan(facts, work.wanted).refusals
    if refusals and facts.active:
        raise PlanRefused(f"{work.name!r} was started meanwhile; nothing was changed")
    if refusals:
        raise PlanRefused("; ".join(refusals))
    work.require_unchanged(facts.stored)
    work.facts = facts
    if work.me is None:  # for the drive of a claim libvirt has added controllers
        work.root = again.root


def _insert(work: Work, step: Step[Facts]) -> None:
    after, old = step.effect(work.facts), work.facts.drive
    stored = dataclasses.replace(after.noted, host_key=work.host_key)
    root = copy.deepcopy(work.root)
    text = seed_domain.with_medium(root, stored, _volume(step).path, [old] if old else [])
    work.define(text)
    work.facts = dataclasses.replace(after, stored=stored)


def _claim(work: Work, step: Step[Facts]) -> None:
    """Record the seed, and keep the VM from starting until all of it is written."""
    work.me = owners.myself(str(uuids.uuid4()))
    after = step.effect(work.facts)
    stored = dataclasses.replace(after.noted, owner=work.me)
    marker = f"{Path(work.facts.disks[0].path).parent}/{work.name}{_MARKER}"
    with owners.host_lock():
        work.require_unchanged(work.read())
        work.define(unstartable.marked(work.root, stored, marker))
    work.facts = dataclasses.replace(after, stored=stored)


def _write(work: Work, step: Step[Facts]) -> None:
    from ..seed import effects_guest_disk as guest_disk
    from ..seed import effects_offline as offline

    disks = [(disk.path, disk.format) for disk in t.cast("tuple[Disk, ...]", step.payload)]
    seed = dataclasses.replace(work.seed, method="offline")
    try:
        done = offline.seed_disks(seed, work.name, work.uuid, work.nics, disks)
    except guest_disk.IncompleteWrite:
        raise  # the VM stays as it is and cannot be started
    except FleetVirtError:  # nothing was written; a bug of ours leaves it as a killed call does
        _restore(work, step)
        raise
    work.host_key = done.host_key
    if work.facts.chosen is not None:
        chosen: Seeded = {**work.facts.chosen, "found": done.image}
        work.facts = dataclasses.replace(work.facts, chosen=chosen)


def _release(work: Work, step: Step[Facts]) -> None:
    after = step.effect(work.facts)
    stored = dataclasses.replace(after.noted, host_key=work.host_key)
    unstartable.unmark(work.root)
    metadata.put(work.root, stored)
    domains.define(work.connection, f"define {work.name}", _lxml.tostring(work.root))
    work.facts = dataclasses.replace(after, stored=stored)


def _volume(step: Step[Facts]) -> OwnVolume:
    return t.cast("OwnVolume", step.payload)


# --- rolling them back ---


def _unmade(work: Work, _step: Step[Facts]) -> None:
    if work.made is not None:
        seed_medium.delete(work.connection, work.dom, [work.made])


def _unnoted(work: Work, step: Step[Facts]) -> None:
    """Remove the name of the new medium, and nothing that others have noted meanwhile."""
    now = work.read() or Metadata()
    left = tuple(volume for volume in now.volumes if volume.path != _volume(step).path)
    if left != now.volumes:
        stored = dataclasses.replace(now, volumes=left)
        before = None if stored == Metadata() else stored
        lookup.restore_metadata(work.connection, work.dom, before)


def _restore(work: Work, _step: Step[Facts]) -> None:
    if work.before:
        domains.define(work.connection, f"define {work.name}", work.before)


_DO: t.Mapping[str, t.Callable[[Work, Step[Facts]], None]] = {
    "generate": _generate,
    "eject": _eject,
    "forget": _note,
    "remove": _remove,
    "acknowledge": _note,
    "note": _note,
    "create": _create,
    "look_again": _look_again,
    "insert": _insert,
    "claim": _claim,
    "write": _write,
    "release": _release,
}
_UNDO: t.Mapping[str, t.Callable[[Work, Step[Facts]], None]] = {
    "note": _unnoted,
    "create": _unmade,
    "insert": _restore,
    "claim": _restore,
}
