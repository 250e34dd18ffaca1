# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes wrong with one VM, whatever it is, is that VM's failure and nobody else's."""

from __future__ import annotations

import errno
import typing as t
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused, error_message
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import Plan, Step
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects as migration,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import types
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.effects_jobs import (
    MigrationSettings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import Destination
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    effects_creation as creation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    plan_creation as creation_steps,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    CreationJob,
    Draft,
    Host,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import effects as purge
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import plan as purge_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.plan import (
    Belongings,
    DomainFacts,
    Mark,
    PurgeOptions,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import many
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import effects as state
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest

_FULL = OSError(errno.ENOSPC, "No space left on device", "/var/x")
_FAULTS = {
    "refused": (PlanRefused("it is so"), "it is so"),
    "disk full": (_FULL, "/var/x: No space left on device"),
    "defect": (ValueError("what"), "unexpected ValueError: what; this is a bug in fleet.virt"),
}


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect("test:///default", 10) as opened:
        yield opened


@pytest.mark.parametrize("name", _FAULTS)
def test_what_is_said(name: str) -> None:
    error, text = _FAULTS[name]
    assert error_message(error) == text


@pytest.mark.parametrize("name", _FAULTS)
def test_moving(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error, text = _FAULTS[name]

    def move(self: t.Any) -> None:
        if self.name == "bad":
            raise error
        self.job.changed = True

    monkeypatch.setattr(migration._Mover, "move", move)
    # libvirt's test driver serves as the hypervisor's own; neither end is asked for anything
    monkeypatch.setattr(migration, "connect", lambda *_a: connect("test:///default", 10))
    moves = [(name, Destination("hv2", "192.0.2.2"), None) for name in ("bad", "good")]
    here = Connection(None, "qemu:///system", 10)
    result = migration.run(
        here, moves, MigrationSettings("hv1", "base", types.MigrationOptions()), check=False
    )
    assert [(one["changed"], one["failed"], one["msg"]) for one in result["vms"]] == [
        (False, True, text),
        (True, False, None),
    ]
    assert result["failed"]


@pytest.mark.parametrize("name", _FAULTS)
def test_starting(name: str, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    error, text = _FAULTS[name]
    bad = connection.conn.defineXML(
        "<domain type='test'><name>bad</name><memory>131072</memory><os><type>hvm</type></os>"
        "</domain>"
    )
    real = state._started

    def started(job: t.Any, *, restored: bool) -> t.Any:
        if job.dom.name() == "bad":
            raise error
        yield from real(job, restored=restored)

    monkeypatch.setattr(state, "_started", started)
    connection.conn.lookupByName("test").destroy()
    result = state.run(connection, ["bad", "test"], StateRequest(state="running"), check=False)
    assert [(one["failed"], one["msg"]) for one in result["vms"]] == [(True, text), (False, None)]
    assert connection.conn.lookupByName("test").isActive()
    bad.undefine()  # the driver's default node is one for all


@pytest.mark.parametrize("name", _FAULTS)
def test_removing(name: str, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    error, text = _FAULTS[name]

    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setitem(purge._ACTIONS.ways, Mark, fail)
    domain = DomainFacts("bad", "u", "shutoff", False, True, None)
    plan = Plan(purge_plan.steps(purge_plan.Removals(), domain))
    settings = purge.PurgeSettings(PurgeOptions())
    job = purge._PurgeJob(connection, "bad", "u", Belongings(domain), plan, settings)
    purge._carry_out([job])
    assert job.problem == text


@pytest.mark.parametrize("name", _FAULTS)
def test_creating(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error, text = _FAULTS[name]

    def begin(job: CreationJob, _action: object) -> None:
        if job.name == "bad":
            raise error

    done, undone = [], []
    kinds = (
        creation_steps.BeginClaimed,
        creation_steps.RecordFiles,
        creation_steps.DefineFinal,
    )
    stages = creation_steps.MAKE, creation_steps.MAKE, creation_steps.BOOT
    steps = [
        Step[creation_steps.CreationFacts](
            kind(), kind.__name__, lambda before: before, stage=stage
        )
        for kind, stage in zip(kinds, stages)
    ]
    monkeypatch.setitem(creation._ACTIONS.ways, kinds[0], begin)
    for kind in kinds[1:]:
        monkeypatch.setitem(
            creation._ACTIONS.ways,
            kind,
            lambda job, _action: done.append((job.name, type(job.step.action))),
        )
    monkeypatch.setitem(
        creation._ACTIONS.ways_back, kinds[0], lambda job, _action: undone.append(job.name)
    )
    jobs = [_job(name, steps) for name in ("bad", "good")]
    creation.finish(jobs, "run")
    assert [(job.problem, job.altered) for job in jobs] == [(text, False), ("", True)]
    assert undone == ["bad"]
    assert done == [("good", kind) for kind in kinds[1:]]


def _job(name: str, steps: t.Sequence[Step[creation_steps.CreationFacts]]) -> CreationJob:
    (domain,), problems = many([{"name": name, "seed": False}])
    assert problems == []
    connection, host = t.cast("Connection", None), t.cast("Host", None)
    facts, plan = creation_steps.CreationFacts(name), Plan(tuple(steps))
    return CreationJob(connection, name, None, facts, plan, host, domain, Draft(domain))
