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
from dataclasses import dataclass, field

from ... import _libvirt
from ..._errors import DeadlineExceeded, LibvirtFailure, PlanRefused, error_message
from ..._libvirt import ERR_OPERATION_INVALID
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, is_saved, read_metadata, require_domains
from ..base.metadata import metadata_problems
from ..base.results import json_diff
from ..base.states import reason_name, state_name
from ..engine import effects_executor as executor
from ..engine import effects_lease_holder as owners
from ..engine.effects_executor import Turns
from ..engine.steps import Plan, Step, predict
from . import plan as state_plan
from . import start_order
from .plan import Facts, Wanted

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.results import Diff

_AGAIN = 10.0  # seconds after which a guest is asked again: it ignores requests while it boots
_POLL = 0.25
_CHANGE_SECONDS = 300.0  # what starting, restoring and destroying may take
_SECONDS_PER_GIB = 60.0  # that writing saved memory may take
_SETTLE_SECONDS = 30.0  # from the end of a call until libvirt shows the state
_AGENTS = threading.BoundedSemaphore(8)
_TEST = "TEST"  # libvirt's test driver
_NEVER = float("inf")


@dataclass
class _Job:
    """One domain and its result."""

    connection: Connection
    wanted: Wanted
    dom: VirDomain
    before: Facts
    after: Facts
    uuid: str
    plan: Plan[Facts] = field(default_factory=Plan)
    msg: str | None = None
    failed: bool = False
    not_tried: bool = False
    asking: threading.Thread | None = None  # a shutdown call that may not have returned
    problem: str = ""
    resets: int = 0
    reboots: int = 0

    def fail(self, msg: str) -> None:
        self.failed, self.msg = True, msg

    def do(self, step: Step[Facts]) -> Turns:
        yield from _step(self.connection, self, step, self.wanted)

    def undo(self, step: Step[Facts]) -> None:
        """Do nothing: the state it has reached is reported, and the next run goes on from there."""

    def finish(self) -> None:
        facts = read_facts(self.connection, self.dom)
        self.after = dataclasses.replace(facts, resets=self.resets, reboots=self.reboots)


def run(
    connection: Connection,
    names: t.Sequence[str],
    wanted: Wanted,
    *,
    check: bool,
    more: bool = False,
) -> dict[str, object]:
    """Bring ``names`` to ``wanted``, in their order of start; the module's result.

    Unless all of them can be brought to it, none is changed. ``more``: others follow these, so the
    delay of the last is waited for too.
    """
    jobs = [_plan(connection, dom, wanted) for dom in require_domains(connection, names).values()]
    if not check and any(job.before.phase for job in jobs):
        from ..engine import effects_lease as lease  # few VMs are being worked on

        lease.wait_for_others(connection, names)
        jobs = [_plan(connection, job.dom, wanted) for job in jobs]
    if check:
        for job in jobs:
            job.after = predict(job.before, job.plan.steps)
    if any(job.failed for job in jobs):
        for job in jobs:
            job.after, job.not_tried = job.before, bool(job.plan.steps) and not job.failed
    elif not check:
        _in_order(jobs, wanted, more)
    return _result(jobs)


def _in_order(jobs: t.Sequence[_Job], wanted: Wanted, more: bool) -> None:
    rounds = start_order.rounds(jobs, lambda job: job.before.order, wanted)
    for number, round_ in enumerate(rounds, 1):
        _carry_out(round_, wanted)
        failed = [job.before.name for job in round_ if job.failed]
        later = [job for after in rounds[number:] for job in after]
        if failed:
            for job in later:
                job.fail(start_order.not_begun(job.before.name, failed))
                job.not_tried = True
            return
        if later or more:
            time.sleep(start_order.delay((job.before, job.plan) for job in round_))


