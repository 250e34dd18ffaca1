# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Existing VMs that do not run: started if their request says so, told of otherwise.

Each condition is judged by check mode, by the comparison of the plan, by the run and by a second
run, on libvirt's test driver; the first two predict the third, and the fourth changes nothing.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_host as host
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_nwfilters as nwfilters,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_devices as devices,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import effects as init
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import fleet_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    read_creation as creation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    read_existing as existing,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    BatchSettings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import MadeVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import (
    read_start_blockers as start_blockers,
)
from ansible_collections.fleet.virt.plugins.module_utils._libvirt import (
    DOMAIN_XML_INACTIVE,
    DOMAIN_XML_SECURE,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_VM: dict[str, object] = {
    "name": "web1",
    "memory": 128,
    "seed": False,
    "nics": [{"name": "eth0", "network": "lan"}],
    "disks": [{"name": "data", "format": "raw", "size": 2}],
}
_SETTINGS = BatchSettings("11111111-1111-4111-8111-111111111111", "hv1", {}, "base", machine="pc")


def _domains(**options: object) -> list[Domain]:
    domains, problems = many([{**_VM, **options}], defaults=Defaults())
    assert problems == []
    return [dataclasses.replace(one, domain_type="test", arch="i686") for one in domains]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Machine]:
    """A hypervisor with the VM, created by this collection, which runs."""
    with Machines(tmp_path, monkeypatch).new() as found:
        result = found.call(
            lambda one: init.run(one, _domains(), _SETTINGS, stage="all", check=False)
        )
        assert result is not None
        assert result["vms"][0]["state"] == "running"
        yield found


def _provision(
    machine: Machine, *, check: bool = False, settings: BatchSettings = _SETTINGS, **options: object
) -> MadeVm:
    domains = _domains(**options)
    result = machine.call(lambda one: init.run(one, domains, settings, stage="all", check=check))
    assert result is not None
    (entry,) = result["vms"]
    assert result["changed"] == entry["changed"]
    return entry


def _planned(machine: Machine, **options: object) -> fleet_plan.PlannedVm:
    domains = _domains(**options)
    compared = machine.call(lambda one: existing.compare(one, domains, _SETTINGS))
    assert machine.effects.done == []
    answer = {
        "host": {"vms": [{"name": "web1", "uuid": None, "phase": None, "managed": True}]},
        "vms": compared,
    }
    (entry,) = fleet_plan.compare(["web1"], {"hv1": answer}, {}, "")
    return entry


def _run_all(machine: Machine, **options: object) -> tuple[MadeVm, fleet_plan.PlannedVm]:
    """The result, which check mode predicts and a second run repeats without a change."""
    planned = _planned(machine, **options)
    predicted = _provision(machine, check=True, **options)
    assert machine.effects.done == []
    real = _provision(machine, **options)
    assert real == predicted
    again = _provision(machine, **options)
    if not real["failed"]:
        assert not again["changed"]
        assert again["state"] == real["state"]
    assert fleet_plan.is_empty([planned]) == (
        not real["changed"] and planned.action != "start" and not real["failed"]
    )
    return real, planned


def _condition(machine: Machine, condition: str) -> None:
    dom = machine.domains()["web1"]
    if condition == "paused":
        dom.suspend()
    elif condition == "saved":
        dom.managedSave(0)
    elif condition == "shutoff":
        dom.destroy()


def test_vm_off_with_start_written_is_started(machine: Machine) -> None:
    _condition(machine, "shutoff")
    real, planned = _run_all(machine, start=True)
    assert (real["changed"], real["steps"], real["state"]) == (True, ["start"], "running")
    assert (planned.action, planned.details) == ("start", ("shut off, to be started",))
    assert machine.domains()["web1"].isActive()


def test_vm_saved_with_start_written_is_restored(machine: Machine) -> None:
    _condition(machine, "saved")
    real, planned = _run_all(machine, start=True)
    assert (real["steps"], real["state"]) == (["start from its saved memory"], "running")
    assert planned.details == ("saved, to be started from its saved memory",)
    assert not machine.domains()["web1"].hasManagedSaveImage(0)


