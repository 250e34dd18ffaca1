# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeding an existing VM: the work of ``virt_seed`` on a hypervisor.

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
from ..._errors import DeadlineExceeded, FleetVirtError, PlanRefused, Problem, SpecError
from ..._records import dataclass, field
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import metadata, unstartable
from ..base import read_file_identity as identity
from ..base.effects_connection import Connection
from ..base.metadata import BEGUN, Metadata, Owner, OwnVolume
from ..base.names import check_host_name
from ..base.settings import argument_spec
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.steps import Effect
from ..seed import effects_nocloud as seed_nocloud
from ..seed import network as seed_network
from ..seed import specification as seeds
from ..seed.settings import SEED
from ..seed.types import Seed, SeededNic
from . import effects_medium as seed_medium
from . import medium as seed_domain
from . import plan as planning
from . import read as seeding_facts
from .plan import Claim, Create, Eject, Insert, Note, Remove, SeedingFacts, Write
from .read import SeedingVm

if t.TYPE_CHECKING:
    from ..base.arguments import Spec
    from ..seed.guest_image import Seeded
    from ..storage import effects_storage as storage

STATES = ("present", "absent")
ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": list(STATES), "default": "present"},
    "pool": {"type": "str"},
    # _fleet/seed/specification.py reads them, and reports every problem at once
    **argument_spec(SEED),
}
INTERNAL: Spec = {"_seed": {"type": "str", "default": "", "no_log": True}}
_LOCK = "seed"  # two calls for one VM would undo each other
_MARKER = ".fleet-virt-seeding"