def look(
    connection: Connection, names: t.Collection[str], groups: t.Collection[str]
) -> dict[str, t.Any]:
    """Which of ``names``, and which domains in one of ``groups``, are here."""
    domains = [
        dom for name in dict.fromkeys(names) for dom in [find_domain(connection, name)] if dom
    ]
    if groups:
        domains += connection.call("list the domains", connection.conn.listAllDomains, 0)
    vms: dict[str, dict[str, t.Any]] = {}
    for dom in domains:
        stored = read_metadata(connection, dom)
        member = [] if stored is None else [str(group) for group in stored.groups]
        name = str(dom.name())
        if name in names or set(groups) & set(member):
            uuid, phase = str(dom.UUIDString()), stored.phase if stored else None
            order = stored.start_order if stored else None
            vms[name] = {
                **{"name": name, "uuid": uuid, "phase": phase, "groups": member},
                "start_order": order,
            }
    return {"changed": False, "vms": list(vms.values())}


def _carry_out(jobs: t.Sequence[_Job], wanted: Wanted) -> None:
    runs = [executor.Run(job.plan.steps, job) for job in jobs]
    executor.carry_out(runs)
    for job, done in zip(jobs, runs):
        if done.problem is not None:
            job.fail(error_message(done.problem))
        elif not state_plan.is_reached(job.after, wanted.end):
            job.fail(
                f"{job.after.name!r} is {job.after.state} ({job.after.reason}) and not"
                f" {wanted.end}, although every step succeeded; see"
                f" /var/log/libvirt/qemu/{job.after.name}.log on its hypervisor"
            )


def read_facts(connection: Connection, dom: VirDomain, *, media: bool = False) -> Facts:
    """Read the domain's current state; with ``media`` also whether its seed medium is consumed."""
    name = str(dom.name())

    def read() -> Facts:
        number, reason = dom.state(0)[:2]
        state = state_name(number)
        persistent = bool(dom.isPersistent())
        return Facts(
            name=name,
            state=state,
            reason=reason_name(state, reason),
            active=bool(dom.isActive()),
            persistent=persistent,
            autostart=persistent and bool(dom.autostart()),
        )

    facts: Facts = connection.call(f"read the state of {name}", read)
    stored = read_metadata(connection, dom)
    more: dict[str, t.Any] = {"managed_save": is_saved(connection, dom)}
    if stored is not None:
        more["broken"] = "; ".join(metadata_problems(name, stored)) or None
        more.update(holder=owners.holder(stored.owner) if stored.phase else None)
        more.update(phase=stored.phase, order=stored.start_order, delay=stored.start_delay or 0)
    if media and facts.state in state_plan.RUNNING and stored is not None and stored.host_key:
        from ..seeding import read_consumed as seed_consumed

        more["seed_medium"] = seed_consumed.medium(connection, dom, stored)
    return Facts(**{**vars(facts), **more})


def _plan(connection: Connection, dom: VirDomain, wanted: Wanted) -> _Job:
    facts = read_facts(connection, dom, media=True)
    job = _Job(connection, wanted, dom, facts, facts, str(dom.UUIDString()))
    job.plan = state_plan.plan(facts, wanted)
    refusals = job.plan.refusals or start_refusals(connection, dom, facts, job.plan)
    if refusals:
        job.plan = Plan(refusals=tuple(refusals))
        job.fail("; ".join(refusals))
    return job


def start_refusals(
    connection: Connection, dom: VirDomain, facts: Facts, plan: Plan[Facts]
) -> list[str]:
    """Why a start that ``plan`` has would fail; empty if it has none."""
    if not any(step.kind in state_plan.STARTS for step in plan.steps):
        return []
    from . import read_start_blockers as start_blockers  # few runs start something

    blockers = start_blockers.read(connection, dom)
    return [f"{facts.name!r} cannot start: {'; '.join(blockers)}"] if blockers else []


