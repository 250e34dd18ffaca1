# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running a verb on the VMs of this hypervisor: what all verbs have in common.

A verb has a planner, a job for each VM, and a table of how each action is done; here they are
waited for, planned, carried out unless this is check mode, and reported. What the controller must
know to locate them is read here as well (:mod:`declaration`).
"""

from __future__ import annotations

import abc
import contextlib
import typing as t

from ..._errors import FleetVirtError, PlanRefused, error_message
from ..._records import dataclass, field
from ..base.answers import GroupedLook, GroupedVm
from ..base.effects_connection import Connection, connect
from ..base.effects_lookup import selected_domains
from ..base.results import json_diff
from ..base.selected import Selected
from ..cards import read_leftovers
from ..cards.effects_keep import keep_cards
from ..cell import effects_hold as cells
from . import effects_executor as executor
from . import effects_lease as lease
from . import envelope
from .effects_executor import Turns
from .envelope import Selecting
from .steps import Action, AnyStep, Plan, Snapshot, Step, predict

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.metadata import Metadata

AnyAction = t.TypeVar("AnyAction", bound=Action)
Shown = t.Mapping[str, object]


class Work:
    """What steps are carried out for: a job, or a part of it with a plan of its own.

    ``step`` is the one that is being done or, with ``undoing``, undone; ``error`` is what one has
    raised, also for ``finish``.
    """

    step: AnyStep
    undoing = False
    error: Exception | None = None

    def step_is_done(self) -> None:
        """Take note that the step was done."""
        raise NotImplementedError

    def hold(self) -> None:
        """Have the VM's cell, if it is in one, leave it alone. Called before the first step."""

    def keep_cards(self) -> None:
        """Have the VM's card on shared storage be as the VM is now, and its cell manage it again.
        Called when any step was begun; that it must be there is why no verb can forget it."""
        raise NotImplementedError

    def keep_card_now(self) -> None:
        """As :meth:`keep_cards`, while its cell still leaves it alone. Called within the steps, so
        that a run which is killed before its end has kept the card."""

    def stays(self, error: Exception) -> None:
        """The step could not be undone. Unless this raises, those before it are undone too."""
        raise error

    def finish(self) -> None:
        """Read the outcome, also after a failure; without this, replies confirm each step."""


@dataclass
class Job(Work, abc.ABC, t.Generic[Snapshot]):
    """One VM that a verb works on, the plan for it, and what came of it.

    ``facts`` are what the plan is based on, ``after`` what they are in the end, as far as the verb
    predicts or reads them. ``note`` tells the user something that is no ``problem``.
    ``not_tried``: nothing was done, since another job could not be done. ``irreversible`` as for
    the executor. ``in_cell``: its cell leaves it alone meanwhile.
    """

    # Whether the VM is changed: if so its card is kept, and its cell leaves it alone meanwhile
    changes_vm = True

    connection: Connection
    name: str
    uuid: str | None
    facts: Snapshot
    plan: Plan[Snapshot]
    after: Snapshot = field(init=False)
    done: list[Step[Snapshot]] = field(default_factory=list, init=False)
    problem: str = field(default="", init=False)
    note: str | None = field(default=None, init=False)
    not_tried: bool = field(default=False, init=False)
    in_cell: bool = field(default=False, init=False)
    irreversible: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.after = self.facts
        self.problem = "; ".join(self.plan.refusals)

    @property
    def has_work(self) -> bool:
        """Whether there is something to do."""
        return bool(self.plan.steps)

    @property
    def changed(self) -> bool:
        """Whether something was done, or would be in check mode."""
        return bool(self.done)

    @property
    def steps(self) -> list[str]:
        """What was done, for the user."""
        return [step.text for step in self.done] if self.changed else []

    @property
    def header(self) -> str:
        """What a difference is headed with."""
        return self.name

    @property
    def failure(self) -> str:
        """What the call as a whole says of a problem."""
        return self.problem

    @property
    def names(self) -> tuple[str, ...]:
        """The VM's names, now and before."""
        return (self.name,)

    def hold(self) -> None:
        if self.changes_vm:
            self.in_cell = cells.hold(self.connection, self.uuid)

    def keep_cards(self) -> None:
        if self.changes_vm:
            keep_cards(self.connection, self.names, self.uuid, sure=self.in_cell)
            cells.settle(self.connection, self.names[0], self.uuid, held=self.in_cell)

    def keep_card_now(self) -> None:
        if self.changes_vm:
            keep_cards(self.connection, self.names, self.uuid, sure=self.in_cell)
        if self.in_cell:
            cells.follow_card(self.connection, self.names[0], self.uuid)

    def predict(self) -> None:
        """What check mode tells: all is done, and has its effects."""
        self.done = list(self.plan.steps)
        self.after = predict(self.facts, self.done)

    def step_is_done(self) -> None:
        self.done.append(self.step)

    def report(self) -> dict[str, object]:
        """What the module reports of the VM."""
        return {
            "name": self.name,
            "uuid": self.uuid,
            "changed": self.changed,
            **self.entry(),
            "failed": bool(self.problem),
            "msg": self.problem or self.note,
        }

    @abc.abstractmethod
    def entry(self) -> Shown:
        """What the verb reports of the VM, besides what every verb does."""

    @abc.abstractmethod
    def shown(self) -> tuple[Shown, Shown]:
        """What the user is shown of the VM, before and after; called if it is changed."""


