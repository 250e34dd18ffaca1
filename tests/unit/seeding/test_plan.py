# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seeding an existing VM: refusals, what is told, and that it ends as wanted wherever it dies."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    BEGUN,
    Metadata,
    Owner,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.results import GENERATED
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import leases
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.leases import Holder
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    Step,
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.guest_image import Seeded
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import Seed
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import medium as seed_domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import plan as seeding
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.plan import (
    PHASE,
    Create,
    Insert,
    Note,
    SeedingFacts,
    WritableDisk,
    plan,
)

_DEAD = Owner("boot", 4711, 1, "dead")
_FIRST, _SECOND = (
    OwnVolume("default", name, f"/pool/{name}", "seed", "seed", "12.34")
    for name in ("web1_seed.iso", "web1_seed2.iso")
)
_SYSTEM = OwnVolume("default", "web1_system.raw", "/pool/web1_system.raw", "system", "disk", "1.2")
_DISK = WritableDisk("/pool/web1_system.raw", "raw")
_OTHER_DISK = WritableDisk("/pool/web1_data.raw", "qcow2")
_SEED, _OTHER = Seed("web1", commands=("true",)), Seed("other")
_ON_DISK = dataclasses.replace(_SEED, method="offline")
_AUTO = dataclasses.replace(_SEED, method="auto")
_MEDIUM: Seeded = {"method": "nocloud", "reason": "as set", "found": None}
_OFFLINE: Seeded = {"method": "offline", "reason": "as set", "found": None}
_MADE = Metadata(request=json.dumps({"name": "web1"}), volumes=(_SYSTEM,))
_FAILED = Metadata(first_boot="failed: it burnt", host_key="ssh-ed25519 old", volumes=(_SYSTEM,))


def _seeded(seed: Seed, *media: OwnVolume, stored: Metadata = _MADE) -> Metadata:
    """The metadata of a VM with that seed."""
    stored = seed_domain.with_record(stored, seed, "web1")
    volumes = (*stored.volumes, *media)
    return dataclasses.replace(stored, volumes=volumes, host_key="ssh-ed25519 old")


def _with(
    stored: Metadata | None, *files: OwnVolume, drive: bool = False, **more: t.Any
) -> SeedingFacts:
    """A VM, with the first of these media in its drive."""
    return SeedingFacts(
        "web1",
        stored,
        drive=files[0].path if drive else None,
        files=frozenset(one.path for one in files),
        **more,
    )


def _claim(seed: Seed) -> Metadata:
    """What an interrupted run left that was writing into the disk."""
    return dataclasses.replace(
        _seeded(seed), phase=PHASE, owner=_DEAD, host_key=None, first_boot="written"
    )


def _read(facts: SeedingFacts, seed: Seed | None) -> SeedingFacts:
    """What the next run reads: the owner is dead, and how it would be seeded if it will be."""
    stored = facts.stored
    if stored is not None and stored.phase is not None:
        facts = dataclasses.replace(facts, stored=dataclasses.replace(stored, owner=_DEAD))
    facts = dataclasses.replace(facts, chosen=None, pool="", volume=None, disks=())
    if seed is None or not seeding.needs_method(facts, seed):
        return facts
    if seed.method == "offline":
        return dataclasses.replace(facts, chosen=_OFFLINE, disks=(_DISK, _OTHER_DISK))
    volume = seeding.new_volume(facts, "default", "/pool/{}".format)
    return dataclasses.replace(facts, chosen=_MEDIUM, pool="default", volume=volume)


