# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What speaks against adopting a VM, which disks become its own, and that a kill leaves no half."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import export as described
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import plan as adopt_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption.plan import (
    AdoptionDisk,
    AdoptionFacts,
    AdoptionOptions,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.leases import Holder
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)

_XML = """<domain type='qemu'><name>a</name><memory>131072</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type></os><devices><disk type='file' device='disk'>
<driver name='qemu' type='qcow2'/><source file='/p/a.qcow2'/><target dev='vda' bus='virtio'/>
</disk></devices></domain>"""
_DESCRIBED = described.describe(
    described.DefinedDomain("a", _XML, sizes={"vda": 1 << 20}), described.Host()
)
_DISK = AdoptionDisk("vda", "/p/a.qcow2", pool="p", name="a.qcow2", kind="file", made="7")
_FACTS = AdoptionFacts(
    "a", "0-1", True, False, "shutoff", "", None, None, _DESCRIBED, disks=(_DISK,)
)
_OWN = OwnVolume("p", "a.qcow2", "/p/a.qcow2", "vda", "disk", "7")
_SEED = OwnVolume("p", "a_seed.iso", "/p/a_seed.iso", "sda", "seed")


def _facts(**more: t.Any) -> AdoptionFacts:
    return dataclasses.replace(_FACTS, **more)


@pytest.mark.parametrize("disks", [False, True])
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize(
    "stored", [None, Metadata(seed="{}", volumes=(_SEED,)), Metadata(request="{}", adopted="yes")]
)
def test_wherever_it_is_killed_the_next_run_ends_it(
    stored: Metadata | None, active: bool, disks: bool
) -> None:
    before, options = (
        _facts(active=active, stored=stored, live=stored),
        AdoptionOptions(disks=disks),
    )
    steps = adopt_plan.plan(before, options).steps
    wanted = predict(before, steps)
    assert wanted.stored is not None
    assert wanted.stored.made_here
    assert (_OWN in wanted.stored.volumes) == disks
    assert (_SEED in wanted.stored.volumes) == bool(stored and stored.volumes)
    assert adopt_plan.plan(wanted, options).steps == ()
    count = 0
    for _when, left in interrupted(before, steps):
        again = adopt_plan.plan(left, options)
        assert not again.refusals
        assert predict(left, again.steps) == wanted
        count += 1
    assert count == (4 if active else 2)


def test_what_was_its_own_stays_its_own_without_the_word() -> None:
    adopted = predict(_FACTS, adopt_plan.plan(_FACTS, AdoptionOptions(disks=True)).steps)
    assert adopt_plan.plan(adopted, AdoptionOptions()).steps == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {
                "stored": Metadata(phase="creating"),
                "holder": Holder(4711, "python3", "2026-01-02 03:04:05 UTC"),
            },
            "is being created by process 4711",
        ),
        ({"stored": Metadata(phase="migrating")}, "is in phase migrating"),
        ({"stored": Metadata(phase="of a later version")}, "is in phase of a later version"),
        ({"persistent": False}, "is transient"),
        ({"active": True, "job": "unbounded"}, "has a job running (unbounded)"),
        ({"active": True, "state": "paused", "reason": "migration"}, "like a VM being migrated in"),
        (
            {"description": described.Description(problems=("name: 'all' is ...",))},
            "cannot be adopted: name: 'all' is ...",
        ),
    ],
)
def test_refusals(change: dict[str, t.Any], words: str) -> None:
    plan = adopt_plan.plan(_facts(**change), AdoptionOptions())
    assert not plan.steps
    assert words in "; ".join(plan.refusals)


@pytest.mark.parametrize("holder", [Holder(4711, "python3", "2026-01-02 03:04:05 UTC"), None])
def test_lease_is_no_lasting_refusal(holder: Holder | None) -> None:
    """Or the VM would be refused before its run was waited for."""
    facts = _facts(stored=Metadata(phase="changing"), holder=holder)
    assert adopt_plan.plan(facts, AdoptionOptions()).refusals
    assert adopt_plan.lasting_refusals(facts) == []


def test_unusable_metadata_in_a_phase_are_a_lasting_refusal() -> None:
    broken = _facts(stored=Metadata(phase="changing", broken="owner: boot_id is missing"))
    (refusal,) = adopt_plan.lasting_refusals(broken)
    assert "its metadata cannot be used" in refusal
    assert adopt_plan.plan(broken, AdoptionOptions()).refusals == (refusal,)


def test_a_vm_that_was_made_here_is_left_alone() -> None:
    made = _facts(stored=Metadata(request="{}"), description=described.Description(problems=("x",)))
    plan = adopt_plan.plan(made, AdoptionOptions(disks=True))
    assert (plan.steps, plan.refusals) == ((), ())
    assert not adopt_plan.is_candidate(made.stored)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"path": None}, "not a file of this hypervisor"),
        ({"kind": "absent"}, "it is missing"),
        ({"kind": "link"}, "a link"),
        ({"kind": "other"}, "not a regular file"),
        ({"pool": None}, "in no active directory pool"),
        ({"pool": "base"}, "a base image"),
        ({"name": "a" * 64 + "-debian.qcow2"}, "a base image"),
        ({"shared": True}, "other hypervisors can reach"),
        ({"pool_id": "seen-elsewhere"}, "other hypervisors can reach"),
        ({"shareable": True}, "shareable"),
        ({"readonly": True}, "read-only"),
        ({"links": 2}, "2 names"),
        ({"users": ("/p/b.qcow2 lies on it",)}, "/p/b.qcow2 lies on it"),
        ({"users": ("used by domain 'b'",)}, "used by domain 'b'"),
        ({"locked": True}, "in use (locked)"),
        ({"target": "vdz"}, "not described"),
    ],
)
def test_a_disk_that_may_be_somebody_elses_is_never_taken(
    change: dict[str, t.Any], reason: str
) -> None:
    facts = _facts(disks=(dataclasses.replace(_DISK, **change),))
    options = AdoptionOptions(disks=True, shared_ids=("seen-elsewhere",))
    taken, kept = adopt_plan.sort_disks(facts, options)
    assert taken == []
    assert reason in kept[0].reason
    steps = adopt_plan.plan(facts, options).steps
    stored = predict(facts, steps).stored
    assert stored is not None
    assert stored.volumes == ()


def test_a_disk_is_taken_that_is_its_own_beyond_doubt() -> None:
    for disk, facts in (
        (_DISK, _FACTS),
        (dataclasses.replace(_DISK, locked=True), _facts(active=True)),
        (dataclasses.replace(_DISK, pool_id="of this one"), _FACTS),
    ):
        one = dataclasses.replace(facts, disks=(disk,))
        assert adopt_plan.sort_disks(one, AdoptionOptions(disks=True)) == ([_OWN], [])
        assert adopt_plan.sort_disks(one, AdoptionOptions()) == ([], [])