@pytest.mark.parametrize("start", [{}, {"start": False}], ids=["not written", "false"])
@pytest.mark.parametrize(
    ("condition", "note"),
    [("shutoff", "shut off"), ("saved", "saved"), ("paused", "paused (user)")],
)
def test_vm_off_without_start_written_is_left_and_told(
    machine: Machine, condition: str, note: str, start: dict[str, object]
) -> None:
    _condition(machine, condition)
    as_requested = bool(start) and condition == "shutoff"
    real, planned = _run_all(machine, **start)
    assert (real["changed"], real["state"]) == (False, condition)
    assert real["note"] == (None if as_requested else note)
    assert (planned.action, planned.details) == ("unchanged", () if as_requested else (note,))


def test_vm_paused_with_start_written_stays_paused_and_differs(machine: Machine) -> None:
    _condition(machine, "paused")
    real, planned = _run_all(machine, start=True)
    assert (real["changed"], real["state"]) == (False, "paused")
    assert str(real["note"]).startswith("paused (user), and left so")
    assert planned.action == "start"


def test_vm_running_with_start_false_stays_running(machine: Machine) -> None:
    real, planned = _run_all(machine, start=False)
    assert (real["changed"], real["state"], planned.action) == (False, "running", "unchanged")
    assert str(real["note"]).startswith("running, and left so")


def test_vm_off_in_maintenance_is_left_with_the_reason(machine: Machine) -> None:
    _condition(machine, "shutoff")
    pool = machine.connection.conn.storagePoolLookupByName("base")
    name = host.MAINTENANCE_VOLUME
    pool.createXML(f"<volume><name>{name}</name><capacity>0</capacity></volume>", 0)
    real, planned = _run_all(machine, start=True)
    assert (real["changed"], real["state"]) == (False, "shutoff")
    assert real["note"] == "shut off, not started: its hypervisor is in maintenance"
    assert planned.action == "start"


def test_vm_off_is_changed_before_it_is_started(machine: Machine) -> None:
    _condition(machine, "shutoff")
    real, planned = _run_all(machine, start=True, title="Web server")
    assert real["steps"] == ["title none -> Web server", "start"]
    assert planned.action == "change"
    assert planned.details[-1] == "shut off, to be started"


def test_vm_off_with_disk_missing_is_refused_in_check_mode_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_blockers, "_QEMU", "TEST")
    _condition(machine, "shutoff")
    (machine.pool / "web1_data.raw").unlink()
    request: dict[str, object] = {"start": True, "disks": None}  # whose size would be read
    predicted = _provision(machine, check=True, **request)
    real = _provision(machine, **request)
    assert real == predicted
    assert real["failed"]
    assert not real["changed"]
    assert "web1_data.raw of its disk vdb does not exist" in str(real["msg"])
    planned = _planned(machine, **request)
    assert planned.action == "start"
    assert "does not exist" in planned.details[0]


def test_vm_that_libvirt_does_not_start_has_failed(machine: Machine) -> None:
    _condition(machine, "shutoff")
    domains = _domains(start=True)
    result = machine.call(
        lambda one: init.run(one, domains, _SETTINGS, stage="all", check=False), fail_at=1
    )
    assert result is not None
    (entry,) = result["vms"]
    assert machine.effects.failed == "start web1"
    assert (entry["failed"], entry["changed"], entry["state"]) == (True, False, None)
    assert "it was not started" in str(entry["msg"])


def test_vm_off_without_converging_is_refused(machine: Machine) -> None:
    _condition(machine, "shutoff")
    kept = dataclasses.replace(_SETTINGS, converge=False)
    for check in (True, False):
        entry = _provision(machine, check=check, settings=kept, start=True)
        assert entry["failed"]
        assert "shut off, to be started" in str(entry["msg"])
        assert not machine.domains()["web1"].isActive()


@pytest.mark.parametrize("phase", ["moving", "purging", "renaming"])
def test_vm_in_a_phase_is_not_started(machine: Machine, phase: str) -> None:
    _condition(machine, "shutoff")
    dom = machine.domains()["web1"]
    stored = lookup.read_metadata(machine.connection, dom)
    assert stored is not None
    begun = dataclasses.replace(stored, phase=phase)
    lookup.write_metadata(machine.connection, dom, begun, lookup.AFFECT_CONFIG)
    for check in (True, False):
        assert _provision(machine, check=check, start=True)["failed"]
        assert not dom.isActive()


