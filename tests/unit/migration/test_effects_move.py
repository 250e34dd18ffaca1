# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole move, killed or failing at each of its effects, between two of libvirt's test drivers.

They cannot move a VM; that is done here as libvirt does it: it is defined there first, and goes
here last.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import CLAIM
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_backups
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_verb as verb
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.effects_executor import Turns
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import Step
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_job as migration_job,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_move as move,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_settle as settle,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    plan as migration_plan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    plan_steps as moving,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    read as facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.effects_jobs import (
    MigrationSettings,
    new_job,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.plan_steps import (
    EndpointState,
    MoveState,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.read_endpoints import (
    Endpoints,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import (
    Destination,
    MigrationDisk,
    MigrationOptions,
    MigrationPlan,
    NewVolume,
    Source,
    Target,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import read as noted
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines
from ansible_collections.fleet.virt.tests.unit._two_ends import FILES, UUID, Fleet, two_ends

_STATES = {1: "running", 3: "paused", 5: "shutoff"}


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr(settle, "_SETTLE", 0.05)
    monkeypatch.setattr(settle, "_POLL", 0.01)
    monkeypatch.setattr(migration_job, "clear", lambda _uuid: None)
    return Machines(tmp_path, monkeypatch)


@contextlib.contextmanager
def _before(machines: Machines, state: str) -> Iterator[Fleet]:
    """The VM on the first, which starts with it, and nothing of it on the second."""
    with two_ends(machines, None, None) as fleet:
        for name in FILES:
            pool = fleet.two.connection.conn.storagePoolLookupByName("default")
            pool.storageVolLookupByName(name).delete(0)
            (fleet.two.pool / name).unlink()
        fleet.two.connection.conn.lookupByName(f"web1{CLAIM}").undefine()
        fleet.define(fleet.one, state, None, "", autostart=True)
        yield fleet


def _held(machine: Machine) -> EndpointState | None:
    dom = machine.domains().get("web1")
    if dom is None:
        return None
    kept = machine.stored("web1")
    assert kept is not None
    state = _STATES[int(dom.state(0)[0])]
    before = kept.move and (kept.move.state, kept.move.autostart)
    coming = not dom.isPersistent()
    return EndpointState(
        state, bool(dom.autostart()), kept.phase, before, kept.evacuated_from, coming
    )


def _read(fleet: Fleet) -> MoveState:
    """What both ends have, by the paths that the source has."""
    claim = None
    if f"web1{CLAIM}" in fleet.two.domains():
        kept = fleet.two.stored(f"web1{CLAIM}")
        assert kept is not None
        claim = tuple((one.path, one.made) for one in kept.volumes)
    old, new = (
        frozenset(f"{fleet.one.pool}/{name}" for name in machine.files())
        for machine in (fleet.one, fleet.two)
    )
    return MoveState(_held(fleet.one), _held(fleet.two), claim, old, new)


def _compare(fleet: Fleet, patch: pytest.MonkeyPatch) -> list[str]:
    """Compare after each step of a move what it was to change with what there is; the steps that
    changed something else."""
    real, other = verb._Steps.do, list[str]()

    def do(steps: verb._Steps[t.Any], step: Step[MoveState]) -> Turns:
        wanted = step.effect(_read(fleet))
        yield from real(steps, step)
        if isinstance(steps.work, move.Moving) and not (
            steps.work.watched and steps.work.watched.error
        ):
            other.extend([] if _read(fleet) == wanted else [step.text])

    patch.setattr(verb._Steps, "do", do)
    return other


class Mover:
    """Moves the VM once."""

    def __init__(self, fleet: Fleet, *, arrives: bool = True) -> None:
        self.fleet, self.arrives = fleet, arrives
        self.job = new_job(fleet.one.connection, "web1", "hv1", Destination("hv2", "192.0.2.2"))

    def __call__(self, connection: Connection) -> str | None:
        """Why it has not moved; None if it has."""
        dom = connection.conn.lookupByName("web1")
        source = self.source(dom)
        found = self.plan(source)
        endpoints = self.fleet.endpoints(connection, self.job)
        works = move.Moving(
            *(self.fleet.two.connection, dom, source, self.target(), found),
            MigrationSettings("hv1", "base", MigrationOptions(), evacuating=True),
            settle.Settler(endpoints, self.job, keep_volumes=False),
            *("run", lambda: source, lambda _seconds: self.watched(dom)),
        )
        try:
            works.carry_out(moving.begin(source, found, "hv2", evacuating=True))
        except PlanRefused as error:
            return f"{type(error).__name__}: {error}"
        return None

    def source(self, dom: t.Any) -> Source:
        state = _STATES[int(dom.state(0)[0])]
        kept = self.fleet.one.stored("web1")
        assert kept is not None
        disks = tuple(
            MigrationDisk(one.target, "disk", "file", one.path, "raw", 4096, 4096, own=one)
            for one in kept.volumes
        )
        return Source(
            *("web1", UUID, "hv1", state, bool(dom.isActive()), True, bool(dom.autostart()), kept),
            *("test", "i686", "pc", 128, 1, disks),
        )

    def plan(self, source: Source) -> MigrationPlan:
        return MigrationPlan(
            volumes=[
                NewVolume(disk.target, "default", one.name, one.path, "raw", 4096, 0)
                for disk in source.disks
                if (one := disk.own) is not None
            ]
        )

    def target(self) -> Target:
        return Target(self.job.destination, "host-2", (), ())

    def watched(self, dom: t.Any) -> migration_job.Watched:
        """libvirt moves it, or says that it cannot."""
        fleet = self.fleet
        fleet.one.effects.next("libvirt begins to move it")
        if not self.arrives:
            return migration_job.Watched("the network is down")
        state, xml = _STATES[int(dom.state(0)[0])], dom.XMLDesc(2)
        new = fleet.two.connection.conn.defineXML(xml)
        new.create()
        if state == "paused":
            new.suspend()
        dom.destroy()
        fleet.one.effects.next("libvirt has it there, and defined here")
        dom.undefine()
        fleet.one.effects.next("libvirt has moved it")
        return migration_job.Watched()


def _move(fleet: Fleet, *, arrives: bool = True, **more: t.Any) -> tuple[Mover, str | None]:
    mover = Mover(fleet, arrives=arrives)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration_job, "start", lambda _uuid, _argv: None)
        other = _compare(fleet, patch)
        problem = fleet.one.call(mover, other=fleet.two, **more)
    assert other == []
    return mover, problem


@pytest.mark.parametrize("refused", [True, False])
def test_move_that_is_refused_leaves_no_note(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    places = {"hv2": "22222222-0000-4000-8000-000000000002.10000"}
    settings = MigrationSettings("hv1", "base", MigrationOptions(), places=places)

    def give_way(*_given: object) -> t.NoReturn:
        raise PlanRefused("it begins")

    with _before(machines, "shutoff") as fleet:
        mover = Mover(fleet)
        findings = ["hv2 has no TLS keys"] if refused else []
        source = mover.source(fleet.one.connection.conn.lookupByName("web1"))
        planned = dataclasses.replace(mover.plan(source), findings=findings)
        remote = fleet.two.connection
        monkeypatch.setattr(facts, "read_source", lambda *_given: source)
        monkeypatch.setattr(facts, "read_target", lambda *_given: mover.target())
        monkeypatch.setattr(facts, "read_pools", lambda *_given, **_more: ())
        monkeypatch.setattr(migration_plan, "plan", lambda *_given, **_more: planned)
        monkeypatch.setattr(effects_backups, "give_way", give_way)
        monkeypatch.setattr(Endpoints, "remote", lambda _ends: contextlib.nullcontext(remote))

        def move_all(connection: Connection) -> t.Any:
            same = contextlib.nullcontext(connection)
            monkeypatch.setattr(effects, "connect", lambda *_given: same)
            moves = [("web1", Destination("hv2", "192.0.2.2"), None)]
            return effects.run(connection, moves, settings, check=False)

        answer = fleet.one.call(move_all, other=fleet.two)
        assert answer is not None
        (vm,) = answer["vms"]
        assert vm["msg"] == ("hv2 has no TLS keys" if refused else "it begins")
        assert bool(noted.volumes(fleet.one.connection)) is not refused


def _there(fleet: Fleet, state: str, kept: t.Sequence[str] = ()) -> None:
    """It has moved, and nothing else is left but files that are ``kept``, as was said."""
    seen = _read(fleet)
    copied = frozenset(f"{fleet.one.pool}/{name}" for name in FILES)
    held = EndpointState(state, autostart=True, evacuated_from=("hv1",))
    assert seen == MoveState(None, held, None, seen.old & set(kept), copied)
    for machine in (fleet.one, fleet.two):
        assert [one for one in machine.faults() if "belongs to no VM" not in one] == []


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_each_step_changes_what_it_says(machines: Machines, state: str) -> None:
    with _before(machines, state) as fleet:
        before = _read(fleet)
        mover, why = _move(fleet)
        assert why is None
        _there(fleet, state)
        assert before.source is not None
    with _before(machines, state) as fleet:
        again = Mover(fleet)
        source = again.source(fleet.one.domains()["web1"])
        found = again.plan(source)
        steps = moving.begin(source, found, "hv2", evacuating=True)
        rest = moving.predicted(source, found, "hv2", keep_volumes=False, evacuating=True)
        said = [step.text for step in (*steps, *rest.steps)]
    names = [text.replace(str(fleet.one.pool), "") for text in said]
    done = [text.rpartition("/")[2] for text in mover.job.steps]
    assert [text.rpartition("/")[2] for text in names] == done


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_a_move_that_fails_leaves_it_as_it_was(machines: Machines, state: str) -> None:
    with _before(machines, state) as fleet:
        before = _read(fleet)
        _mover, why = _move(fleet, arrives=False)
        assert str(why).startswith("Undone: the network is down; 'web1' ")
        assert _read(fleet) == before


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_killed_at_each_effect_the_next_run_ends_it(machines: Machines, state: str) -> None:
    with _before(machines, state) as fleet:
        _move(fleet)
        effects = list(fleet.one.effects.done)
    assert len(effects) >= 14
    arrived = 0
    for number in range(1, len(effects) + 1):
        with _before(machines, state) as fleet:
            before = _read(fleet)
            _move(fleet, kill_at=number)
            where = f"killed before {fleet.one.effects.done[-1]!r} ({number})"
            seen = _read(fleet)
            marks = [one for one in (seen.source, seen.destination) if one and one.phase]
            if not marks:  # before the first of its marks, or after the last
                assert seen.source == before.source or seen.destination, where
            else:
                _job, why = fleet.settle()
                assert why is None or why.startswith("Undone: "), where
            if _read(fleet).destination is None:
                assert _read(fleet) == before, where
            else:
                _there(fleet, state)
                arrived += 1
    assert 5 <= arrived < len(effects)


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_failing_at_each_effect_it_is_where_it_was_or_has_moved(
    machines: Machines, state: str
) -> None:
    with _before(machines, state) as fleet:
        _move(fleet)
        effects = len(fleet.one.effects.done)
    for number in range(1, effects + 1):
        with _before(machines, state) as fleet:
            before = _read(fleet)
            kept: list[str] = []
            with contextlib.suppress(Exception):
                mover, _why = _move(fleet, fail_at=number)
                kept = [one.partition(": ")[0] for one in mover.job.kept]
            where = f"{fleet.one.effects.failed!r} ({number}) failed"
            seen = _read(fleet)
            if any(one and one.phase for one in (seen.source, seen.destination)):
                fleet.settle()
            if _read(fleet).destination is None:
                assert _read(fleet) == before, where
            else:
                _there(fleet, state, kept)
