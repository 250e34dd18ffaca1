# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes, what stays and what is refused, each with its reason."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    Owner,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.leases import Holder
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.plan import (
    Belongings,
    DomainFacts,
    PurgeOptions,
    Removals,
    Removing,
    VolumeFacts,
    plan,
    steps,
)

DISK = OwnVolume("default", "web1_system.qcow2", "/pool/web1_system.qcow2", "system", "disk")
SEED = OwnVolume("default", "web1_seed.iso", "/pool/web1_seed.iso", "seed", "seed")
OWNER = Owner("boot", 4711, 1, "run")


def made(**changes: t.Any) -> Metadata:
    """Metadata as a creation writes them."""
    return Metadata(request="{}", **changes)


def domain(**changes: t.Any) -> DomainFacts:
    facts = DomainFacts(
        name="web1",
        uuid="u",
        state="shutoff",
        active=False,
        persistent=True,
        metadata=made(volumes=(DISK, SEED)),
        disks=((DISK.path, "a disk of it (vda)"), ("/base/b.qcow2", "a backing file")),
    )
    return dataclasses.replace(facts, **changes)


def volume(own: OwnVolume = DISK, **changes: t.Any) -> VolumeFacts:
    facts = VolumeFacts(
        own,
        pool_type="dir",
        pool_path="/pool",
        pool_active=True,
        path=f"/pool/{own.name}",
        kind="file",
        left_behind=True,
        size_mib=8192,
        attached=own.role == "disk",
    )
    return dataclasses.replace(facts, **changes)


def go(
    facts: DomainFacts | None = None,
    *volumes: VolumeFacts,
    **options: t.Any,
) -> Removals:
    return plan(facts or domain(), volumes or (volume(), volume(SEED)), PurgeOptions(**options))


def kinds(found: Removals) -> list[tuple[str, str | None]]:
    return [(item.kind, item.path) for item in found.removed]


def test_everything_of_its_own_goes_in_order_and_the_base_stays() -> None:
    everything = domain(
        managed_save=True,
        snapshots=("one", "two"),
        nvram="/nvram/web1.fd",
        nvram_own=True,
        logs=("/log/web1-console.log",),
    )
    found = go(everything)
    assert found.problems == []
    assert kinds(found) == [
        ("managed_save", None),
        ("volume", DISK.path),
        ("seed", SEED.path),
        ("log", "/log/web1-console.log"),
        ("snapshot", None),
        ("snapshot", None),
        ("nvram", "/nvram/web1.fd"),
        ("domain", None),
    ]
    assert found.removed[1].size_mib == 8192
    assert [kept.path for kept in found.kept] == ["/base/b.qcow2"]


# what is found of the disk, why it stays
STAYS: list[tuple[dict[str, t.Any], str]] = [
    # named by its metadata and no disk of it: whose it is, who uses it says
    ({"users": ("used by domain 'db1'",), "attached": False}, "used by domain 'db1'"),
    ({"kind": "link"}, "a link"),
    ({"kind": "directory"}, "a directory"),
    ({"kind": "other"}, "not a regular file"),
    ({"attached": False}, "no longer one of its disks"),
    ({"path": "/elsewhere/web1_system.qcow2"}, "at another place than when it was created"),
    ({"own": dataclasses.replace(DISK, pool="base")}, "base images"),
]


@pytest.mark.parametrize(("changes", "reason"), STAYS)
def test_what_stays(changes: dict[str, t.Any], reason: str) -> None:
    found = go(None, volume(**changes), volume(SEED))
    assert found.problems == []
    assert ("volume", DISK.path) not in kinds(found)
    assert reason in "; ".join(kept.reason for kept in found.kept)
    assert ("domain", None) in kinds(found)


# what is found of the disk, why nothing is removed
REFUSED: list[tuple[dict[str, t.Any], str]] = [
    ({"users": ("used by domain 'db1'",)}, "is needed by others: used by domain 'db1'"),
    ({"users": ("/pool/a lies on it", "/pool/b lies on it")}, "/pool/a lies on it; /pool/b lies"),
    ({"locked": True}, "in use (locked)"),
    ({"pool_active": False}, "pool-start"),
    ({"shared": True}, "purge_vm"),
    ({"own_overlays": ("/pool/web1.snap",), "attached": False}, "merge it first"),
    ({"path": None, "pool_path": None}, "define the pool again"),
]