@dataclass
class _Job(verb.Job[SeedingFacts]):
    """The VM; ``after`` are the facts after the steps so far.

    ``content`` is that of the new medium, which is secret. ``made`` is its volume: one of that name
    is not ours before it is made. ``before`` is the definition before it was changed.
    """

    vm: SeedingVm
    wanted: Seed | None = field(repr=False)
    nics: t.Sequence[SeededNic]
    me: Owner | None = field(default=None, init=False)
    content: bytes = field(default=b"", init=False, repr=False)
    host_key: str | None = field(default=None, init=False)
    made: OwnVolume | None = field(default=None, init=False)
    before: str = field(default="", init=False, repr=False)

    def entry(self) -> verb.Shown:
        return {
            "host_key": self.after.noted.host_key if self.wanted is not None else None,
            "steps": planning.texts(self.done),
            "seed": self.after.chosen,
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return planning.shown(self.facts, self.wanted), planning.shown(self.after, self.wanted)

    @property
    def seed(self) -> Seed:
        """The seed; only steps that remove need none."""
        return t.cast("Seed", self.wanted)

    def require_unchanged(self, stored: Metadata | None) -> None:
        """Raise PlanRefused if others have changed the metadata since they were read."""
        if stored != self.after.stored:
            raise PlanRefused(f"{self.name!r} was changed by another run meanwhile; try again")

    def read(self) -> Metadata | None:
        return lookup.read_metadata(self.connection, self.vm.dom)

    def write(self, effect: Effect[SeedingFacts]) -> None:
        """Write the metadata as ``effect`` changes them, with what others have noted meanwhile."""
        with owners.host_lock():
            self.after = effect(dataclasses.replace(self.after, stored=self.read()))
            active, stored = self.after.active, self.after.noted
            seed_medium.write(self.connection, self.vm.dom, stored, active=active)

    def define(self, text: str) -> None:
        """Replace the definition; it can be restored."""
        self.before = _lxml.tostring(self.vm.root)
        domains.define(self.connection, f"define {self.name}", text)


def run(
    connection: Connection,
    name: str,
    state: str,
    options: t.Mapping[str, object],
    pool: str | None,
    *,
    check: bool,
) -> dict[str, object]:
    """Bring the seed medium of the VM ``name`` to ``state``; returns the module's result."""
    if not connection.local:
        raise PlanRefused(
            f"uri {connection.uri} is remote; a seed medium is created on the hypervisor itself"
        )
    if not check:
        lease.wait_for_others(connection, [name])
    with owners.host_lock(lease.PATIENCE, _LOCK):
        vm = seeding_facts.read(connection, name)
        nics = seed_domain.nics_of(vm.root, vm.facts.stored)
        seed = None if state == "absent" else _seed(name, options, nics)
        if seed is not None and planning.needs_method(vm.facts, seed):
            vm = seeding_facts.with_method(connection, vm, seed, pool, check=check)
        plan, uuid = planning.plan(vm.facts, seed), str(vm.dom.UUIDString())
        job = _Job(connection, name, uuid, vm.facts, plan, vm, seed, nics)
        result = verb.planned([job], _ACTIONS.carry_out, check=check)
    if job.problem:
        raise job.error or PlanRefused(job.problem)
    answer = {"changed": job.changed, "name": name, **job.entry()}
    return {**answer, "diff": result["diff"]} if job.changed else answer


def _seed(name: str, options: t.Mapping[str, object], nics: t.Sequence[SeededNic]) -> Seed:
    problems: list[Problem] = []
    seed = seeds.from_options(dict(options), "", (), problems)
    problems += seed_network.twins(nics)
    problems += seed_network.problems(seed, nics, "")
    if seed.hostname is None and seed.fqdn is None:
        problems += check_host_name(name, "hostname")
    if problems:
        raise SpecError(problems)
    return seed


# --- the steps ---


def _generate(job: _Job) -> None:
    made = seed_nocloud.make(job.seed, job.name, str(job.uuid), job.nics)
    job.content, job.host_key = made.content, made.host_key


def _eject(job: _Job, step: Eject) -> None:
    seed_medium.eject(job.connection, job.vm.dom, step.volume.path, active=job.after.active)
    job.after = step.effect(job.after)


def _remove(job: _Job, step: Remove) -> None:
    """Remove a medium that is in no drive, then its name from the metadata."""
    seed_medium.delete(job.connection, job.vm.dom, [step.volume])
    job.write(step.effect)


def _create(job: _Job, step: Create) -> None:
    own, pool = step.volume, t.cast("storage.Pool", job.vm.pool)

    def noted() -> None:
        made = job.made = dataclasses.replace(own, made=identity.of_file(own.path))
        job.write(lambda before: planning.named(step.effect(before), made))

    try:
        seed_nocloud.store(job.connection, pool, own.name, job.content, noted)
    except DeadlineExceeded:  # libvirt may still complete a call that timed out
        job.made = job.made or dataclasses.replace(own, made=BEGUN)
        raise


def _look_again(job: _Job) -> None:
    """Plan again from the current state; raise PlanRefused if the VM must not be seeded any more.

    From here on the current definition of a VM without a claim is the one that is changed.
    """
    again, known = seeding_facts.read(job.connection, job.name, job.me), job.after
    facts = dataclasses.replace(
        again.facts,
        chosen=known.chosen,
        pool=known.pool,
        volume=known.volume,
        disks=known.disks,
    )
    refusals = planning.plan(facts, job.wanted).refusals
    if refusals and facts.active:
        raise PlanRefused(f"{job.name!r} was started meanwhile; nothing was changed")
    if refusals:
        raise PlanRefused("; ".join(refusals))
    job.require_unchanged(facts.stored)
    job.after = facts
    if job.me is None:  # for the drive of a claim libvirt has added controllers
        job.vm = dataclasses.replace(job.vm, root=again.root)


def _insert(job: _Job, step: Insert) -> None:
    after, old = step.effect(job.after), job.after.drive
    stored = dataclasses.replace(after.noted, host_key=job.host_key)
    root = copy.deepcopy(job.vm.root)
    job.define(seed_domain.with_medium(root, stored, step.volume.path, [old] if old else []))
    job.after = dataclasses.replace(after, stored=stored)


def _claim(job: _Job, step: Claim) -> None:
    """Record the seed, and keep the VM from starting until all of it is written."""
    job.me = owners.myself(str(uuids.uuid4()))
    after = step.effect(job.after)
    stored = dataclasses.replace(after.noted, owner=job.me)
    marker = f"{Path(job.after.disks[0].path).parent}/{job.name}{_MARKER}"
    with owners.host_lock():
        job.require_unchanged(job.read())
        job.define(unstartable.marked(job.vm.root, stored, marker))
    job.after = dataclasses.replace(after, stored=stored)


def _write(job: _Job, step: Write) -> None:
    from ..seed import effects_guest_disk as guest_disk
    from ..seed import effects_offline as offline

    disks = [(disk.path, disk.format) for disk in step.disks]
    seed = dataclasses.replace(job.seed, method="offline")
    try:
        done = offline.seed_disks(seed, job.name, str(job.uuid), job.nics, disks)
    except guest_disk.IncompleteWrite:
        raise  # the VM stays as it is and cannot be started
    except FleetVirtError:  # nothing was written; a bug of ours leaves it as a killed call does
        _restore(job, step)
        raise
    job.host_key = done.host_key
    if job.after.chosen is not None:
        chosen: Seeded = {**job.after.chosen, "found": done.image}
        job.after = dataclasses.replace(job.after, chosen=chosen)


def _release(job: _Job) -> None:
    after, root = planning.released(job.after), job.vm.root
    stored = dataclasses.replace(after.noted, host_key=job.host_key)
    unstartable.unmark(root)
    metadata.put(root, stored)
    domains.define(job.connection, f"define {job.name}", _lxml.tostring(root))
    job.after = dataclasses.replace(after, stored=stored)


# --- undoing them ---


def _unmade(job: _Job, _step: Create) -> None:
    if job.made is not None:
        seed_medium.delete(job.connection, job.vm.dom, [job.made])


def _unnoted(job: _Job, step: Note) -> None:
    """Remove the name of the new medium, and nothing that others have noted meanwhile."""
    now = job.read() or Metadata()
    left = tuple(volume for volume in now.volumes if volume.path != step.volume.path)
    if left != now.volumes:
        stored = dataclasses.replace(now, volumes=left)
        before = None if stored == Metadata() else stored
        lookup.restore_metadata(job.connection, job.vm.dom, before)


def _restore(job: _Job, _step: object) -> None:
    if job.before:
        domains.define(job.connection, f"define {job.name}", job.before)


# libvirt may have done what it gave no answer to
_ACTIONS = (
    verb.Actions[_Job](undo_failed=True)
    .simply(planning.Generate, _generate)
    .on(Eject, _eject)
    .simply(planning.ForgetHostKey, lambda job: job.write(planning.forgotten))
    .on(Remove, _remove)
    .simply(planning.AcknowledgeBoot, lambda job: job.write(planning.acknowledged))
    .on(Note, lambda job, step: job.write(step.effect), _unnoted)
    .on(Create, _create, _unmade)
    .simply(planning.LookAgain, _look_again)
    .on(Insert, _insert, _restore)
    .on(Claim, _claim, _restore)
    .on(Write, _write)
    .simply(planning.LetStart, _release)
)