class ComparedJob(Job[Snapshot]):
    """A job whose outcome is read: it has changed what is shown differently in the end."""

    @property
    def changed(self) -> bool:
        before, after = self.shown()
        return before != after


AnyJob = t.TypeVar("AnyJob", bound="Job[t.Any]")
AnyWork = t.TypeVar("AnyWork", bound=Work)
AnyRun = executor.Run[t.Any]
Do = t.Callable[[AnyWork, AnyAction], t.Optional[Turns]]
Undo = t.Callable[[AnyWork, AnyAction], object]


class Actions(t.Generic[AnyWork]):
    """How each action is done and undone. ``undo_failed`` as for the executor."""

    def __init__(self, *, undo_failed: bool = False) -> None:
        self.undo_failed = undo_failed
        self.ways: dict[type[Action], Do[AnyWork, t.Any]] = {}
        self.ways_back: dict[type[Action], Undo[AnyWork, t.Any]] = {}

    def on(
        self,
        kind: type[AnyAction],
        do: Do[AnyWork, AnyAction],
        undo: Undo[AnyWork, AnyAction] | None = None,
    ) -> Actions[AnyWork]:
        """Add an action. ``do`` yields while it waits, or is done on return; without ``undo`` what
        was done stays when a later step fails."""
        self.ways[kind] = do
        if undo is not None:
            self.ways_back[kind] = undo
        return self

    def simply(
        self,
        kind: type[Action],
        do: t.Callable[[AnyWork], Turns | None],
        undo: t.Callable[[AnyWork], object] | None = None,
    ) -> Actions[AnyWork]:
        """Add an action that carries nothing which doing it needs."""
        self.ways[kind] = lambda work, _action: do(work)
        if undo is not None:
            self.ways_back[kind] = lambda work, _action: undo(work)
        return self

    def carry_out(
        self: Actions[AnyJob], jobs: t.Sequence[AnyJob], stages: t.Container[int] | None = None
    ) -> list[AnyJob]:
        """Carry out the plans of ``jobs`` at the same time, or these ``stages`` of them; each job
        has its own problem. Returns those of which steps were done, and none failed."""
        plans = [
            [step for step in job.plan.steps if stages is None or step.stage in stages]
            for job in jobs
        ]
        runs = [self._run(job, steps) for job, steps in zip(jobs, plans)]
        held = [_hold(job, run) for job, run in zip(jobs, runs)]
        executor.carry_out([run for run, may in zip(runs, held) if may])
        for job, run, may in zip(jobs, runs, held):
            job.irreversible, job.error = run.irreversible, run.problem
            if run.problem is not None:
                job.problem = error_message(run.problem)
            if may:  # else nothing was done, and what is there may be another run's, or its cell's
                _keep_cards(job, run)
        return [job for job, run in zip(jobs, runs) if run.done and run.problem is None]

    def do(self, work: AnyWork, steps: t.Sequence[AnyStep]) -> None:
        """Carry out ``steps`` of one VM; raises the error of the one that failed."""
        run = self._run(work, steps)
        work.hold()
        executor.carry_out([run])
        try:
            work.keep_cards()
        except FleetVirtError as error:
            run.problem = run.problem or error
        if run.problem is not None:
            raise run.problem

    def _run(self, work: AnyWork, steps: t.Sequence[AnyStep]) -> AnyRun:
        return executor.Run(steps, _Steps(work, self), undo_failed=self.undo_failed)


def _hold(job: AnyJob, run: AnyRun) -> bool:
    """Hold the job's VM; whether its steps may be done."""
    try:
        if run.steps:
            job.hold()
    except FleetVirtError as error:
        run.problem = error
    return run.problem is None


def _keep_cards(job: AnyJob, run: AnyRun) -> None:
    """Keep the job's cards, also where a step failed: it may have changed the VM."""
    if not job.in_cell and not run.done and run.problem is None:
        return
    try:
        job.keep_cards()
    except FleetVirtError as error:
        job.problem = "; moreover, ".join(filter(None, [job.problem, error_message(error)]))