@pytest.mark.parametrize(("changes", "reason"), REFUSED)
def test_what_is_refused_because_of_a_volume(changes: dict[str, t.Any], reason: str) -> None:
    found = go(None, volume(**changes))
    assert reason in "; ".join(found.problems)
    # it is its own, whatever speaks against removing it
    assert all("not made for" not in kept.reason for kept in found.kept if kept.path == DISK.path)


def test_what_came_under_the_name_of_a_dead_claim_stays_and_the_claim_goes() -> None:
    claim = domain(metadata=made(phase="creating", owner=OWNER, volumes=(DISK, SEED)))
    used = {"users": ("used by domain 'theirs'",), "locked": True, "shared": True}
    found = go(claim, volume(foreign=True, **used), volume(SEED))
    assert found.problems == []
    assert kinds(found) == [("seed", SEED.path), ("domain", None)]
    assert found.foreign == [DISK]
    reasons = {kept.path: kept.reason for kept in found.kept}
    assert reasons[DISK.path] == "a disk of it (vda), and not made for 'web1'"
    # marked, it names what is its own: the second look finds the same
    marked = domain(metadata=made(phase="purging", owner=OWNER, volumes=(SEED,)))
    again = go(marked, volume(SEED))
    assert (again.removed, again.kept) == (found.removed, found.kept)


def test_the_lock_of_the_domain_itself_is_no_obstacle() -> None:
    running = domain(state="running", active=True)
    assert go(running, volume(locked=True), force=True).problems == []


def test_shared_storage_after_the_others_were_asked() -> None:
    assert ("volume", DISK.path) in kinds(go(None, volume(shared=True, asked=True)))


def test_volumes_that_are_gone_are_no_obstacle() -> None:
    found = go(None, volume(kind="absent", left_behind=False), volume(SEED, kind="absent"))
    assert found.problems == []
    assert [kind for kind, _ in kinds(found)] == ["domain"]


def test_a_file_that_is_not_in_the_pool_stays() -> None:
    own = dataclasses.replace(DISK, name="../../etc/passwd", path="/etc/passwd")
    found = go(None, VolumeFacts(own, pool_path="/pool", pool_active=True, left_behind=True))
    assert found.problems == []
    assert [kind for kind, _ in kinds(found)] == ["domain"]
    assert "outside the pool" in found.kept[0].reason


def test_nvram_of_others_stays() -> None:
    found = go(domain(nvram="/etc/important", nvram_own=False))
    assert "nvram" not in dict(kinds(found))
    assert "/etc/important" in [kept.path for kept in found.kept]


HOLDER = Holder(4711, "python3", "2026-01-02 03:04:05 UTC")
DOMAINS: list[tuple[dict[str, t.Any], str | None]] = [
    ({}, None),
    ({"metadata": None}, "neither made nor adopted by this collection"),
    ({"state": "running", "active": True}, "vm_force=true"),
    ({"state": "paused", "active": True}, "(ansible-playbook fleet.virt.state -e vm_name="),
    ({"persistent": False}, "transient"),
    ({"external_snapshots": ("s1",)}, "external snapshots (s1)"),
    ({"metadata": made(phase="migrating")}, "phase migrating"),
    ({"metadata": made(phase="of-a-later-version")}, "phase of-a-later-version"),
    ({"metadata": made(phase="creating", owner=OWNER)}, None),
    ({"metadata": made(phase="purging", owner=OWNER)}, None),
    ({"metadata": made(phase="creating", owner=OWNER), "holder": HOLDER}, "process 4711"),
    ({"metadata": made(phase="purging", owner=OWNER), "holder": HOLDER}, "being removed"),
    ({"metadata": made(phase="seeding", owner=OWNER)}, None),
    ({"metadata": made(phase="seeding", owner=OWNER), "holder": HOLDER}, "being seeded"),
]


