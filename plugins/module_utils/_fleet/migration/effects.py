# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moving VMs from this hypervisor to others.

Everything is checked before anything is changed. Then the VM is marked: phase ``migrating`` in its
definition, autostart off, so that a hypervisor that comes back after a crash does not start its
copy. Its claim and its volumes are created on the destination, and libvirt migrates it. A VM that
is shut off is started paused for that, so that its guest never runs meanwhile: libvirt itself then
ensures that only one endpoint has it. Which endpoint has it afterwards is read from both, whatever
the call returned. Only then are the source's volumes removed, and the marks last: a call that is
killed leaves what the next one needs to finish.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t
import uuid as uuids
from concurrent.futures import ThreadPoolExecutor

from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused, error_message
from ..._libvirt import ERR_NO_DOMAIN
from ..base.effects_connection import Connection, connect
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import Metadata, Owner
from ..base.names import CLAIM
from ..base.results import GENERATED
from ..cards import read_leftovers
from ..cards.effects_keep import clear_leftovers
from ..cards.effects_keep import repair as repair_cards
from ..cell import effects_hold as cells
from ..cell import effects_repair
from ..cell import read as cell
from ..engine import effects_backups as backups
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.steps import Plan as Steps
from ..engine.steps import Step
from ..seeding.effects_waited import consumed_medium
from . import effects_job as migration_job
from . import effects_lost_source as migration_lost
from . import effects_noting as noting
from . import effects_records as migration_records
from . import effects_volumes as migration_volumes
from . import plan as migration_plan
from . import plan_steps as moving
from . import read as migration_facts
from . import read_keys as migration_keys
from . import read_shared as migration_shared
from .effects_jobs import MigrationJob, MigrationSettings, new_job
from .effects_move import Moving, Overtaken
from .effects_settle import Settler, Undone
from .plan_steps import MoveState
from .read_endpoints import Endpoints
from .settling import Verdict
from .types import Destination, LostSource, MigrationPlan, Source, Target

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..cards.facts import CardEntry

_POLL = 0.5
_JOIN_GIB = 4.0  # an earlier run's move may take as long as one of this size
_ATTEMPTS = 5  # at a VM that another run keeps changing


def run(
    connection: Connection,
    moves: t.Iterable[tuple[str, Destination, LostSource | None]],
    settings: MigrationSettings,
    *,
    check: bool,
) -> dict[str, object]:
    """Make the ``moves``, of a VM to a destination, from a lost source if so; the module's result.

    Each is planned in its thread, more than once, from what both ends have by then.
    """
    if not connection.local:
        raise PlanRefused(
            f"{connection.uri} is not this machine's hypervisor; run this on the hypervisor that"
            " has the VM, with uri qemu:///system"
        )

    moves = list(moves)
    cleared: list[CardEntry] = []
    held = _held(connection, settings.cards)
    for name in settings.cards:
        if name in held:
            continue
        with contextlib.suppress(FleetVirtError):  # said below
            cleared += clear_leftovers(connection, [name], check=check)
    settings = dataclasses.replace(settings, cleared=[card["name"] for card in cleared])

    def move_vm(job: MigrationJob) -> None:
        # one connection each: libvirt 9.0's client loses replies that several threads wait for
        try:
            with connect(connection.uri, connection.timeout) as own:
                if job.lost is not None:
                    migration_lost.settle(own, job, settings.here, job.lost, check=check)
                    return
                mover = _Mover(own, job, settings, check=check)
                with contextlib.closing(mover.endpoints):
                    mover.move()
        except Exception as error:
            job.problem = error_message(error)

    def work(jobs: t.Iterable[MigrationJob]) -> None:
        with ThreadPoolExecutor(max_workers=settings.parallel) as pool:
            list(pool.map(move_vm, jobs))

    jobs = [
        new_job(connection, name, settings.here, destination, lost)
        for name, destination, lost in moves
    ]
    answer = verb.planned(jobs, work, check=False, together=False)
    if settings.unmanaged:
        vms = effects_repair.repair(connection, settings.unmanaged, check=check)
        managed = any(vm["problem"] is None for vm in vms)
        answer = {**answer, "unmanaged": vms, "changed": answer["changed"] or managed}
    if not settings.cards:
        return answer
    kept = held if check else ()  # what is here is written by then
    others = [name for name in settings.cards if name not in (*settings.cleared, *kept)]
    cards = [*cleared, *repair_cards(connection, others, check=check)]
    cards += [{"name": name, "problem": None, "leftover": None} for name in kept]
    written = any(card["problem"] is None for card in cards)
    return {**answer, "cards": cards, "changed": answer["changed"] or written}