def test_diff_of_a_start_is_the_state(machine: Machine) -> None:
    _condition(machine, "shutoff")
    domains = _domains(start=True)
    result = machine.call(lambda one: init.run(one, domains, _SETTINGS, stage="all", check=True))
    assert result is not None
    (diff,) = result["diff"]
    assert json.loads(diff["before"]) == {"state": "shutoff"}
    assert json.loads(diff["after"]) == {"state": "running"}


def test_start_needs_of_every_kind_are_named_when_missing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_blockers, "_QEMU", "TEST")
    monkeypatch.setattr(devices, "_VSOCK", "/nowhere/vhost-vsock")
    monkeypatch.setattr(nwfilters, "known", lambda _connection: ["clean-traffic"])
    _condition(machine, "shutoff")
    dom = machine.domains()["web1"]
    text = dom.XMLDesc(DOMAIN_XML_SECURE | DOMAIN_XML_INACTIVE)
    assert machine.call(lambda one: start_blockers.read(one, dom, text)) == []
    broken = (
        text.replace("network='lan'", "network='gone'")
        .replace("</os>", "<kernel>/nowhere/vmlinuz</kernel></os>")
        .replace(
            "</devices>",
            "<interface type='bridge'><source bridge='nobridge0'/><filterref filter='own'/>"
            "</interface><interface type='network'><source network='lan'/>"
            "<filterref filter='clean-traffic'/></interface><vsock model='virtio'/>"
            "<disk type='file' device='cdrom'><source file='/nowhere/a.iso'"
            " startupPolicy='optional'/><target dev='sdz'/></disk></devices>",
        )
    )
    problems = machine.call(lambda one: start_blockers.read(one, dom, broken))
    assert problems is not None
    assert [line.partition(";")[0] for line in problems] == [
        "/nowhere/vmlinuz of its kernel does not exist",
        "there is no bridge 'nobridge0' on its hypervisor",
        "its vsock device needs /dev/vhost-vsock",
        "there is no network filter 'own'",
        "there is no network 'gone'",
    ]
    machine.connection.conn.networkLookupByName("lan").destroy()  # type: ignore[attr-defined]
    (inactive,) = machine.call(lambda one: start_blockers.read(one, dom, text)) or []
    assert "virsh net-start lan" in inactive


@pytest.mark.parametrize("check", [True, False])
def test_new_vm_that_names_what_hypervisor_lacks_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    """A fragment, as what a copy gets of its source: nothing is claimed for it."""
    monkeypatch.setattr(creation, "_QEMU", "TEST")
    fragment = (
        "<domain><devices><input type='evdev'><source dev='/nowhere/event1'/></input></devices>"
        "</domain>"
    )
    named: dict[str, object] = {"kernel": "/nowhere/vmlinuz", "xml": fragment}
    made = _provision(machine, check=check, name="new1", **named)
    assert made["failed"]
    assert "names what hv1 lacks: /nowhere/vmlinuz of its kernel does not exist" in made["msg"]
    assert "/nowhere/event1 of its input does not exist" in made["msg"]
    assert "new1" not in machine.domains()
    assert not _provision(machine, check=True, name="new1")["failed"]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("second", "refused"),
    [
        ({}, True),
        ({"console": {"type": "vnc", "port": 5978}}, False),
        ({"start": False}, False),
    ],
)
def test_new_vms_with_the_same_fixed_port_are_not_both_made(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    second: dict[str, object],
    refused: bool,
    check: bool,
) -> None:
    """None of them runs when they are planned, so each alone would do."""
    monkeypatch.setattr(creation, "_QEMU", "TEST")
    port = {"console": {"type": "vnc", "port": 5977}}
    (first,) = _domains(name="new1", **port)
    (other,) = _domains(name="new2", **{**port, **second})
    result = machine.call(
        lambda one: init.run(one, [first, other], _SETTINGS, stage="all", check=check)
    )
    assert result is not None
    made = {vm["name"]: vm for vm in result["vms"]}
    assert not made["new1"]["failed"]
    assert made["new2"]["failed"] is refused
    if refused:
        assert "'new2' would have port 5977 of its vnc console, which 'new1' has that is made" in (
            made["new2"]["msg"] or ""
        )
        assert "new2" not in machine.domains()