@pytest.mark.parametrize(("changes", "reason"), DOMAINS)
def test_domains_that_are_refused(changes: dict[str, t.Any], reason: str | None) -> None:
    found = go(domain(**changes))
    if reason is None:
        assert found.problems == []
    else:
        assert reason in "; ".join(found.problems)
        assert found.removed == found.volumes == []


# what is left by a seed that was given to a VM of somebody else's, at each moment of a call
SEEDED = [
    Metadata(volumes=(SEED,)),
    Metadata(volumes=(SEED,), seed="{}", user="ansible", host_key="ssh-ed25519 AAAA"),
    Metadata(volumes=(SEED, dataclasses.replace(SEED, name="web1_seed2.iso")), seed="{}"),
    Metadata(seed="{}", user="ansible", host_key="ssh-ed25519 AAAA"),
    Metadata(),
    # whoever may define domains may write this; a creation did not
    Metadata(volumes=(DISK, SEED), groups=("web",)),
    Metadata(volumes=(DISK,), phase="purging", owner=OWNER),
    Metadata(volumes=(DISK,), phase="creating", owner=OWNER),
]


@pytest.mark.parametrize("stored", SEEDED)
def test_a_domain_that_was_only_seeded_is_somebody_elses(stored: Metadata) -> None:
    assert not stored.made_here
    for changes in ({}, {"active": True, "state": "running"}):
        found = go(domain(metadata=stored, **changes), force=True)
        words = "virt_seed (state absent)" if stored.seed else "vm_adopt_disks=true"
        assert words in "; ".join(found.problems)
        assert found.removed == found.volumes == []
    same = dataclasses.replace(stored, phase=None, owner=None, request="{}")
    assert same.made_here
    assert go(domain(metadata=same)).problems == []


def test_force_is_for_what_runs_and_for_nothing_else() -> None:
    assert go(domain(state="running", active=True), force=True).problems == []
    assert go(domain(metadata=None), force=True).problems
    assert go(domain(external_snapshots=("s1",)), force=True).problems


def test_the_definition_which_names_the_rest_goes_last() -> None:
    facts = domain(managed_save=True, logs=("/log/web1",), nvram="/nvram/web1", nvram_own=True)
    found = steps(go(facts), facts)
    assert [type(step.action).__name__ for step in found] == [
        "Mark",
        "LookAgain",
        "ForgetMemory",
        "RemoveVolume",
        "RemoveVolume",
        "RemoveLog",
        "Undefine",
    ]
    actions = [step.action for step in found if isinstance(step.action, Removing)]
    assert len(actions) == len(found)
    removed = [[item.kind for item in action.removed] for action in actions]
    assert removed == [[], [], ["managed_save"], ["volume"], ["seed"], ["log"], ["nvram", "domain"]]
    assert [item for action in actions for item in action.removed] == go(facts).removed
    assert [step.irreversible for step in found] == [False, False, True, True, True, True, True]


def test_a_removal_that_was_killed_anywhere_is_finished_by_the_next() -> None:
    strange = OwnVolume("default", "web1_data.qcow2", "/pool/web1_data.qcow2", "data", "disk")
    named = made(volumes=(DISK, SEED, strange))
    facts = domain(
        metadata=named,
        managed_save=True,
        active=True,
        state="running",
        logs=("/log/web1", "/log/web1.0"),
        snapshots=("one",),
    )
    volumes = (volume(), volume(SEED), volume(strange, foreign=True))
    forced = PurgeOptions(force=True)
    before = Belongings(facts, volumes)
    first = steps(plan(facts, volumes, forced), facts)
    left = list(interrupted(before, first))
    assert len(left) == 2 * len(first) == 18
    for when, found in left:
        if found.domain is None:
            assert when == "after: undefine web1"
            continue
        again = plan(found.domain, found.volumes, forced)
        assert not again.problems, when
        after = predict(found, steps(again, found.domain))
        assert after.domain is None, when
        assert all(one.kind == "absent" for one in after.volumes), when
        # what is not known to be its own is touched by neither
        assert not [item for item in again.removed if item.path == strange.path], when
