# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan, check mode and run of a change refuse the same, and what libvirt did not keep has failed.

On libvirt's test driver, for what does not depend on QEMU; the rest is in a laboratory
(``integration/provisioning/test_agreement.py``).
"""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import effects as init
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    effects_changing_steps as changing_steps,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    read_existing as existing,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    BatchSettings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import TakenVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_VM: dict[str, object] = {
    "name": "web1",
    "memory": 128,
    "seed": False,
    "start": False,
    "nics": [{"name": "eth0", "network": "lan"}],
    "disks": [{"name": "data", "format": "raw", "size": 2}],
}
_SETTINGS = BatchSettings("11111111-1111-4111-8111-111111111111", "hv1", {}, "base", machine="pc")


def _domains(options: dict[str, object]) -> list[Domain]:
    domains, problems = many([{**_VM, **options}], defaults=Defaults())
    assert problems == []
    return [dataclasses.replace(one, domain_type="test", arch="i686") for one in domains]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Machine]:
    """A hypervisor with the VM, created by this collection, which is off."""
    with Machines(tmp_path, monkeypatch).new() as found:
        assert not _provision(found, {})["failed"]
        yield found


def _provision(
    machine: Machine, options: dict[str, object], *, check: bool = False
) -> init.ProvisionEntry:
    domains = _domains(options)
    result = machine.call(lambda one: init.run(one, domains, _SETTINGS, stage="all", check=check))
    assert result is not None
    return result["vms"][0]


def _planned(machine: Machine, options: dict[str, object]) -> list[str]:
    domains = _domains(options)
    compared = machine.call(lambda one: existing.compare(one, domains, _SETTINGS))
    assert compared is not None
    return t.cast("list[str]", compared[0]["differences"])


def _refused(machine: Machine, options: dict[str, object]) -> str:
    """The reason that all three give."""
    (line,) = [one for one in _planned(machine, options) if "refused: " in one]
    predicted, real = (_provision(machine, options, check=check) for check in (True, False))
    assert predicted == real
    assert real["failed"]
    reason = line.partition("refused: ")[2]
    assert reason in str(real["msg"])
    return reason


def test_disk_in_no_active_pool_is_not_grown_while_the_vm_is_off(machine: Machine) -> None:
    wanted: dict[str, object] = {"disks": [{"name": "data", "format": "raw", "size": 4}]}
    assert _planned(machine, wanted) == ["disks.data.size 2 MiB -> 4 MiB"]
    pool = machine.connection.conn.storagePoolLookupByName("default")
    pool.destroy()
    reason = _refused(machine, wanted)
    assert "is in no active storage pool" in reason
    assert "start the VM" in reason


def test_volume_of_a_vm_undefined_by_hand_is_named_by_plan_and_run(machine: Machine) -> None:
    def taken() -> list[TakenVm] | None:
        return machine.call(lambda one: existing.taken(one, _domains({}), _SETTINGS))

    assert taken() == []
    machine.connection.conn.lookupByName("web1").undefine()
    entries = taken()
    assert entries is not None
    (entry,) = entries
    assert entry["name"] == "web1"
    assert len(entry["reasons"]) == 2
    assert "web1_data.raw already exists and does not belong to this VM" in entry["reasons"][1]
    reasons = "; ".join(entry["reasons"])
    predicted, real = (_provision(machine, {}, check=check) for check in (True, False))
    assert (predicted["msg"], real["msg"]) == (reasons, reasons)


def test_plan_refuses_what_its_hypervisor_has_no_room_for(machine: Machine) -> None:
    assert "memory" in _refused(machine, {"memory": 64 << 20})


def test_maximum_below_the_kept_vcpus_is_refused(machine: Machine) -> None:
    assert not _provision(machine, {"vcpus": 4})["failed"]
    assert "keeps vcpus 4" in _refused(machine, {"vcpus_max": 2})


def test_change_that_libvirt_does_not_keep_has_failed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = changing_steps.domains.define

    def define(connection: t.Any, action: str, xml: str, flags: int = 0) -> t.Any:
        assert "<title>Web</title>" in xml
        return real(connection, action, xml.replace("<title>Web</title>", ""), flags)

    monkeypatch.setattr(changing_steps.domains, "define", define)
    entry = _provision(machine, {"title": "Web", "description": "A server"})
    assert (entry["failed"], entry["changed"]) == (True, True)
    assert "title: requested Web, is none" in str(entry["msg"])
    assert "description" not in str(entry["msg"])
