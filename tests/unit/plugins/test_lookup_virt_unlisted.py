# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup that tells whether the inventory has to be read again."""

from __future__ import annotations

import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible_collections.fleet.virt.plugins.lookup.virt_unlisted import LookupModule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work

WEB1 = {"ansible_host": "192.0.2.5"}
AT_5, AT_6 = {"name": "web1", "address": "192.0.2.5"}, {"name": "web1", "address": "192.0.2.6"}
NOWHERE = {"name": "web1", "address": None}


def look_up(vms: dict[str, t.Any], web1: dict[str, t.Any] | None) -> list[str]:
    hostvars: dict[str, dict[str, t.Any]] = {
        name: {"created": result} for name, result in vms.items()
    }
    if web1 is not None:
        hostvars["web1"] = web1
    variables = {
        "groups": {"all": list(hostvars)},
        "hostvars": hostvars,
        "ansible_play_hosts_all": list(vms),
    }
    return LookupModule(loader=DataLoader()).run(["created", "waited"], variables)


@pytest.mark.parametrize(
    ("vms", "web1", "expected"),
    [
        ([AT_5], WEB1, []),
        ([AT_6], WEB1, ["web1"]),
        ([AT_5], {}, ["web1"]),
        ([AT_5], None, ["web1"]),
        ([NOWHERE], None, ["web1"]),
        ([NOWHERE], {}, []),
        ([{"name": "web1"}], WEB1, []),
        ([{"name": "web2"}, {"name": "app1"}], WEB1, ["app1", "web2"]),
    ],
)
def test_unlisted(vms: list[t.Any], web1: dict[str, t.Any] | None, expected: list[str]) -> None:
    results = {"hv1": {"vms": vms}, "hv2": {"skipped": True}, "hv3": {}}
    assert look_up(results, web1) == expected


def test_vms_of_a_stage_of_a_playbook_are_read() -> None:
    answer = envelope.answered(Work("run", "virt_init", "claim"), {"vms": [NOWHERE]})
    assert look_up({"hv1": answer}, None) == ["web1"]