_CASES: dict[str, tuple[SeedingFacts, Seed | None, list[str]]] = {
    "the first seed of a VM of somebody else's": (
        _with(None),
        _SEED,
        ["create default/web1_seed.iso", "insert it into web1"],
    ),
    "another seed": (
        _with(_seeded(_OTHER, _FIRST), _FIRST, drive=True, started=False),
        _SEED,
        [
            *("create default/web1_seed2.iso", "insert it into web1"),
            "remove default/web1_seed.iso",
        ],
    ),
    "another seed, after a run that died": (
        _with(_seeded(_OTHER, _FIRST, _SECOND), _FIRST, _SECOND, drive=True),
        _SEED,
        [
            *("remove default/web1_seed2.iso", "create default/web1_seed2.iso"),
            *("insert it into web1", "remove default/web1_seed.iso"),
        ],
    ),
    "the same seed, whose medium is gone": (
        SeedingFacts("web1", _seeded(_SEED, _FIRST), drive=_FIRST.path),
        _SEED,
        [
            *("create default/web1_seed2.iso", "insert it into web1"),
            "remove default/web1_seed.iso",
        ],
    ),
    "the same seed, after a run that died": (
        _with(_seeded(_SEED, _FIRST, _SECOND), _SECOND, _FIRST, drive=True),
        _SEED,
        ["remove default/web1_seed.iso"],
    ),
    "the same seed": (_with(_seeded(_SEED, _FIRST), _FIRST, drive=True), _SEED, []),
    "the same seed, which was read": (_with(_seeded(_SEED), active=True), _SEED, []),
    "into its disks": (
        _with(_MADE),
        _ON_DISK,
        [f"write the seed into {disk.path}" for disk in (_DISK, _OTHER_DISK)],
    ),
    "into its disks, after a run that died": (
        _with(_claim(_ON_DISK)),
        _ON_DISK,
        [f"write the seed into {disk.path}" for disk in (_DISK, _OTHER_DISK)],
    ),
    "none, before it was read": (
        _with(_seeded(_SEED, _FIRST, _SECOND), _FIRST, _SECOND, drive=True, started=False),
        None,
        [
            *("remove default/web1_seed.iso", "remove default/web1_seed2.iso"),
            "clear the outcome of its first boot",
        ],
    ),
    "none, of a VM that runs": (
        _with(_seeded(_OTHER, _FIRST), _FIRST, drive=True, started=True, active=True),
        None,
        ["remove default/web1_seed.iso"],
    ),
    "a failed first boot is acknowledged": (
        _with(_FAILED, active=True),
        None,
        ["clear the outcome of its first boot"],
    ),
    "none, and there is none": (_with(_seeded(_OTHER), active=True), None, []),
}


def _unsafe(facts: SeedingFacts, before: SeedingFacts) -> list[str]:
    """What a kill must not leave."""
    stored, found = facts.noted, []
    if not facts.files <= {one.path for one in facts.media}:
        found.append("a file that nothing names")
    if facts.drive not in {None, before.drive} and facts.drive not in facts.files:
        found.append("a medium in the drive that is not there")
    if before.drive in before.files and facts.drive == before.drive not in facts.files:
        found.append("the medium is gone from under the drive")
    if facts.drive not in {None, before.drive} and stored.host_key != GENERATED:
        found.append("a medium with another host key")
    if (_SYSTEM in stored.volumes) is not (_SYSTEM in before.noted.volumes):
        found.append("a disk is no longer its own")
    return found


def _is_as_wanted(facts: SeedingFacts, seed: Seed | None) -> bool:
    named = {one.path for one in facts.media}
    if facts.noted.phase is not None or facts.noted.owner is not None:
        return False
    if seed is None:
        return not named and not facts.files and facts.noted.first_boot is None
    medium = set() if seed.method == "offline" or facts.drive is None else {facts.drive}
    record = seed_domain.recorded(facts.stored) == seed_domain.as_plain(seed, "web1")
    return record and named == facts.files == medium and facts.noted.host_key is not None


@pytest.mark.parametrize("case", _CASES)
def test_wherever_it_is_killed_the_next_run_ends_as_wanted(case: str) -> None:
    before, seed, _texts = _CASES[case]
    before = _read(before, seed)
    first = plan(before, seed)
    assert not first.refusals
    end = predict(before, first.steps)
    assert _is_as_wanted(end, seed)
    assert plan(_read(end, seed), seed).steps == ()
    for when, left in interrupted(before, first.steps):
        assert _unsafe(left, before) == [], when
        _ends_as_wanted(left, seed, end, when)
        again = _read(left, seed)
        for later, twice in interrupted(again, plan(again, seed).steps):
            assert _unsafe(twice, again) == [], f"{when}, then {later}"
            _ends_as_wanted(twice, seed, end, f"{when}, then {later}")


def _ends_as_wanted(left: SeedingFacts, seed: Seed | None, end: SeedingFacts, when: str) -> None:
    facts = _read(left, seed)
    again = plan(facts, seed)
    assert again.refusals == (), when
    after = predict(facts, again.steps)
    assert _is_as_wanted(after, seed), (when, after)
    assert after.noted.host_key == end.noted.host_key, when
    assert after.noted.first_boot == end.noted.first_boot, when
    assert _in_order(again.steps), when


