# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_host_info on real hypervisors: the same as their own tools say."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.reading.conftest import HV1, Fleet
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.documented import undocumented


@pytest.fixture(scope="module")
def hosts(ansible: Ansible, fleet: Fleet) -> dict[str, dict[str, Any]]:
    """The answer of each hypervisor."""
    assert fleet.guests.made
    found = ansible.module("hypervisors", "virt_host_info")
    assert not any(answer["failed"] or answer["changed"] for answer in found.values()), found
    return {name: answer["host"] for name, answer in found.items()}


def test_every_key_is_documented(hosts: dict[str, dict[str, Any]], ansible: Ansible) -> None:
    """What is returned is what RETURN says."""
    for host in hosts.values():
        assert undocumented("virt_host_info", {"host": host}) == []
        assert "vms" not in host
    full = ansible.module("hv1", "virt_host_info", {"placement": True})["hv1"]["host"]
    assert undocumented("virt_host_info", {"host": full}) == []
    assert {one["name"] for one in full["vms"]} >= set(HV1)


@pytest.mark.parametrize("name", ["hv1", "hv2"])
def test_the_machine(hosts: dict[str, dict[str, Any]], fleet: Fleet, name: str) -> None:
    """Versions, memory and CPUs are what the host itself reports; it is known by its own uuid."""
    host, lab = hosts[name], fleet.guests.lab
    meminfo = fleet.guests.script(name, "grep -E '^(MemTotal|MemAvailable):' /proc/meminfo; nproc")
    total, _available, cpus = (line.split() for line in meminfo.splitlines())
    assert host["memory_mib"]["total"] == int(total[1]) // 1024
    assert 0 < host["memory_mib"]["free"] <= host["memory_mib"]["total"]
    cpu = host["cpu"]
    assert cpu["total"] == int(cpus[0])
    assert cpu["sockets"] * cpu["cores"] * cpu["threads"] >= cpu["total"]
    assert sum(cell["memory_mib"] for cell in host["numa"]) == host["memory_mib"]["total"]
    assert host["uuid"] == lab.host(name).uuid
    assert host["arch"] == "x86_64"
    assert "qemu" in host["domain_types"]
    versions = fleet.guests.virsh(name, "version")
    assert f"Using library: libvirt {host['libvirt_version']}" in versions
    assert f"Running hypervisor: QEMU {host['hypervisor_version']}" in versions


@pytest.mark.parametrize("name", ["hv1", "hv2"])
def test_bridges(hosts: dict[str, dict[str, Any]], name: str) -> None:
    """Also where libvirt's driver for interfaces is not installed (Debian 13)."""
    assert hosts[name]["bridges"] == ["br0"]


def test_promised(hosts: dict[str, dict[str, Any]], ansible: Ansible) -> None:
    """``running`` and ``defined`` are the sums over the domains."""
    domains = ansible.module("hv1", "virt_query")["hv1"]["domains"]
    host = hosts["hv1"]
    active = [one for one in domains if one["state"] in ("running", "paused")]
    assert host["cpu"]["running"] == sum(one["vcpus"] for one in active)
    assert host["cpu"]["defined"] == sum(one["vcpus_max"] for one in domains)
    assert host["memory_mib"]["running"] == sum(one["memory_max_mib"] for one in active)
    assert host["memory_mib"]["defined"] == sum(one["memory_max_mib"] for one in domains)


def test_domains_by_state(hosts: dict[str, dict[str, Any]]) -> None:
    """Every state is counted, those nobody is in as well."""
    counts = hosts["hv1"]["domains"]
    assert sum(counts.values()) == len(HV1)
    assert (counts["running"], counts["paused"], counts["shutoff"]) == (1, 1, 4)
    assert hosts["hv2"]["domains"]["crashed"] == 1
    assert hosts["hv1"]["errors"] == []


def test_pools_and_networks(hosts: dict[str, dict[str, Any]], fleet: Fleet) -> None:
    """An inactive pool is shown as what it is and hides nothing."""
    pools = {pool["name"]: pool for pool in hosts["hv1"]["pools"]}
    assert pools["cold"]["state"] == "inactive"
    assert pools["cold"]["path"] == "/srv/cold"
    default = pools["default"]
    assert (default["state"], default["type"]) == ("running", "dir")
    assert default["path"] == "/var/lib/libvirt/images"
    report = fleet.guests.virsh("hv1", "pool-info", "default", "--bytes")
    capacity = next(line.split()[1] for line in report.splitlines() if "Capacity" in line)
    assert default["capacity_mib"] == int(capacity) // 2**20
    networks = {network["name"]: network for network in hosts["hv1"]["networks"]}
    assert networks["lan"]["active"] is True
    assert (networks["lan"]["forward"], networks["lan"]["bridge"]) == ("bridge", "br0")


def test_maintenance_mark(ansible: Ansible, fleet: Fleet) -> None:
    """The mark is a volume of the base pool; a base pool that is inactive leaves it unknown."""
    virsh = "virsh -q -c qemu:///system"
    steps = {
        "without": f"mkdir -p /srv/marks; {virsh} pool-define-as marks dir --target /srv/marks;"
        f" {virsh} pool-start marks",
        "with": f"{virsh} vol-create-as marks fleet-virt.maintenance 0",
        "unknown": f"{virsh} pool-destroy marks",
    }
    tasks: list[dict[str, Any]] = []
    for label, command in steps.items():
        tasks.append({"name": f"make {label}", "ansible.builtin.shell": command})
        tasks.append({"name": label, "fleet.virt.virt_host_info": {"base_pool": "marks"}})
    try:
        run = ansible.play(tasks, "hv2", become=True).succeeded()
    finally:
        clean = f"{virsh} pool-destroy marks; {virsh} pool-undefine marks; rm -r /srv/marks"
        fleet.guests.lab.ssh("hv2", clean, check=False)
    found = {label: run.of(label)["hv2"] for label in steps}
    assert {label: answer["host"]["maintenance"] for label, answer in found.items()} == {
        "without": False,
        "with": True,
        "unknown": None,
    }
