# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that are settled while a hypervisor is read: only those of which nothing is to be done."""

from __future__ import annotations

import base64
import dataclasses
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import effects as init
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    read_up_to_date as up_to_date,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    BatchSettings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import ProvisionWork
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_VM = {
    "name": "web1",
    "memory": 128,
    "seed": False,
    "start": False,
    "nics": [{"name": "eth0", "network": "lan"}],
    "disks": [{"name": "data", "format": "raw", "size": 2}],
}
_CD = {"name": "cd", "device": "cdrom", "image": "a.iso"}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Machine]:
    """A hypervisor with the VM, made by this collection, and with somebody else's."""
    domains, problems = many([_VM], defaults=Defaults())
    assert problems == []
    made = [dataclasses.replace(one, domain_type="test", arch="i686") for one in domains]
    settings = BatchSettings(
        "11111111-1111-4111-8111-111111111111", "hv1", {}, "base", machine="pc"
    )
    with Machines(tmp_path, monkeypatch).new() as found:
        done = found.call(
            lambda connection: init.run(connection, made, settings, stage="all", check=False)
        )
        assert done is not None
        assert done.get("msg") is None
        yield found


def _facts(machine: Machine, *vms: t.Mapping[str, object]) -> up_to_date.UpToDateResult:
    asked = base64.b64encode(json.dumps(vms).encode()).decode()
    params = {
        "base_pool": "base",
        "pool_paths": {},
        "disk_profiles": {},
        "nic_profiles": {},
        "pool": "default",
        "ssh_public_keys": [],
        "fleet": "",
        "fleet_cpu": None,
        "_asked": asked if vms else "",
        "_notes": "",
    }
    work = ProvisionWork(home="hv1")
    options = t.cast("up_to_date.Options", params)
    found = machine.call(lambda connection: up_to_date.facts(connection, options, work))
    assert found is not None
    assert machine.effects.done == []
    return found


def test_one_that_is_as_asked_for_is_settled(machine: Machine) -> None:
    facts = _facts(machine, _VM, {**_VM, "name": "elsewhere"}, {"name": "theirs", "memory": 64})
    (entry,) = facts["vms"]
    assert (entry["name"], entry["existed"], entry["changed"]) == ("web1", True, False)
    assert {vm["name"] for vm in facts["host"]["vms"]} > {"web1"}


def test_nobody_is_looked_for_unless_it_is_asked(machine: Machine) -> None:
    assert "vms" not in _facts(machine)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"title": "New"}, id="it differs"),
        pytest.param({"disks": [*_VM["disks"], _CD]}, id="a disk more"),  # type: ignore[misc]
        pytest.param({"memory": "much"}, id="written wrong"),
        pytest.param({"name": "elsewhere"}, id="it is not there"),
    ],
)
def test_every_doubt_is_left_to_who_claims(machine: Machine, other: t.Mapping[str, object]) -> None:
    assert _facts(machine, {**_VM, **other})["vms"] == []


def test_one_at_which_a_run_is_at_work_is_not_settled(machine: Machine) -> None:
    dom = machine.domains()["web1"]
    stored = lookup.read_metadata(machine.connection, dom)
    assert stored is not None
    for phase in ("changing", "moving"):
        changed = dataclasses.replace(stored, phase=phase)
        lookup.write_metadata(machine.connection, dom, changed, lookup.AFFECT_CONFIG)
        assert _facts(machine, _VM)["vms"] == []


def test_macs_that_existing_vm_gets_are_in_answer(machine: Machine) -> None:
    mac = "52:54:00:00:00:0a"
    more = [*t.cast("list[object]", _VM["nics"]), {"name": "eth1", "network": "lan", "mac": mac}]
    with_cd = [*t.cast("list[object]", _VM["disks"]), _CD]
    for asked in ({"nics": more}, {"nics": more, "disks": with_cd}):
        facts = _facts(machine, {**_VM, **asked})
        assert (facts["vms"], facts["added_macs"]) == ([], {"web1": [mac]})
    assert "added_macs" not in _facts(machine, {**_VM, "title": "New"})
    dom = machine.domains()["web1"]
    stored = lookup.read_metadata(machine.connection, dom)
    assert stored is not None
    begun = dataclasses.replace(stored, phase="changing")
    lookup.write_metadata(machine.connection, dom, begun, lookup.AFFECT_CONFIG)
    facts = _facts(machine, {**_VM, "nics": more})
    assert facts["added_macs"] == {"web1": [mac]}, "also where a run has died"
