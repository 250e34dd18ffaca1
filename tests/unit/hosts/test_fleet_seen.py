# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import snapshot
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import fleet_seen


def _vm(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "uuid": f"uuid of {name}",
        "managed": True,
        "seeded": False,
        "phase": None,
        "run": None,
        "groups": ["web"],
        "anti_affinity": [],
        "macs": ["52:54:00:00:00:01"],
        "active": True,
        **more,
    }


_BEFORE = [_vm("one"), _vm("two")]


@pytest.mark.parametrize(
    "now",
    [
        pytest.param([_vm("one"), _vm("two")], id="nothing happened"),
        pytest.param([_vm("two"), _vm("one")], id="another order"),
        pytest.param([_vm("one", active=False), _vm("two")], id="one was shut off"),
        pytest.param([_vm("one", disks=["data"], targets=["vda"]), _vm("two")], id="its disks"),
        pytest.param([_vm("one", seeded=True), _vm("two")], id="one was given a host key"),
        pytest.param(
            [_vm("one"), _vm("two"), _vm("new", phase="creating", run="ours")], id="our own claim"
        ),
        pytest.param(
            [
                _vm("one"),
                _vm("two"),
                {k: v for k, v in _vm("new", run="ours").items() if k != "active"},
            ],
            id="our own claim, read from elsewhere",
        ),
    ],
)
def test_what_placing_does_not_mind(now: list[dict[str, Any]]) -> None:
    assert fleet_seen.domains(now, "ours") == fleet_seen.domains(_BEFORE)


@pytest.mark.parametrize(
    "now",
    [
        pytest.param([], id="all are gone"),
        pytest.param([_vm("one")], id="one is gone"),
        pytest.param([*_BEFORE, _vm("three")], id="one more"),
        pytest.param([*_BEFORE, _vm("new", phase="creating", run="theirs")], id="another's claim"),
        pytest.param([_vm("one"), _vm("three", uuid="uuid of two")], id="renamed"),
        pytest.param([_vm("one"), _vm("two", uuid="another")], id="made anew"),
        pytest.param([_vm("one"), _vm("two", macs=["52:54:00:00:00:02"])], id="another address"),
        pytest.param([_vm("one"), _vm("two", groups=[])], id="another group"),
        pytest.param([_vm("one"), _vm("two", anti_affinity=["web"])], id="keeps away from others"),
        pytest.param([_vm("one"), _vm("two", phase="migrating")], id="on its way"),
    ],
)
def test_what_placing_may_mind(now: list[dict[str, Any]]) -> None:
    assert fleet_seen.domains(now, "ours") != fleet_seen.domains(_BEFORE)


def test_when_placing_no_claim_is_ours() -> None:
    """Claims of runs that died are among what was seen."""
    claimed = [*_BEFORE, _vm("new", phase="creating", run=None)]
    assert fleet_seen.domains(claimed) != fleet_seen.domains(_BEFORE)


def test_key_that_only_the_hypervisor_itself_reads_does_not_count() -> None:
    """Another hypervisor reads a domain of it as DefinedEntry, and compares."""
    own = snapshot.PlacedEntry.__annotations__.keys() - snapshot.DefinedEntry.__annotations__.keys()
    assert {"active", "addresses"} <= own
    for key in sorted(own):
        with_it = [_vm("one", **{key: ["something"]}), _vm("two")]
        assert fleet_seen.domains(with_it) == fleet_seen.domains(_BEFORE), key
