# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the hypervisors of an inventory are reached."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers


def variables(**host: t.Any) -> dict[str, t.Any]:
    return {"groups": {"hypervisors": ["hv1"]}, "hostvars": {"hv1": host}}


@pytest.mark.parametrize(
    ("host", "address", "addresses"),
    [
        ({}, "hv1", ["hv1"]),
        ({"ansible_host": "192.0.2.1"}, "192.0.2.1", ["192.0.2.1"]),
        (
            {"ansible_host": "192.0.2.1", "virt_migration_address": "198.51.100.1"},
            "198.51.100.1",
            ["192.0.2.1", "198.51.100.1"],
        ),
        (
            {"ansible_host": "192.0.2.1", "virt_migration_address": "192.0.2.1"},
            "192.0.2.1",
            ["192.0.2.1"],
        ),
        ({"ansible_host": None, "virt_migration_address": ""}, "hv1", ["hv1"]),
    ],
)
def test_addresses(host: dict[str, t.Any], address: str, addresses: list[str]) -> None:
    assert _peers.address("hv1", variables(**host)) == address
    assert _peers.addresses("hv1", variables(**host)) == addresses


def test_names() -> None:
    assert _peers.names("hypervisors", variables()) == ["hv1"]
    assert _peers.names("nobody", variables()) == []
    assert _peers.names("hypervisors", {}) == []


def test_hypervisors_are_those_of_group_and_play() -> None:
    task_vars = {**variables(), "ansible_play_hosts_all": ["hv3", "hv1"]}
    assert _peers.hypervisors(task_vars) == ["hv1", "hv3"]
    assert _peers.hypervisors({}) == []


@pytest.mark.parametrize("name", ["hv1", "HV1", "hv2"])
def test_a_vm_does_not_take_a_hypervisors_name(name: str) -> None:
    """hv2 is not in the group, only in the play."""
    task_vars = {**variables(), "ansible_play_hosts_all": ["hv2"]}
    _peers.refuse_hypervisors(["web1", "hv3"], task_vars)
    with pytest.raises(PlanRefused, match="is the name of a hypervisor"):
        _peers.refuse_hypervisors(["web1", name], task_vars)
