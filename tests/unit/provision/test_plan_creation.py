# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what is there under a name to the VM that is asked for, whenever it is interrupted."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    BEGUN,
    NOT_MADE,
    Metadata,
    Owner,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    plan_creation as creation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.plan_creation import (
    EMPTY,
    FILLED,
    CreationFacts,
    CreationRequest,
    plan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import request
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import many

_DEAD = Owner("boot", 4711, 1, "dead")
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
_SYSTEM = OwnVolume("default", "web1_system.raw", "/pool/web1_system.raw", "system", "disk")
_DATA = OwnVolume("default", "web1_data.raw", "/pool/web1_data.raw", "data", "disk")
_MEDIUM = OwnVolume("default", "web1_seed.iso", "/pool/web1_seed.iso", "seed", "seed")


def wanted(**options: t.Any) -> CreationRequest:
    vm = {
        "name": "web1",
        "image": "small.raw",
        "memory": 128,
        "autostart": True,
        "seed": {"user": "admin", "ssh_public_keys": [_KEY], "method": "nocloud"},
        "disks": [
            {"name": "system", "format": "raw", "overlay": False},
            {"name": "data", "format": "raw", "size": 8},
        ],
        **options,
    }
    (domain,), problems = many([vm])
    assert problems == []
    seed = _MEDIUM if domain.seed is not None and domain.seed.method != "offline" else None
    own = (_SYSTEM, _DATA, *([seed] if seed else []))
    final = Metadata(volumes=own, request=request.to_text(domain))
    return CreationRequest(domain, "now", "hv1", final, (_SYSTEM, _DATA), seed)


def died(facts: CreationFacts) -> CreationFacts:
    """What the next run finds: the owner is dead, and what it made is known, or stays."""
    stored = facts.stored
    if stored is None or stored.owner is None:
        return facts
    made = {one.path: one.made for one in stored.volumes}
    stays = tuple(
        path
        for path, content in facts.files.items()
        if made.get(path, NOT_MADE) == NOT_MADE or (made[path] == BEGUN and content != EMPTY)
    )
    stored = dataclasses.replace(stored, owner=_DEAD)
    return dataclasses.replace(facts, stored=stored, stays=stays)


ASKED: dict[str, dict[str, t.Any]] = {
    "with a medium": {},
    "not started": {"start": False, "autostart": False},
    "written into its disk": {
        "seed": {"user": "admin", "ssh_public_keys": [_KEY], "method": "offline"}
    },
    "as its disk tells": {"seed": {"user": "admin", "ssh_public_keys": [_KEY], "method": "auto"}},
    "not seeded": {"seed": False},
}


@pytest.mark.parametrize("asked", ASKED)
def test_whenever_it_is_killed_the_next_run_ends_as_wanted(asked: str) -> None:
    this = wanted(**ASKED[asked])
    nothing = CreationFacts("web1")
    first = plan(nothing, this)
    assert first.refusals == ()
    final = predict(nothing, first.steps)
    assert final.stored is not None
    assert (final.stored.phase, final.stored.owner) == (None, None)
    assert (final.startable, final.state) == (True, "running" if this.domain.start else None)
    assert final.autostart == this.domain.autostart
    assert set(final.files) == {one.path for one in this.final.volumes}
    assert plan(final, this).steps == ()
    count = 0
    for where, found in interrupted(nothing, first.steps):
        _ends_as_wanted(died(found), this, final, where)
        # a run that mends it may be killed as well
        for again, half in interrupted(died(found), plan(died(found), this).steps):
            _ends_as_wanted(died(half), this, final, f"{where}, then {again}")
            count += 1
    assert count > 100


def _ends_as_wanted(
    found: CreationFacts, this: CreationRequest, final: CreationFacts, where: str
) -> None:
    again = plan(found, this)
    assert again.refusals == (), where
    assert predict(found, again.steps) == dataclasses.replace(final, stays=()), where
    if found.startable and found.stored is not None and found.stored.phase is not None:
        kinds = [type(step.action) for step in again.steps]
        assert kinds == [creation.Take, creation.StartCreated, creation.LetRun], where


def test_nobody_starts_what_is_not_whole_and_nothing_is_filled_that_is_not_known() -> None:
    this = wanted()
    for where, found in interrupted(CreationFacts("web1"), plan(CreationFacts("web1"), this).steps):
        if found.uuid is None:
            assert not found.files, where
            continue
        assert found.stored is not None
        made = {one.path: one.made for one in found.stored.volumes}
        if found.startable:
            assert set(found.files) == set(made), where
            assert found.files[_SYSTEM.path] == found.files[_MEDIUM.path] == FILLED, where
        for path, content in found.files.items():
            assert made[path] != NOT_MADE, where
            assert content == EMPTY or made[path] != BEGUN, where


def test_what_people_are_told() -> None:
    told = [
        "define web1",
        "create default/web1_system.raw",
        "create default/web1_data.raw",
        "create default/web1_seed.iso",
        "set autostart",
        "start",
    ]
    assert creation.texts(CreationFacts("web1"), wanted()) == told
    assert creation.texts(_left("creating"), wanted()) == told
    # what was claimed in one call and is made in another is one change
    assert creation.texts(_own(), wanted()) == told
    assert creation.texts(_left("starting"), wanted()) == ["start"]
    for method, text in (("auto", "seed web1"), ("offline", "write the seed into web1")):
        seed = {"user": "admin", "ssh_public_keys": [_KEY], "method": method}
        assert creation.texts(CreationFacts("web1"), wanted(seed=seed, start=False))[-2] == text


def _left(phase: str | None, **changes: t.Any) -> CreationFacts:
    this = wanted()
    stored = dataclasses.replace(this.final, phase=phase, owner=_DEAD)
    facts = CreationFacts("web1", "u", stored)
    return dataclasses.replace(facts, **changes)


def test_the_rest_of_a_dead_run_goes_before_the_name_is_claimed() -> None:
    kinds = [type(step.action) for step in plan(_left("creating"), wanted()).steps]
    assert kinds[:5] == [
        creation.Take,
        creation.ClearLeft,
        creation.UndefineLeft,
        creation.ClaimName,
        creation.BeginClaimed,
    ]


def _own(run: str = "now") -> CreationFacts:
    facts = _left("creating")
    assert facts.stored is not None
    reserved = dataclasses.replace(facts.stored, owner=Owner("boot", 0, 0, run))
    return dataclasses.replace(facts, stored=reserved)


def test_a_claim_of_this_run_is_finished() -> None:
    steps = plan(_own(), wanted()).steps
    kinds = [type(step.action) for step in steps]
    assert kinds[0] is creation.BeginClaimed
    assert not {creation.ClaimName, creation.ClearLeft, creation.Take} & set(kinds)
    assert isinstance(plan(_own("another"), wanted()).steps[0].action, creation.Take)


def _stored(**changes: t.Any) -> dict[str, t.Any]:
    stored = dataclasses.replace(wanted().final, **{"owner": _DEAD, **changes})
    return {"stored": stored}


# what is found, a part of the reason, whether its run is waited for
REFUSED: list[tuple[dict[str, t.Any], str, bool]] = [
    ({"uuid": None, "stored": None, "taken": ("/pool/web1_system.raw",)},
     "does not belong to this VM", False),
    ({"stored": None}, "was not made by this collection", False),
    (_stored(request=None), "was not made by this collection", False),
    (_stored(phase="migrating"), "is in phase migrating: another run", False),
    ({**_stored(phase="creating", request="{\"memory\": 1}"), "at_work": True},
     "is being created by another request (memory: requested 128, is 1)", False),
    (_stored(phase="creating", owner=None), "names no owner", False),
    ({**_stored(phase="creating"), "at_work": True}, "is being created by another run;", True),
    ({**_stored(phase="starting"), "at_work": True}, "is being created by another run;", True),
    ({**_stored(phase="changing"), "at_work": True}, "is being changed by another run", True),
    ({**_stored(phase="creating"), "stays": ("/pool/x: it has content",)},
     "left 'web1' incomplete, and the existing files with the names of its disks are not removed:"
     " /pool",
     False),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "reason", "waits"), REFUSED)
def test_what_is_refused_and_who_is_waited_for(
    changes: dict[str, t.Any], reason: str, waits: bool
) -> None:
    facts = _left(None, **changes)
    found = plan(facts, wanted())
    assert found.steps == ()
    assert reason in "; ".join(found.refusals)
    assert creation.waits(facts, wanted()) == waits


def test_what_is_there_is_not_created() -> None:
    for phase in (None, "changing"):
        found = plan(_left(phase), wanted())
        assert (found.steps, found.refusals) == ((), ())