def _in_order(steps: t.Sequence[Step[SeedingFacts]]) -> bool:
    """Whether no medium is inserted but one that was named, then created, in the same run."""
    kinds = [type(step.action).__name__ for step in steps]
    if "Insert" in kinds:
        actions = [step.action for step in steps]
        made = [one.volume for one in actions if isinstance(one, (Note, Create, Insert))]
        order = ("Generate", "Note", "Create", "LookAgain", "Insert")
        at = [kinds.index(kind) for kind in order]
        return at == sorted(at) and len(set(made)) == 1
    if "Write" in kinds:
        return kinds == ["Claim", "LookAgain", "Write", "LetStart"]
    return True


@pytest.mark.parametrize("case", _CASES)
def test_what_people_are_told(case: str) -> None:
    before, seed, texts = _CASES[case]
    before = _read(before, seed)
    assert seeding.texts(plan(before, seed).steps) == texts
    assert bool(plan(before, seed).steps) is bool(texts)


def test_a_claim_is_owned_and_refuses_another_seed() -> None:
    before = _read(_with(_MADE), _ON_DISK)
    steps = plan(before, _ON_DISK).steps
    for step in steps[:3]:
        before = step.effect(before)
        left = _read(before, _ON_DISK)
        other = dataclasses.replace(_ON_DISK, hostname="other")
        assert "with another seed" in plan(left, other).refusals[0], step
        assert "partially seeded; repeat" in plan(left, None).refusals[0], step
    done = steps[3].effect(before)
    assert (done.noted.host_key, done.noted.first_boot) == (GENERATED, "written")
    assert "was already seeded on its disk" in plan(_read(done, other), other).refusals[0]


@pytest.mark.parametrize(
    ("started", "active", "host_key"),
    [
        (False, False, None),
        *(
            (started, active, "ssh-ed25519 old")
            for started, active in ((True, False), (None, False))
        ),
        (False, True, "ssh-ed25519 old"),
    ],
)
def test_the_host_key_on_a_medium_goes_with_it_if_the_guest_has_not_read_it(
    started: bool | None, active: bool, host_key: str | None
) -> None:
    """Whenever the removal is killed: else the next seed would be refused."""
    before = _with(_seeded(_OTHER, _FIRST), _FIRST, drive=True, started=started, active=active)
    for when, left in interrupted(before, plan(before, None).steps):
        end = predict(left, plan(left, None).steps)
        assert end.noted.host_key == host_key, when
        assert bool(plan(_read(end, _SEED), _SEED).refusals) is (host_key is not None), when


def test_a_claim_is_never_taken_for_a_seed() -> None:
    odd = dataclasses.replace(_claim(_ON_DISK), host_key="ssh-ed25519 old")
    assert "was already seeded on its disk" in plan(_with(odd), _ON_DISK).refusals[0]


def test_a_volume_that_is_being_created_is_named_as_begun() -> None:
    before = _read(_with(None), _SEED)
    steps = plan(before, _SEED).steps
    at = [type(step.action) for step in steps].index(Create)
    named = predict(before, steps[:at])
    (torn, whole) = (torn(named) for torn in steps[at].torn)
    for facts in (named, torn):
        assert [one.made for one in facts.media] == [BEGUN]
    assert [one.made for one in whole.media] != [BEGUN]


def test_the_diff_is_made_of_what_is_before_and_after() -> None:
    facts, seed, _texts = _CASES["another seed"]
    facts = _read(facts, seed)
    after = predict(facts, plan(facts, seed).steps)
    assert seeding.shown(facts, seed) == {
        "media": [_FIRST.path],
        "seed": seed_domain.as_plain(_OTHER, "web1"),
    }
    assert seeding.shown(after, seed) == {
        "media": [_SECOND.path],
        "seed": seed_domain.as_plain(_SEED, "web1"),
    }
    assert seeding.shown(facts, None) == {"media": [_FIRST.path]}
    assert seeding.shown(_with(_claim(_ON_DISK)), _ON_DISK) == {"media": [], "seed": None}


def test_how_it_is_seeded_matters_only_if_it_is() -> None:
    assert seeding.needs_method(_with(None), _SEED)
    assert seeding.needs_method(_with(_claim(_ON_DISK)), _ON_DISK)
    for case in ("the same seed", "the same seed, after a run that died"):
        assert not seeding.needs_method(_CASES[case][0], _SEED)
    assert not seeding.needs_method(_with(None, active=True), _SEED)
    assert not seeding.needs_method(_with(None), None)


