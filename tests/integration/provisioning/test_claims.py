# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims that the hypervisor which holds them may finish without anybody else being asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import fleet_seen
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note
from ansible_collections.fleet.virt.tests.integration.support import tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import Run
from ansible_collections.fleet.virt.tests.integration.support.documented import undocumented

from .conftest import Fleet

_HOSTS = ("hv1", "hv2")
_BLANK = {"memory": 64, "seed": False, "start": False}
_RUN = "4ff5bd3b-1a79-4f0a-b4a5-3a9a6f0f6f1e"
_AGAIN = "Read every hypervisor again, including the claims"
_DOMAIN = """
<domain type='qemu'><name>{name}</name><memory>65536</memory><os><type>hvm</type></os></domain>
"""


@pytest.fixture(scope="module")
def _trust(_fleet: Fleet) -> Iterator[None]:
    with tls.trusting(_fleet.lab, _HOSTS):
        yield


@pytest.fixture
def sure(_trust: None, fleet: Fleet) -> Fleet:
    """The fleet, whose hypervisors trust each other."""
    return fleet


def _seen(fleet: Fleet) -> list[dict[str, str]]:
    """The fleet as it is now, as virt_place hands it on."""
    read = fleet.ansible.module(
        "hypervisors", "virt_init", {"_work": {"stage": "read"}}, extra=fleet.variables
    )
    return [
        {
            "name": name,
            "address": fleet.lab.host(name).address,
            "uuid": read[name]["host"]["uuid"],
            "domains": fleet_seen.domains(read[name]["host"]["vms"]),
            "claims": note.claims_in(read[name]["host"]["notes"], _RUN),
        }
        for name in _HOSTS
    ]