def _step(connection: Connection, job: _Job, step: Step[Facts], wanted: Wanted) -> Turns:
    dom, name, kind = job.dom, job.before.name, step.kind
    if kind in ("autostart", "no_autostart"):
        connection.call(f"set autostart of {name}", dom.setAutostart, int(kind == "autostart"))
    elif kind == "seed_medium":
        from ..seeding import effects_medium as seed_medium

        seed_medium.remove(connection, dom)
    elif kind in ("start", "restore", "boot"):
        yield from _start(connection, job, kind)
        job.reboots += kind == "boot"
    elif kind == "resume":
        connection.call(f"resume {name}", dom.resume, seconds=_CHANGE_SECONDS)
        yield from _await(connection, job, state_plan.RUNNING, _SETTLE_SECONDS)
    elif kind == "wake":
        connection.call(f"wake {name}", dom.pMWakeup, 0, seconds=_CHANGE_SECONDS)
        yield from _await(connection, job, state_plan.RUNNING, _SETTLE_SECONDS)
    elif kind == "reset":
        connection.call(f"reset {name}", dom.reset, 0, seconds=_CHANGE_SECONDS)
        job.resets += 1
        yield from _await(connection, job, state_plan.RUNNING, _SETTLE_SECONDS)
    elif kind == "suspend":
        connection.call(f"pause {name}", dom.suspend, seconds=_CHANGE_SECONDS)
        yield from _await(connection, job, state_plan.PAUSED, _SETTLE_SECONDS)
    elif kind == "save":
        gib = connection.call(f"read the memory of {name}", dom.maxMemory) / 1024**2
        limit = _CHANGE_SECONDS + _SECONDS_PER_GIB * gib
        connection.call(f"save {name}", dom.managedSave, 0, seconds=limit)
        yield from _await(connection, job, state_plan.OFF, _SETTLE_SECONDS)
    elif kind == "await_running":
        yield from _await(connection, job, state_plan.RUNNING, _CHANGE_SECONDS)
    elif kind == "destroy_crashed":
        yield from _destroy(connection, job)
    else:
        yield from _shut_down(connection, job, wanted, ask=kind == "shutdown")


def _start(connection: Connection, job: _Job, kind: str) -> Turns:
    name = job.before.name
    try:
        connection.call(f"start {name}", job.dom.create, seconds=_CHANGE_SECONDS)
    except LibvirtFailure as error:
        if _state(connection, job) in state_plan.RUNNING:
            return  # another program was faster
        if kind == "restore":
            raise PlanRefused(
                f"{error}; its saved memory could not be restored. To boot it instead, which loses"
                f" what was not written to its disks: virsh managedsave-remove {name}"
            ) from None
        raise
    if kind == "restore" and _state(connection, job) in state_plan.PAUSED:  # as when it was saved
        connection.call(f"resume {name}", job.dom.resume, seconds=_CHANGE_SECONDS)
    yield from _await(connection, job, state_plan.RUNNING, _SETTLE_SECONDS)


def _destroy(connection: Connection, job: _Job) -> Turns:
    try:
        connection.call(f"destroy {job.before.name}", job.dom.destroy, seconds=_CHANGE_SECONDS)
    except LibvirtFailure as error:
        # it shut down by itself meanwhile, as wanted
        if error.code != ERR_OPERATION_INVALID or _state(connection, job) != "shutoff":
            raise
    yield from _await(connection, job, state_plan.OFF, _SETTLE_SECONDS)


def _shut_down(connection: Connection, job: _Job, wanted: Wanted, *, ask: bool) -> Turns:
    """Ask the guest repeatedly until it is off; destroy it after the timeout if that is wanted."""
    name = job.before.name
    limit = time.monotonic() + wanted.shutdown_timeout
    asked, due = 0, 0.0 if ask else _NEVER
    while _state(connection, job) not in state_plan.OFF:
        now = time.monotonic()
        if now >= limit:
            break
        if now >= due:
            _ask(connection, job, asked)
            asked, due = asked + 1, time.monotonic() + _AGAIN
        yield
    else:
        return
    if wanted.force:
        yield from _destroy(connection, job)
        job.msg = f"destroyed: it did not shut down within {wanted.shutdown_timeout:g} seconds"
        return
    raise PlanRefused(
        f"{name!r} did not shut down within {wanted.shutdown_timeout:g} seconds"
        f"{f' ({job.problem})' if job.problem else ''}; it needs a guest agent, or a program in the"
        " guest that handles its power button (ACPI). Shut it down from inside, give it more time"
        " (shutdown_timeout), or have it destroyed, which is like pulling the plug (force)"
    )