@dataclass
class _Steps(t.Generic[AnyWork]):
    """The steps of a work, for the executor."""

    work: AnyWork
    actions: Actions[AnyWork]

    def do(self, step: AnyStep) -> Turns:
        self.work.step = step
        try:
            yield from self.actions.ways[type(step.action)](self.work, step.action) or ()
        except Exception as error:
            self.work.error = error
            raise
        self.work.step_is_done()
        if step.action.moves_disks:
            with contextlib.suppress(FleetVirtError):  # the end of the run tries it again
                self.work.keep_card_now()

    def undo(self, step: AnyStep) -> None:
        undo = self.actions.ways_back.get(type(step.action))
        if undo is None:
            return
        self.work.step, self.work.undoing = step, True
        try:
            undo(self.work, step.action)
        except Exception as error:
            self.work.stays(error)

    def finish(self) -> None:
        self.work.finish()


def run(
    connection: Connection,
    names: t.Sequence[str],
    plan: t.Callable[[], t.Sequence[AnyJob]],
    work: t.Callable[[t.Sequence[AnyJob]], object],
    *,
    check: bool,
    together: bool = True,
) -> dict[str, object]:
    """Wait for others that work on ``names``, ``plan`` the jobs and do their ``work``; the
    module's result."""
    if not check:
        lease.wait_for_others(connection, names)
    return planned(plan(), work, check=check, together=together)


def planned(
    jobs: t.Sequence[AnyJob],
    work: t.Callable[[t.Sequence[AnyJob]], object],
    *,
    check: bool,
    together: bool = True,
) -> dict[str, object]:
    """Do the ``work`` of ``jobs``, or predict it in check mode; the module's result.

    ``together``: unless all of them can be done, none is.
    """
    for job in jobs:
        if job.has_work and not job.problem:
            job.problem = cells.refusal(job.connection, job.uuid) or ""
    if together and any(job.problem for job in jobs):
        for job in jobs:
            job.not_tried = job.has_work and not job.problem
    elif check:
        for job in jobs:
            job.predict()
    else:
        work([job for job in jobs if not job.problem])
    return result(jobs)


def result(jobs: t.Sequence[AnyJob]) -> dict[str, object]:
    """The module's result, from what the jobs are now."""
    vms = [job.report() for job in jobs]
    diff = [json_diff(job.header, *job.shown()) for job in jobs if job.changed]
    answer = {"changed": any(job.changed for job in jobs), "vms": vms, "diff": diff}
    problems = [job.failure for job in jobs if job.problem]
    return {**answer, "failed": True, "msg": "; ".join(problems)} if problems else answer


def require_local(connection: Connection, why: str) -> None:
    """Raise PlanRefused unless ``connection`` is to this machine, and ``why`` it has to be."""
    if not connection.local:
        raise PlanRefused(
            f"{connection.uri} is not this machine's hypervisor, and {why}: run this on the"
            " hypervisor itself, with uri qemu:///system"
        )


Look = t.Callable[[Connection, t.Sequence[str], t.Sequence[str]], t.Mapping[str, object]]
Act = t.Callable[[Connection, t.Sequence[str]], t.Mapping[str, object]]


def stage(
    options: t.Mapping[str, t.Any], kind: type[Selecting], look: Look, act: Act
) -> t.Mapping[str, object]:
    """The stage that ``options`` of a module ask for: ``look`` for its VMs, or ``act`` on them."""
    with connect(options["uri"], options["timeout"]) as connection:
        work = envelope.read(kind, options)
        if work.stage == "look":
            return look(connection, options["names"], work.groups)
        return act(connection, options["names"])


def look(
    connection: Connection, names: t.Sequence[str], groups: t.Sequence[str] = ()
) -> GroupedLook:
    """The VMs of ``names``, names or patterns, and of ``groups`` that are here."""
    here = selected_domains(connection, Selected.of(names, groups))
    vms = sorted((of_domain(dom, stored) for dom, stored in here), key=lambda vm: vm["name"])
    return {"changed": False, "vms": vms, "warnings": read_leftovers.mark(connection, vms)}


def of_domain(dom: VirDomain, stored: Metadata | None) -> GroupedVm:
    """What every verb must know of a VM; ``stored`` are our metadata of it."""
    return {
        "name": str(dom.name()),
        "uuid": str(dom.UUIDString()),
        "phase": stored.phase if stored is not None else None,
        "groups": [str(group) for group in stored.groups] if stored is not None else [],
    }