def _claim(fleet: Fleet, seen: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    vms = [{"name": "web1", **_BLANK}]
    return fleet.init(
        "hv1", vms=vms, _work={"stage": "claim", "claimed_by": _RUN, "seen": seen}, **more
    )


def _phase(fleet: Fleet) -> str:
    return fleet.host("hv1", "virsh dumpxml --inactive web1 | grep -o 'phase>[a-z]*<' || true")


def test_a_fleet_that_is_what_it_was(sure: Fleet) -> None:
    result = _claim(sure, _seen(sure))
    assert result["finished"]
    assert result["vms"][0]["changed"]
    documented = {key: value for key, value in result.items() if key != "_work"}  # of a stage
    assert undocumented("virt_init", documented) == []
    assert _phase(sure) == ""
    assert sure.files("hv1") == ["web1_system.qcow2"]
    again = _claim(sure, _seen(sure))
    assert again["finished"]
    assert not again["changed"]


def _stay_claims(fleet: Fleet, seen: list[dict[str, str]], **more: Any) -> None:
    """Only claimed; what was claimed can be taken back."""
    result = _claim(fleet, seen, **more)
    assert not result["finished"]
    assert result["vms"][0]["changed"]
    assert "creating" in _phase(fleet)
    assert fleet.files("hv1") == []
    work = {"stage": "finish", "claimed_by": _RUN, "withdraw": ["web1"]}
    back = fleet.init("hv1", vms=[], _work=work)
    assert back["changed"]
    assert "web1" not in fleet.domains()["hv1"]


@pytest.mark.parametrize("host", _HOSTS)
def test_a_vm_came_meanwhile(sure: Fleet, host: str) -> None:
    seen = _seen(sure)
    sure.lab.ssh(host, "virsh define /dev/stdin", input=_DOMAIN.format(name="other"))
    _stay_claims(sure, seen)


def test_who_cannot_be_asked_is_asked_by_the_controller(sure: Fleet) -> None:
    """After each the fleet is again what was seen of it."""
    here, there = _seen(sure)
    for wrong in (
        {"uuid": "11111111-2222-4333-8444-555555555555"},  # another hypervisor
        {"address": "198.18.255.254"},  # where nobody is
        {"address": "hv2/system?no_verify=1#"},  # no address
    ):
        _stay_claims(sure, [here, {**there, **wrong}])
    _stay_claims(sure, [{**here, "name": "hv3"}, there])  # this one was not seen


def test_without_keys_nobody_is_asked(sure: Fleet) -> None:
    sure.host("hv1", f"mv {tls.CLIENT} {tls.CLIENT}.away")
    try:
        _stay_claims(sure, _seen(sure))
    finally:
        sure.host("hv1", f"mv {tls.CLIENT}.away {tls.CLIENT}")


def test_another_uri_is_not_what_others_are_asked_at(sure: Fleet) -> None:
    _stay_claims(sure, _seen(sure), uri="qemu:///system?socket=/run/libvirt/libvirt-sock")


def _again(run: Run) -> set[str]:
    return {event.status for event in run.events if event.task == _AGAIN}


def test_one_vm_takes_two_steps(sure: Fleet) -> None:
    """Of a batch for two hypervisors all claims are there before the first is finished."""
    one = {"name": "one", **_BLANK, "host": "hv1"}
    run = sure.provision(virt_vms=[one]).succeeded()
    assert _again(run) == set(), str(run)
    assert "one" in sure.domains()["hv1"]
    second = sure.provision(virt_vms=[one]).succeeded()
    assert all(not event.result.get("changed") for event in second.events), str(second)
    two = {"name": "two", **_BLANK, "host": "hv2"}
    both = sure.provision(virt_vms=[{**one, "name": "three"}, two]).succeeded()
    assert _again(both) == {"ok"}, str(both)
    assert sure.domains() == {"hv1": ["one", "three"], "hv2": ["two"]}


@pytest.mark.parametrize(("old", "new"), [("hv1", "hv2"), ("hv2", "hv1")])
def test_one_more_for_a_batch_that_is_there(sure: Fleet, old: str, new: str) -> None:
    """What is there as it is asked for is settled when it is read: one hypervisor claims."""
    vms = [{"name": "there", **_BLANK, "host": old}, {"name": "more", **_BLANK, "host": new}]
    sure.provision(virt_vms=vms[:1]).succeeded()
    run = sure.provision(virt_vms=vms).succeeded()
    assert _again(run) == set(), str(run)
    assert sure.domains() == {old: ["there"], new: ["more"]}
    shown = [
        vm["name"] for one in run.of("Show the VMs")["hv1"]["hypervisors"] for vm in one["vms"]
    ]
    assert shown == ["there", "more"]
    again = sure.provision(virt_vms=vms).succeeded()
    assert all(not event.result.get("changed") for event in again.events), str(again)


def test_where_nothing_is_to_be_done_hypervisors_are_read_and_no_more(sure: Fleet) -> None:
    vms = [{"name": f"on-{host}", **_BLANK, "host": host} for host in _HOSTS]
    sure.provision(virt_vms=vms).succeeded()
    for check in (True, False):
        run = sure.provision(check=check, virt_vms=vms).succeeded()
        done = {event.task for event in run.events if event.status == "ok"}
        assert done == {"Read every hypervisor", "Choose the hypervisors", "Show the VMs"}, str(run)
        assert all(not event.result.get("changed") for event in run.events), str(run)
        entries = [vm for one in run.of("Show the VMs")["hv1"]["hypervisors"] for vm in one["vms"]]
        assert [(vm["name"], vm["existed"], vm["steps"]) for vm in entries] == [
            ("on-hv1", True, []),
            ("on-hv2", True, []),
        ]


def test_what_fails_in_the_second_step_fails_the_play_and_leaves_nothing(sure: Fleet) -> None:
    """libvirt takes the definition, and qemu refuses it when it starts."""
    vm = {"name": "web1", "memory": 64, "seed": False, "cpu": {"model": "NoSuchCpu"}}
    run = sure.provision(virt_vms=[{**vm, "host": "hv1"}])
    assert run.returncode != 0
    message = run.of("Show the VMs")["hv1"]["msg"]
    assert message.startswith("web1 on hv1: "), message
    assert "NoSuchCpu" in message
    assert sure.domains() == {"hv1": [], "hv2": []}
    assert sure.files("hv1") == []


def test_a_mac_address_of_another_hypervisors_vm_is_refused(sure: Fleet) -> None:
    nic = {"name": "lan", "bridge": "br0", "mac": "52:54:00:aa:bb:cc"}
    first = {"name": "first", **_BLANK, "host": "hv2", "nic_profile": "none", "nics": [nic]}
    sure.provision(virt_vms=[first]).succeeded()
    second = {**first, "name": "second", "host": "hv1"}
    for check in (True, False):
        run = sure.provision(check=check, virt_vms=[second])
        assert run.returncode != 0
        assert (
            "second: MAC address 52:54:00:aa:bb:cc of 'lan' is already used by 'first' on hv2; give"
            " the NIC another"
        ) in run.of("Choose the hypervisors")["hv1"]["msg"]
    assert sure.domains() == {"hv1": [], "hv2": ["first"]}
    again = sure.provision(virt_vms=[first]).succeeded()
    assert all(not event.result.get("changed") for event in again.events), str(again)
