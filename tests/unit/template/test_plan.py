# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copying disks into base images: what speaks against it, and every moment a kill may leave."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import steps
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import (
    plan as template_plan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template.plan import (
    Abort,
    Copy,
    Publish,
    Remove,
    Reset,
    TemplateDisk,
    TemplateFacts,
    TemplateRequest,
)

_DISKS = (TemplateDisk("vda", "/p/a.qcow2", "qcow2"), TemplateDisk("vdb", "/p/b.raw", "raw"))
_FACTS = TemplateFacts("web1", disks=_DISKS, targets=("vda", "vdb"))
_WANTED = TemplateRequest(template_plan.image_names("golden", _DISKS))


def test_the_first_disk_has_the_name_that_is_asked_for() -> None:
    assert _WANTED.images == {"vda": "golden", "vdb": "golden-vdb"}


def test_the_steps() -> None:
    plan = template_plan.plan(_FACTS, _WANTED)
    assert [type(step.action) for step in plan.steps] == [Copy, Reset, Publish, Publish]
    kept = template_plan.plan(_FACTS, dataclasses.replace(_WANTED, reset=False))
    assert [type(step.action) for step in kept.steps] == [Copy, Publish, Publish]


def test_an_image_that_is_there_is_left_even_if_its_vm_is_at_work() -> None:
    there = frozenset(_WANTED.images.values())
    facts = dataclasses.replace(_FACTS, present=there, phase="migrating")
    assert template_plan.plan(facts, _WANTED) == steps.Plan()


@pytest.mark.parametrize("active", [False, True])
def test_killed_anywhere_the_next_ends_it(active: bool) -> None:
    facts = dataclasses.replace(_FACTS, active=active, agent=active)
    plan = template_plan.plan(facts, _WANTED)
    wanted = steps.predict(facts, plan.steps)
    assert wanted.present == frozenset(_WANTED.images.values())
    seen = 0
    for where, left in steps.interrupted(facts, plan.steps):
        again = template_plan.plan(left, _WANTED)
        assert not again.refusals, where
        ended = steps.predict(left, again.steps)
        assert (ended.present, ended.left, ended.dead_backup) == (wanted.present, (), False), where
        assert template_plan.plan(ended, _WANTED) == steps.Plan(), where
        seen += 1
        kinds = [type(step.action) for step in again.steps]
        if left.dead_backup:  # who writes to the files goes before they do
            assert kinds[:2] == [Abort, Remove], where
    assert seen == (10 if active else 9)


@pytest.mark.parametrize(
    ("facts", "wanted", "said"),
    [
        ({"phase": "creating"}, {}, "phase creating"),
        ({"job": "bounded", "active": True}, {}, "a libvirt job running (bounded)"),
        ({"disks": (TemplateDisk("vda", None, "raw"),)}, {}, "neither a file nor a device"),
        ({"disks": (TemplateDisk("vda", "/a", "vmdk"),)}, {}, "vmdk"),
        (
            {"disks": (TemplateDisk("vda", "/a", "raw", shareable=True),)},
            {},
            "shared with other VMs",
        ),
        ({"disks": ()}, {}, "no disk that can be copied"),
        ({"disks": ()}, {"disk": "vdz"}, "it has: vda, vdb"),
        ({"active": True}, {"quiesce": "always"}, "not connected"),
        ({"resettable": False}, {}, "python3-guestfs"),
        ({"resettable": False}, {}, "setup_hypervisors -e libvirtd_guest_tools=true"),
    ],
)
def test_refused(facts: dict[str, t.Any], wanted: dict[str, t.Any], said: str) -> None:
    found = template_plan.plan(
        dataclasses.replace(_FACTS, **facts), dataclasses.replace(_WANTED, **wanted)
    )
    assert not found.steps
    assert len(found.refusals) == 1
    assert said in found.refusals[0]


@pytest.mark.parametrize("name", ["", "-x", "a/b", "a b", "x" * 101, "(generated)"])
def test_names_that_are_none(name: str) -> None:
    assert template_plan.image_problem(name) is not None
    assert template_plan.image_problem("web1-golden.2") is None


def test_disk_whose_data_are_in_another_file_is_named_in_the_step() -> None:
    disks = (dataclasses.replace(_DISKS[0], data="/p/a.data"), _DISKS[1])
    plan = template_plan.plan(dataclasses.replace(_FACTS, disks=disks), _WANTED)
    text = "copy vda, vdb of web1 (in one file: vda, whose data are in /p/a.data)"
    assert plan.steps[0].text == text