def _ask(connection: Connection, job: _Job, turn: int) -> None:
    """One request to shut down: every other time by the agent, if one is connected, else by ACPI.

    An agent that does nothing must not prevent the power button from being pressed. A call through
    an agent lasts until the guest is off (virDomainShutdown), or a minute, so it runs in a thread
    with a connection of its own; few at a time, because a daemon has a limited number of workers.
    """
    action = f"shut down {job.before.name}"
    if connection.conn.getType() == _TEST:  # has no agents, and each connection its own domains
        connection.call(action, job.dom.shutdown)
        return
    waiting = job.asking is not None and job.asking.is_alive()
    if turn % 2 or waiting or not _AGENTS.acquire(blocking=False):
        try:
            connection.call(action, job.dom.shutdownFlags, _libvirt.DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
        except (LibvirtFailure, DeadlineExceeded) as error:
            job.problem = str(error)
        return

    def ask() -> None:
        try:
            with _libvirt.calling(action):
                own = _libvirt.open_connection(connection.uri)
                own.lookupByUUIDString(job.uuid).shutdown()
        except LibvirtFailure as error:
            job.problem = str(error)
        finally:
            _AGENTS.release()

    job.asking = threading.Thread(target=ask, daemon=True)
    job.asking.start()


def _state(connection: Connection, job: _Job) -> str:
    answer = connection.call(f"read the state of {job.before.name}", job.dom.state, 0)
    return state_name(answer[0])


def _await(connection: Connection, job: _Job, states: tuple[str, ...], seconds: float) -> Turns:
    limit = time.monotonic() + seconds
    while True:
        state = _state(connection, job)
        if state in states:
            return
        if time.monotonic() >= limit:
            raise PlanRefused(
                f"{job.before.name!r} is {state} after {seconds:g} seconds and not {states[0]}"
            )
        yield


def _result(jobs: t.Sequence[_Job]) -> dict[str, object]:
    refused = [job for job in jobs if job.failed]
    vms = [
        {
            "name": job.before.name,
            "uuid": job.uuid,
            "state": job.after.shown_state,
            "before": job.before.shown_state,
            "autostart": job.after.autostart,
            "changed": _changed(job),
            "steps": [step.text for step in job.plan.steps] if _changed(job) else [],
            "failed": job.failed,
            "not_tried": job.not_tried,
            "msg": job.msg,
        }
        for job in jobs
    ]
    result: dict[str, object] = {
        "changed": any(vm["changed"] for vm in vms),
        "vms": vms,
        "diff": [_diff(job) for job in jobs if _changed(job)],
    }
    if refused:
        result["failed"] = True
        result["msg"] = "; ".join(str(job.msg) for job in refused)
    return result


def _shown(facts: Facts) -> dict[str, object]:
    shown: dict[str, object] = {"autostart": facts.autostart, "state": facts.state}
    shown.update({"resets": facts.resets} if facts.resets else {})
    shown.update({"reboots": facts.reboots} if facts.reboots else {})
    shown.update({"saved": True} if facts.managed_save else {})
    return {**shown, "seed_medium": facts.seed_medium} if facts.seed_medium else shown


def _changed(job: _Job) -> bool:
    return _shown(job.before) != _shown(job.after)


def _diff(job: _Job) -> Diff:
    return json_diff(job.before.name, _shown(job.before), _shown(job.after))
