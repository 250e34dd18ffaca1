# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of two VMs of one name is meant, for all verbs that take the name of its hypervisor."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.selected import Selected
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence

_SILENT = {"hv3": Silence("no route")}


def _vm(name: str, uuid: str, **more: t.Any) -> t.Any:
    return {"name": name, "uuid": uuid, "phase": None, "groups": [], **more}


_FLEET = {"hv1": [_vm("web1", "a"), _vm("web2", "b")], "hv2": [_vm("web1", "c")]}


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_vm_on_named_hypervisor_is_meant(host: str) -> None:
    there = located.locate(["web1"], _FLEET, {}, host=host)
    assert (there.problems, there.places["web1"][0]) == ([], host)
    decision = located.shares(Selected.of(["web1"], []), _FLEET, _SILENT, host)
    assert decision.shares == {host: ["web1"]}


@pytest.mark.parametrize(
    ("name", "host", "message"),
    [
        ("web1", "", "name its hypervisor: -e vm_host=hv1"),
        ("web1", None, "-e vm_host=hv2 -e vm_state=shutoff"),
        ("web2", "hv2", "hv2 has no VM 'web2'; it is on hv1"),
        ("web9", "hv2", "no hypervisor has a VM 'web9'"),
    ],
)
def test_vm_that_named_hypervisor_lacks_or_shares_is_refused(
    name: str, host: str | None, message: str
) -> None:
    with pytest.raises(PlanRefused, match=message):
        located.shares(Selected.of([name], []), _FLEET, {}, host)


def test_hypervisor_of_first_vm_is_not_taken_for_that_of_next() -> None:
    there = located.locate(["web2", "web1"], _FLEET, {}, host="hv1")
    assert {name: place for name, (place, _vm) in there.places.items()} == {
        "web2": "hv1",
        "web1": "hv1",
    }
    (problem,) = located.locate(["web2", "web1"], _FLEET, {}).problems
    assert "-e vm_host=hv2 -e vm_state=shutoff" in problem


def test_vm_of_silent_named_hypervisor_is_unproven() -> None:
    there = located.locate(["web1"], _FLEET, _SILENT, host="hv3")
    assert there.absent == ["web1"]
    assert "may be on one that did not" in there.problems[0]
    with pytest.raises(PlanRefused, match="vm_host: 'hv9' is not a hypervisor of this play"):
        located.locate(["web1"], _FLEET, _SILENT, host="hv9")


def test_other_end_of_move_is_still_seen_from_named_hypervisor() -> None:
    moving = {"hv1": [_vm("web1", "a")], "hv2": [_vm("web1", "a", phase="migrating")]}
    (problem,) = located.locate(["web1"], moving, {}, host="hv1").problems
    assert "with the same UUID, so it is being moved" in problem