def test_no_medium_has_the_name_of_the_one_in_the_drive() -> None:
    for drive, name in ((None, _FIRST), (_FIRST.path, _SECOND), (_SECOND.path, _FIRST)):
        facts = SeedingFacts("web1", drive=drive)
        found = seeding.new_volume(facts, "default", "/pool/{}".format)
        assert found == dataclasses.replace(name, made="")
    odd = seeding.new_volume(SeedingFacts("a b/c"), "default", "/pool/{}".format)
    assert odd.name == "a_b_c_seed.iso"


_FULL = dataclasses.replace(_with(None), chosen=_MEDIUM, pool="default", volume=_FIRST)
_WRITTEN = dataclasses.replace(_with(None), chosen=_OFFLINE, disks=(_DISK, _OTHER_DISK))


@pytest.mark.parametrize(
    ("facts", "seed", "refusal"),
    [
        (
            _with(None, persistent=False),
            None,
            "'web1' is transient: it has no persistent definition; define it",
        ),
        *(
            (
                _with(Metadata(phase="creating")),
                seed,
                "'web1' is in phase creating: another run is working on it or was interrupted; let"
                " it end, or run it again to finish it, or remove the leftovers with virt_purge",
            )
            for seed in (_SEED, None)
        ),
        (
            _with(_claim(_ON_DISK)),
            None,
            "an interrupted run left 'web1' partially seeded; repeat that run, or recreate the VM",
        ),
        (
            _with(_claim(_ON_DISK), holder=Holder(4711, "python3", "2026-01-02 03:04:05 UTC")),
            _ON_DISK,
            leases.held("web1", "seeding", Holder(4711, "python3", "2026-01-02 03:04:05 UTC")),
        ),
        (
            _with(_claim(_ON_DISK)),
            _SEED,
            "an interrupted run left 'web1' partially seeded with another seed; repeat that run, or"
            " recreate the VM",
        ),
        (
            dataclasses.replace(_FULL, stored=_claim(_AUTO)),
            _AUTO,
            "an interrupted run left 'web1' partially seeded on its disk, and now it would be"
            " seeded with a medium (as set); change that and repeat the run, or recreate the VM",
        ),
        (
            _with(_seeded(_OTHER), active=True),
            _SEED,
            "'web1' is running, but a seed is only read at the first boot; shut it down first, for"
            " example with virt_state",
        ),
        (
            _with(None, saved=True),
            _SEED,
            "'web1' has the saved memory of a running system; start it and shut it down first",
        ),
        (
            _with(_seeded(dataclasses.replace(_OTHER, method="auto"))),
            _SEED,
            "'web1' was already seeded on its disk, and another seed would leave parts of that one;"
            " change it from inside, or recreate it with virt_purge and virt_init",
        ),
        *(
            (
                facts,
                _SEED,
                "'web1' was already seeded and has been started since; a guest only reads its seed"
                " at its first boot. Change it from inside, or recreate it with virt_purge and"
                " virt_init",
            )
            for facts in (
                _with(_seeded(_OTHER)),
                _with(_seeded(_OTHER, _FIRST), _FIRST, drive=True, started=True),
            )
        ),
        (
            dataclasses.replace(_FULL, pool="fast", volume=None),
            _SEED,
            "no pool 'fast' for the medium of 'web1'; specify one with pool, or create it with"
            " virt_pool",
        ),
        (
            dataclasses.replace(_FULL, taken=True),
            _SEED,
            "/pool/web1_seed.iso already exists and does not belong to this VM; refusing to"
            " overwrite it. Remove or rename it",
        ),
        (
            dataclasses.replace(_WRITTEN, stored=_seeded(_OTHER, _FIRST)),
            _ON_DISK,
            "'web1' has a seed medium; remove it first, with state absent, so that the VM has only"
            " one seed",
        ),
        (
            dataclasses.replace(_WRITTEN, disks=()),
            _ON_DISK,
            "'web1' has no file-based disk of its own that a seed could be written to",
        ),
        (
            dataclasses.replace(
                _WRITTEN, disks=(_DISK, dataclasses.replace(_OTHER_DISK, users=("a", "b")))
            ),
            _ON_DISK,
            "refusing to write to /pool/web1_data.raw: a, b; copy it first",
        ),
        (
            dataclasses.replace(_WRITTEN, disks=(dataclasses.replace(_DISK, locked=True),)),
            _ON_DISK,
            "/pool/web1_system.raw is in use by a running QEMU process; stop it first",
        ),
    ],
)
def test_each_refusal_has_its_reason(facts: SeedingFacts, seed: Seed | None, refusal: str) -> None:
    found = plan(facts, seed)
    assert found.refusals == (refusal,)
    assert found.steps == ()
