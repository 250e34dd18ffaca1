# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bringing domains to a state, and waiting until they have it.

The plan and its outcome are both read from libvirt; nothing is reported that was not verified
afterwards.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import typing as t

from ... import _libvirt
from ..._errors import DeadlineExceeded, LibvirtFailure, PlanRefused
from ..._libvirt import ERR_OPERATION_INVALID
from ..._records import dataclass, field
from ..base.effects_connection import Connection
from ..base.effects_lookup import (
    find_domain,
    is_saved,
    read_metadata,
    require_domains,
    selected_domains,
)
from ..base.json_values import as_list, as_mappings
from ..base.metadata import metadata_problems
from ..base.selected import Selected
from ..base.states import reason_name, state_name
from ..cards import read_leftovers
from ..cell import read as cell
from ..cell import read_nowhere
from ..engine import effects_backups as backups
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.effects_executor import Turns
from ..engine.steps import Plan
from ..hosts import read_rolling
from . import plan as state_plan
from . import start_order
from .actions import (
    OFF,
    PAUSED,
    RUNNING,
    Autostart,
    AwaitOff,
    AwaitRunning,
    Call,
    DestroyCrashed,
    NoAutostart,
    Restore,
    Resume,
    Save,
    SeedMedium,
    Shutdown,
    Start,
    StateAction,
    StateFacts,
    Suspend,
    Wake,
)
from .facts import StateLook, StateVm
from .operations import OPERATIONS, Boot
from .plan import StateRequest

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_AGAIN = 10.0  # seconds after which a guest is asked again: it ignores requests while it boots
_POLL = 0.25
_CHANGE_SECONDS = 300.0  # what starting, restoring and destroying may take
_SECONDS_PER_GIB = 60.0  # that writing saved memory may take
_SETTLE_SECONDS = 30.0  # from the end of a call until libvirt shows the state
_AGENTS = threading.BoundedSemaphore(8)
_TEST = "TEST"  # libvirt's test driver
_NEVER = float("inf")