def _held(connection: Connection, names: t.Iterable[str]) -> list[str]:
    """Those that a run on this hypervisor holds, or did when it died: their cells have not started
    them elsewhere, so what is here is no leftover, whatever their cards say."""
    if not cell.is_member():
        return []
    doms = {name: find_domain(connection, name) for name in names}
    return [
        name
        for name, dom in doms.items()
        if dom is not None and cells.was_held(str(dom.UUIDString()))
    ]


class _Mover:
    """The move of one VM."""

    def __init__(
        self, connection: Connection, job: MigrationJob, settings: MigrationSettings, *, check: bool
    ) -> None:
        self.connection = connection
        self.job = job
        self.settings = settings
        self.check = check
        self.name = job.name
        self.run = str(uuids.uuid4())
        self.endpoints = Endpoints(connection, job.name, settings.here, job.destination)
        self.settler = Settler(self.endpoints, job, keep_volumes=settings.options.keep_volumes)

    def move(self) -> None:
        """Move the VM, as far as that is still needed.

        A run goes on even if its controller is killed. So another run may be at work on the VM at
        any moment: this one waits for it, and counts what it has done.
        """
        began = time.monotonic()
        if not self.check:
            lease.wait_for_others(self.connection, [self.name])
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._move()
                break
            except Overtaken:
                if attempt == _ATTEMPTS:
                    raise
                self.job.done.clear()
                self.job.flow = "finish" if self.job.flow == "finish" else None
                time.sleep(_POLL)
        if self.job.changed and not self.check:
            self.job.seconds = round(time.monotonic() - began, 1)

    def _move(self) -> None:
        # in check mode it is still there
        cleared = self.name in self.settings.cleared
        dom = None if cleared else find_domain(self.connection, self.name)
        stored = None if dom is None else self._read_metadata(dom)
        other = migration_plan.other_move(
            self.name, stored, self.settings.here, self.endpoints.where, owners.is_alive
        )
        if other is not None:
            raise PlanRefused(other)
        if stored is not None and stored.phase == "migrating" and not self.check:
            self._note()  # once more: it may have begun long ago
        with self.endpoints.remote() as remote:
            if dom is None:
                self._not_here(remote)
            elif (
                stored is not None
                and stored.phase == "migrating"
                and self._resolve(dom, remote, stored)
            ):
                pass
            elif self.settings.repair:
                self._repaired(stored)
            else:
                self._begin(remote)

    def _begin(self, remote: Connection) -> None:
        """Start a new move, unless something prevents it."""
        dom = find_domain(self.connection, self.name)
        if dom is None:
            raise Overtaken(f"{self.name!r} was removed meanwhile")
        with self._leaving():
            consumed = consumed_medium(self.connection, dom, read_metadata(self.connection, dom))
            source = self._source(dom, consumed)
        self._require_at_rest(source.metadata)
        destination = dataclasses.replace(self.job.destination, listen=self.endpoints.numeric())
        target = migration_facts.read_target(remote, destination, source, self.settings.base_pool)
        target = self._with_shared(remote, source, target, check=True)
        # libvirt's figures of free space may be outdated
        plan = migration_plan.plan(source, target, self.settings.options, space=self.check)
        if not plan.findings and not self.check:
            pools = tuple(migration_facts.read_pools(remote, refresh=True))
            target = dataclasses.replace(target, pools=pools)
            target = self._with_shared(remote, source, target, check=False)
            plan = migration_plan.plan(source, target, self.settings.options)
        self.job.flow, self.job.bytes_to_copy = plan.flow, plan.bytes_to_copy
        self.job.plan, self.job.kept = Steps(refusals=tuple(plan.findings)), list(plan.kept)
        if plan.findings:
            self._require_at_rest(self._read_metadata(dom))
            self.job.problem = "; ".join(plan.findings)
            return
        steps = moving.begin(
            source, plan, self.endpoints.where, seed=consumed, evacuating=self.settings.evacuating
        )
        if self.check:
            self._predict(source, plan, steps)
            return
        self._note()
        backups.give_way(self.connection, source.uuid)
        Moving(
            *(remote, dom, source, target, plan, self.settings, self.settler, self.run),
            read=lambda: self._source(dom, None),
            watch=lambda seconds: self._watch(remote, dom, seconds),
        ).carry_out(steps)

    def _note(self) -> None:
        """Note where the VM goes; a move that is refused leaves no note."""
        noting.leave(self.connection, self.endpoints, self.settings.places)

    def _predict(
        self, source: Source, plan: MigrationPlan, steps: t.Sequence[Step[MoveState]]
    ) -> None:
        """Record these steps, and those that follow if nothing fails."""
        keep, evacuating = self.settings.options.keep_volumes, self.settings.evacuating
        rest = moving.predicted(
            source, plan, self.endpoints.where, keep_volumes=keep, evacuating=evacuating
        )
        self.job.done += [*steps, *rest.steps]
        self.job.changed = True
        self.job.bytes = self.job.seconds = self.job.downtime_ms = GENERATED

    def _require_at_rest(self, stored: Metadata | None) -> None:
        """Raise Overtaken if another run has just started to move the VM."""
        if stored is not None and stored.phase == "migrating" and not self.check:
            raise Overtaken(f"{self.name!r} is being moved by another run; try again")

    def _read_metadata(self, dom: VirDomain) -> Metadata | None:
        with self._leaving():
            return read_metadata(self.connection, dom)

    @contextlib.contextmanager
    def _leaving(self) -> t.Iterator[None]:
        """Context for reading a VM that another run may be moving away."""
        try:
            yield
        except LibvirtFailure as error:
            if error.code != ERR_NO_DOMAIN:
                raise
            raise Overtaken(f"{self.name!r} has just been moved by another run") from None

    def _with_shared(
        self, remote: Connection, source: Source, target: Target, *, check: bool
    ) -> Target:
        shared = migration_shared.proofs(self.connection, remote, source, target.pools, check=check)
        return dataclasses.replace(target, shared=shared)

    def _source(self, dom: VirDomain, consumed: str | None) -> Source:
        """Read the source, without a seed medium that is consumed: that is removed first."""
        source = migration_facts.read_source(self.connection, dom, self.settings.here)
        source = dataclasses.replace(
            source,
            expired=tuple(migration_keys.for_outgoing()),
            missing_certificates=tuple(migration_keys.missing_for_outgoing()),
        )
        if source.metadata is not None and source.metadata.in_cell:
            source = dataclasses.replace(source, cell=cell.here())
        return migration_plan.without_seed_medium(source) if consumed else source

    def _watch(self, remote: Connection, dom: VirDomain, seconds: float) -> migration_job.Watched:
        watch = migration_job.Watch(
            self.connection,
            remote,
            dom,
            self.endpoints.address,
            seconds,
            self.settings.options.max_downtime,
            pause=self.settings.options.on_timeout == "pause",
        )
        return watch.wait()

    # leftovers of an earlier run

    def _not_here(self, remote: Connection) -> None:
        """Deal with a VM that is not here: moved, except perhaps for its marks, or unknown."""
        here, where = self.settings.here, self.endpoints.where
        if not self.check:
            self._completed_by_another()
        destination = self.endpoints.destination_view(remote)
        stored = destination.stored
        moving_there = stored is not None and stored.phase == "migrating"
        if not moving_there and self._restarted(remote):
            return
        if destination.dom is None:
            raise PlanRefused(
                f"no VM {self.name!r} on {here} or {where}: another run may have moved it; locate"
                " it with ansible-playbook fleet.virt.list"
            )
        if destination.stored is None or destination.stored.phase != "migrating":
            if self.job.flow == "finish":
                self._seen(None)
            self.job.flow, self.job.note = self.job.flow or "none", f"it is on {where}"
            return
        move = destination.stored.move
        if move is None or (move.source, move.destination) != (here, where):
            raise PlanRefused(
                f"{self.name!r} on {where} is in phase migrating, but not from {here}; run this on"
                " the hypervisor it came from"
            )
        if destination.incoming:
            raise PlanRefused(
                f"{self.name!r} is still being moved to {where}; wait, then run this again"
            )
        self.job.flow = "finish"
        self.job.tell(f"finish the move of {self.name}")
        if self.check:
            self.job.done += self.settler.predict(remote, destination).steps
            self.job.changed = True
            return
        uuid = str(destination.dom.UUIDString())
        self.settler.complete(remote, destination, uuid)
        self._tell_cell(uuid, destination.stored)

    def _restarted(self, remote: Connection) -> bool:
        """Remove the claim of a move that died with both of its hypervisors, if the VM was
        restarted on another; files that were copied for it are kept."""
        ends = (self.settings.here, self.endpoints.where)
        card = read_leftovers.restarted(self.connection, self.name, ends)
        claimed = find_domain(remote, self.name + CLAIM)
        claim = None if claimed is None else read_metadata(remote, claimed)
        if card is None or claimed is None or claim is None or claim.move is None:
            return False
        own = str(claimed.UUIDString()) == migration_plan.claim_uuid(card.uuid)
        if not own or (claim.move.source, claim.move.destination) != ends:
            return False
        if owners.is_alive(claim.owner):
            return False
        self.job.flow, self.job.changed = "finish", True
        self.job.note = f"it was restarted on {' or '.join(card.hosts) or 'a member of its cell'}"
        self.job.tell(f"remove the claim of {self.name} on {self.endpoints.where}")
        self.job.kept += [f"{volume.path}: was copied for the move" for volume in claim.volumes]
        if not self.check:
            migration_volumes.drop_claim(remote, self.name, card.uuid, volumes=False)
            migration_records.drop(remote, str(claimed.UUIDString()))
        return True

    def _resolve(self, dom: VirDomain, remote: Connection, stored: Metadata) -> bool:
        """Join or undo an earlier run's move; whether that has moved the VM."""
        uuid = str(dom.UUIDString())
        self.job.tell(f"finish or undo the interrupted move of {self.name}")
        if self.check:
            return self._predict_settling(dom, uuid)
        watched = None
        error = "an earlier move was interrupted"
        self.job.flow = "finish"
        while True:
            if self._is_running(dom, uuid):
                seconds = self.settings.options.seconds_per_gib * _JOIN_GIB
                watched = self._watch(remote, dom, seconds)
                error = watched.error or error
            if self.endpoints.source_view(uuid) is None:
                if self._completed_by_another(uuid):
                    self._seen(watched)
                    return True
                break
            # libvirt accepts no change of the metadata before that
            if self._own(dom, uuid):
                break
        self.settler.held = stored.in_cell and cells.was_held(uuid)
        try:
            self.settler.settle(uuid, error, watched)
        except Undone:
            self.job.changed = True  # and can be started again
            self._tell_cell(uuid, stored)
            return False
        self._tell_cell(uuid, stored)
        return True

    def _tell_cell(self, uuid: str, stored: Metadata | None) -> None:
        """Have the cell manage the VM again, which an earlier run has held."""
        if stored is not None and stored.in_cell:
            cells.repair(self.connection, self.name, uuid, to=self.endpoints.where)

    def _predict_settling(self, dom: VirDomain, uuid: str) -> bool:
        """Record what would be done, as far as both endpoints show; whether that moves the VM."""
        if self._is_running(dom, uuid):
            return False  # unknown
        verdict, plan = self.settler.predict_settling(uuid)
        self.job.done += plan.steps if plan else ()
        if plan is None or verdict is Verdict.UNDO:
            return False
        self.job.flow, self.job.changed = "finish", True
        return True

    def _is_running(self, dom: VirDomain, uuid: str) -> bool:
        """Whether libvirt is still moving it."""
        if migration_job.state(uuid) == "running":
            return True
        try:
            return bool(migration_facts.job_of(self.connection, dom))
        except LibvirtFailure as error:
            if error.code != ERR_NO_DOMAIN:
                raise
            return False

    def _completed_by_another(self, uuid: str = "") -> bool:
        """Wait for a live run of this host that has moved the VM and is cleaning up.

        Returns whether it is done: the destination has the VM without the marks of a move.
        """

        def look() -> tuple[bool, Owner | None]:
            with self.endpoints.reconnected() as (_remote, destination):
                stored = destination.stored
                marked = stored is not None and stored.phase == moving.MIGRATING
                done = destination.is_of(uuid) and not destination.incoming and not marked
            return done, stored.owner if stored is not None and marked else None

        return lease.wait_while_alive(look, _POLL)  # each opens a connection to the destination

    def _seen(self, watched: migration_job.Watched | None) -> None:
        """Record a VM that another run moved while this one waited."""
        if watched is not None:
            self.job.progress += watched.lines
            self.job.bytes = watched.processed
        self.job.changed = True
        self.job.note = f"it is on {self.endpoints.where}"
        self.job.tell(f"finish the move of {self.name}")

    def _repaired(self, stored: Metadata | None) -> None:
        """Report a VM of which nothing had to be finished."""
        self.job.flow = self.job.flow or "none"
        if self.check and stored is not None and stored.phase == "migrating":
            self.job.flow, self.job.changed = "finish", True
        elif self.job.changed:
            self.job.flow = "undo"
            self.job.note = f"it is on {self.settings.here}"
        else:
            self.job.note = "nothing to repair"

    def _own(self, dom: VirDomain, uuid: str) -> bool:
        """Take over an unfinished move from a dead run, or wait for a live one.

        False if libvirt is moving the VM for that one by now.
        """

        def stored() -> Metadata:
            metadata = self._read_metadata(dom)
            if metadata is None or metadata.phase != moving.MIGRATING:
                raise Overtaken(f"another run has just finished with {self.name!r}; try again")
            return metadata

        with self._leaving():
            owned = lease.take_over_when_dead(
                self.connection, dom, stored, self.run, lambda: self._is_running(dom, uuid)
            )
        if owned is lease.Waited.TOO_LONG:
            who = stored().owner
            raise PlanRefused(
                f"{self.name!r} is being moved by a run on {self.settings.here} (process"
                f" {who.pid if who else 0}); wait for it and try again"
            )
        return owned is lease.Waited.OWNED