@dataclass
class _StateJob(verb.ComparedJob[StateFacts]):
    """One domain and its result. Nothing is undone: the state that it has reached is reported, and
    the next run goes on from there."""

    wanted: StateRequest
    dom: VirDomain
    asking: threading.Thread | None = field(default=None, init=False)  # that may not have returned
    refusal: str = field(default="", init=False)  # why the last request to shut down failed
    operations: tuple[str, ...] = field(default=(), init=False)  # that were completed

    def finish(self) -> None:
        facts = read_facts(self.connection, self.dom)
        self.after = dataclasses.replace(facts, operations=self.operations)

    def count(self, action: StateAction) -> None:
        """Take note of the operation that ``action`` completes, if it does."""
        self.operations += (action.operation,) if action.operation else ()

    def entry(self) -> verb.Shown:
        return {
            "state": self.after.shown_state,
            "before": self.facts.shown_state,
            "autostart": self.after.autostart,
            "steps": [step.text for step in self.plan.steps] if self.changed else [],
            "not_tried": self.not_tried,
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return _shown(self.facts), _shown(self.after)


def run(
    connection: Connection,
    names: t.Sequence[str],
    wanted: StateRequest,
    *,
    check: bool,
    more: bool = False,
) -> dict[str, object]:
    """Bring ``names`` to ``wanted``, in their order of start; the module's result.

    Unless all of them can be brought to it, none is changed. ``more``: others follow these, so the
    delay of the last is waited for too.
    """
    if cell.is_member():  # of any other hypervisor nothing is looked for twice
        missing = [name for name in names if find_domain(connection, name) is None]
        if missing:
            return _with_nowhere(connection, names, missing, wanted, check=check, more=more)
    jobs = [_plan(connection, dom, wanted) for dom in require_domains(connection, names).values()]
    if not check and any(job.facts.phase for job in jobs):
        lease.wait_for_others(connection, names)
        jobs = [_plan(connection, job.dom, wanted) for job in jobs]
    return verb.planned(jobs, lambda jobs: _in_order(jobs, wanted, more), check=check)


def _with_nowhere(
    connection: Connection,
    names: t.Sequence[str],
    missing: t.Sequence[str],
    wanted: StateRequest,
    *,
    check: bool,
    more: bool,
) -> dict[str, object]:
    """:func:`run`, where some of the VMs may be a cell's that are defined nowhere."""
    from . import effects_nowhere as nowhere  # that is rare

    far = nowhere.bring(connection, missing, wanted, check=check)
    known = {str(vm["name"]) for vm in as_mappings(far["vms"])}
    near = [name for name in names if name not in known]
    if not near:
        return far
    require_domains(connection, near)  # which names those that are nowhere at all
    here = run(connection, near, wanted, check=check, more=more)
    problems = [str(one["msg"]) for one in (far, here) if one.get("failed")]
    return {
        "changed": bool(far["changed"] or here["changed"]),
        "vms": [*as_list(far["vms"]), *as_list(here["vms"])],
        "diff": [*as_list(far["diff"]), *as_list(here["diff"])],
        **({"failed": True, "msg": "; ".join(problems)} if problems else {}),
    }


def _in_order(jobs: t.Sequence[_StateJob], wanted: StateRequest, more: bool) -> None:
    rounds = start_order.rounds(jobs, lambda job: job.facts.order, wanted)
    for number, round_ in enumerate(rounds, 1):
        _carry_out(round_, wanted)
        failed = [job.name for job in round_ if job.problem]
        later = [job for after in rounds[number:] for job in after]
        if failed:
            for job in later:
                job.problem = start_order.not_begun(job.name, failed)
                job.not_tried = True
            return
        if later or more:
            time.sleep(start_order.delay((job.facts, job.plan) for job in round_))


def look(connection: Connection, names: t.Sequence[str], groups: t.Sequence[str]) -> StateLook:
    """Which domains of ``names``, names or patterns, and of ``groups`` are here."""
    vms: list[StateVm] = [
        {
            **verb.of_domain(dom, stored),
            "start_order": stored.start_order if stored else None,
        }
        for dom, stored in selected_domains(connection, Selected.of(names, groups))
    ]
    vms += [
        {**read_nowhere.entry(*seen), "start_order": seen[1].start_order}
        for seen in read_nowhere.vms(connection, Selected.of(names, groups))
    ]
    return {"changed": False, "vms": vms, "warnings": read_leftovers.mark(connection, vms)}


def _carry_out(jobs: t.Sequence[_StateJob], wanted: StateRequest) -> None:
    _ACTIONS.carry_out(jobs)
    for job in jobs:
        if not job.problem and not state_plan.is_reached(job.after, wanted.end):
            job.problem = (
                f"{job.name!r} is {job.after.state} ({job.after.reason}) and not {wanted.end},"
                " although every step succeeded; see"
                f" /var/log/libvirt/qemu/{job.name}.log on its hypervisor"
            )


def read_facts(connection: Connection, dom: VirDomain, *, media: bool = False) -> StateFacts:
    """Read the domain's current state; with ``media`` also whether its seed medium is consumed."""
    name = str(dom.name())

    def read() -> StateFacts:
        number, reason = dom.state(0)[:2]
        state = state_name(number)
        persistent = bool(dom.isPersistent())
        return StateFacts(
            name=name,
            state=state,
            reason=reason_name(state, reason),
            active=bool(dom.isActive()),
            persistent=persistent,
            autostart=persistent and bool(dom.autostart()),
        )

    facts: StateFacts = connection.call(f"read the state of {name}", read)
    stored = read_metadata(connection, dom)
    more: dict[str, object] = {"managed_save": is_saved(connection, dom)}
    if stored is not None:
        more["broken"] = "; ".join(metadata_problems(name, stored)) or None
        more.update(holder=owners.holder(stored.owner) if stored.phase else None)
        more.update(
            in_cell=stored.in_cell,
            phase=stored.phase,
            order=stored.start_order,
            delay=stored.start_delay or 0,
        )
    if media and facts.state in RUNNING and stored is not None and stored.host_key:
        from ..seeding import effects_waited as waited

        more["seed_medium"] = waited.consumed_medium(connection, dom, stored)
    return StateFacts(**{**vars(facts), **more})


def _plan(connection: Connection, dom: VirDomain, wanted: StateRequest) -> _StateJob:
    facts = read_facts(connection, dom, media=True)
    plan = state_plan.plan(facts, wanted)
    refusals = plan.refusals or start_refusals(connection, dom, facts, plan, force=wanted.force)
    plan = Plan(refusals=tuple(refusals)) if refusals else plan
    return _StateJob(connection, facts.name, str(dom.UUIDString()), facts, plan, wanted, dom)


def start_refusals(
    connection: Connection,
    dom: VirDomain,
    facts: StateFacts,
    plan: Plan[StateFacts],
    *,
    force: bool = False,
) -> list[str]:
    """Why a start that ``plan`` has would fail, or is not to be, unless ``force``; empty if it has
    none."""
    if not state_plan.starts(plan):
        return []
    from . import read_start_blockers as start_blockers  # few runs start something

    forbidden = read_rolling.refusals(connection, facts.name, force=force)
    if forbidden:
        return forbidden
    blockers = start_blockers.read(connection, dom)
    return [f"{facts.name!r} cannot start: {'; '.join(blockers)}"] if blockers else []


def _autostart(job: _StateJob, number: int) -> None:
    job.connection.call(f"set autostart of {job.name}", job.dom.setAutostart, number)


def _remove_medium(job: _StateJob) -> None:
    from ..seeding import effects_medium as seed_medium

    seed_medium.remove(job.connection, job.dom)


def _call(job: _StateJob, action: Call) -> Turns:
    """The call of libvirt that ``action`` is, and the wait for its outcome."""
    method: t.Callable[..., object] = getattr(job.dom, action.method)
    words = f"{action.text} {job.name}"
    job.connection.call(words, method, *action.arguments, seconds=_CHANGE_SECONDS)
    job.count(action)
    yield from _await(job, action.until, _SETTLE_SECONDS)


def _save(job: _StateJob) -> Turns:
    gib = job.connection.call(f"read the memory of {job.name}", job.dom.maxMemory) / 1024**2
    limit = _CHANGE_SECONDS + _SECONDS_PER_GIB * gib
    with backups.kept_away(job.connection, str(job.uuid)):
        job.connection.call(f"save {job.name}", job.dom.managedSave, 0, seconds=limit)
    yield from _await(job, OFF, _SETTLE_SECONDS)


def _start(job: _StateJob, action: StateAction) -> Turns:
    yield from _started(job, restored=isinstance(action, Restore))
    job.count(action)


def _started(job: _StateJob, *, restored: bool) -> Turns:
    connection = job.connection
    name = job.name
    read_rolling.require_startable(connection, name, force=job.wanted.force)
    try:
        connection.call(f"start {name}", job.dom.create, seconds=_CHANGE_SECONDS)
    except LibvirtFailure as error:
        if _state(job) in RUNNING:
            return  # another program was faster
        if restored:
            raise PlanRefused(
                f"{error}; its saved memory could not be restored. To boot it instead, which loses"
                f" what was not written to its disks: virsh managedsave-remove {name}"
            ) from None
        raise
    if restored and _state(job) in PAUSED:  # as when it was saved
        connection.call(f"resume {name}", job.dom.resume, seconds=_CHANGE_SECONDS)
    yield from _await(job, RUNNING, _SETTLE_SECONDS)


def _destroy(job: _StateJob) -> Turns:
    try:
        job.connection.call(f"destroy {job.name}", job.dom.destroy, seconds=_CHANGE_SECONDS)
    except LibvirtFailure as error:
        # it shut down by itself meanwhile, as wanted
        if error.code != ERR_OPERATION_INVALID or _state(job) != "shutoff":
            raise
    yield from _await(job, OFF, _SETTLE_SECONDS)


def _shut_down(job: _StateJob, *, ask: bool) -> Turns:
    """Ask the guest repeatedly until it is off; destroy it after the timeout if that is wanted."""
    name, wanted = job.name, job.wanted
    limit = time.monotonic() + wanted.shutdown_timeout
    asked, due = 0, 0.0 if ask else _NEVER
    while _state(job) not in OFF:
        now = time.monotonic()
        if now >= limit:
            break
        if now >= due:
            _ask(job, asked)
            asked, due = asked + 1, time.monotonic() + _AGAIN
        yield
    else:
        return
    if wanted.force:
        yield from _destroy(job)
        job.note = f"destroyed: it did not shut down within {wanted.shutdown_timeout:g} seconds"
        return
    raise PlanRefused(
        f"{name!r} did not shut down within {wanted.shutdown_timeout:g} seconds"
        f"{f' ({job.refusal})' if job.refusal else ''}; it needs a guest agent, or a program in the"
        " guest that handles its power button (ACPI). Shut it down from inside, give it more time"
        " (shutdown_timeout), or have it destroyed, which is like pulling the plug (force)"
    )


def _ask(job: _StateJob, turn: int) -> None:
    """One request to shut down: every other time by the agent, if one is connected, else by ACPI.

    An agent that does nothing must not prevent the power button from being pressed. A call through
    an agent lasts until the guest is off (virDomainShutdown), or a minute, so it runs in a thread
    with a connection of its own; few at a time, because a daemon has a limited number of workers.
    """
    connection, action = job.connection, f"shut down {job.name}"
    if connection.conn.getType() == _TEST:  # has no agents, and each connection its own domains
        connection.call(action, job.dom.shutdown)
        return
    waiting = job.asking is not None and job.asking.is_alive()
    if turn % 2 or waiting or not _AGENTS.acquire(blocking=False):
        try:
            connection.call(action, job.dom.shutdownFlags, _libvirt.DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
        except (LibvirtFailure, DeadlineExceeded) as error:
            job.refusal = str(error)
        return

    def ask() -> None:
        try:
            with _libvirt.calling(action):
                own = _libvirt.open_connection(connection.uri)
                own.lookupByUUIDString(str(job.uuid)).shutdown()
        except LibvirtFailure as error:
            job.refusal = str(error)
        finally:
            _AGENTS.release()

    job.asking = threading.Thread(target=ask, daemon=True)
    job.asking.start()


def _state(job: _StateJob) -> str:
    answer = job.connection.call(f"read the state of {job.name}", job.dom.state, 0)
    return state_name(answer[0])


def _await(job: _StateJob, states: tuple[str, ...], seconds: float) -> Turns:
    limit = time.monotonic() + seconds
    while True:
        state = _state(job)
        if state in states:
            return
        if time.monotonic() >= limit:
            raise PlanRefused(
                f"{job.name!r} is {state} after {seconds:g} seconds and not {states[0]}"
            )
        yield


def _shown(facts: StateFacts) -> dict[str, object]:
    shown: dict[str, object] = {"autostart": facts.autostart, "state": facts.state}
    shown.update({f"{name}s": facts.operations.count(name) for name in facts.operations})
    shown.update({"saved": True} if facts.managed_save else {})
    return {**shown, "seed_medium": facts.seed_medium} if facts.seed_medium else shown


_ACTIONS = (
    verb.Actions[_StateJob]()
    .simply(Autostart, lambda job: _autostart(job, 1))
    .simply(NoAutostart, lambda job: _autostart(job, 0))
    .simply(SeedMedium, _remove_medium)
    .on(Start, _start)
    .on(Restore, _start)
    .on(Boot, _start)
    .on(Resume, _call)
    .on(Wake, _call)
    .on(Suspend, _call)
    .simply(Save, _save)
    .simply(AwaitRunning, lambda job: _await(job, RUNNING, _CHANGE_SECONDS))
    .simply(DestroyCrashed, _destroy)
    .simply(Shutdown, lambda job: _shut_down(job, ask=True))
    .simply(AwaitOff, lambda job: _shut_down(job, ask=False))
)
for _operation in OPERATIONS.values():
    if issubclass(_operation.action, Call):
        _ACTIONS.on(_operation.action, _call)
