# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_query: a domain in every state and with every kind of device, on two hypervisors."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.reading.conftest import HV1, HV2, Fleet
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.documented import undocumented

Domains = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def answers(ansible: Ansible, fleet: Fleet) -> dict[str, dict[str, Any]]:
    """What ``ansible hypervisors -m fleet.virt.virt_query`` returns, with everything asked for."""
    assert fleet.guests.made
    found = ansible.module("hypervisors", "virt_query", {"addresses": True, "stats": True})
    assert not any(answer["failed"] or answer["changed"] for answer in found.values()), found
    return found


@pytest.fixture(scope="module")
def domains(answers: dict[str, dict[str, Any]]) -> Domains:
    """Every domain by its name."""
    return {one["name"]: one for answer in answers.values() for one in answer["domains"]}


def test_all_are_there_sorted_by_name(answers: dict[str, dict[str, Any]]) -> None:
    """Nobody is missing, and the order is always the same."""
    for host, expected in (("hv1", HV1), ("hv2", HV2)):
        names = [one["name"] for one in answers[host]["domains"]]
        assert names == sorted(names)
        assert set(expected) <= set(names)


@pytest.mark.parametrize(
    ("name", "state", "reason", "managed_save"),
    [
        ("web1", "running", "booted", False),
        ("paused1", "paused", "user", False),
        ("off1", "shutoff", "unknown", False),
        ("killed1", "shutoff", "crashed", False),
        ("saved1", "shutoff", "saved", True),
        ("crashed2", "crashed", "panicked", False),
    ],
)
def test_states(
    domains: Domains, fleet: Fleet, name: str, state: str, reason: str, managed_save: bool
) -> None:
    """States and reasons are libvirt's own; virsh says the same."""
    found = domains[name]
    assert (found["state"], found["reason"]) == (state, reason)
    assert found["managed_save"] is managed_save
    assert found["error"] is None
    host = "hv1" if name in HV1 else "hv2"
    words = {"shutoff": "shut off"}.get(state, state)
    assert fleet.guests.state(host, name) == f"{words} ({reason})"


def test_the_same_keys_for_every_domain(domains: Domains) -> None:
    """One shape, whatever the state."""
    assert {tuple(sorted(one)) for one in domains.values()} == {tuple(sorted(domains["web1"]))}


def test_every_key_is_documented(answers: dict[str, dict[str, Any]]) -> None:
    """What is returned is what RETURN says, down to the counters."""
    for host in ("hv1", "hv2"):
        result = {"domains": answers[host]["domains"]}
        assert undocumented("virt_query", result) == []


def test_size_and_flags(domains: Domains) -> None:
    """CPUs, memory and flags of the definition."""
    found = domains["web1"]
    assert (found["vcpus"], found["vcpus_max"]) == (2, 2)
    assert (found["memory_mib"], found["memory_max_mib"]) == (128, 128)
    assert found["autostart"] is True
    assert found["persistent"] is True
    assert domains["off1"]["autostart"] is False
    assert found["arch"] == "x86_64"
    assert found["machine"].startswith("pc-q35-")


def test_disks_of_every_kind(domains: Domains) -> None:
    """An overlay, a raw file outside any pool, a volume, a network disk, a drive without medium."""
    disks = {disk["target"]: disk for disk in domains["web1"]["disks"]}
    seen = {
        target: (disk["type"], disk["device"], disk["format"], disk["source"], disk["size_mib"])
        for target, disk in disks.items()
    }
    images = "/var/lib/libvirt/images"
    assert seen == {
        "vda": ("file", "disk", "qcow2", f"{images}/web1.qcow2", 48),
        "vdb": ("file", "disk", "raw", "/srv/raw/web1.raw", 8),
        "vdc": ("volume", "disk", "qcow2", "default/web1-c.qcow2", 12),
        "vdd": ("network", "disk", "raw", "nbd://127.0.0.1:10809/test", 8),
        "sda": ("file", "cdrom", None, None, None),
    }
    assert disks["vda"]["backing"] == f"{images}/tiny.qcow2"
    assert (disks["vda"]["pool"], disks["vda"]["volume"]) == ("default", "web1.qcow2")
    assert (disks["vdc"]["pool"], disks["vdc"]["volume"]) == ("default", "web1-c.qcow2")
    assert disks["vdb"]["pool"] is None
    assert disks["vdb"]["allocation_mib"] == 0
    assert disks["sda"]["readonly"] is True
    assert domains["web1"]["error"] is None


@pytest.mark.parametrize("name", ["off1", "saved1", "paused1"])
def test_the_backing_file_is_known_in_every_state(domains: Domains, name: str) -> None:
    """libvirt states it for running domains only; the rest is read from the image."""
    (disk,) = domains[name]["disks"]
    assert disk["backing"] == "/var/lib/libvirt/images/tiny.qcow2"
    assert (disk["pool"], disk["size_mib"], disk["allocation_mib"]) == ("default", 48, 1)


def test_five_nics(domains: Domains) -> None:
    """Each NIC with what it is connected to; addresses where the agent tells them."""
    nics = domains["web1"]["nics"]
    assert [(nic["type"], nic["source"], nic["model"], nic["link"]) for nic in nics] == [
        ("bridge", "br0", "virtio", "up"),
        ("bridge", "br0", "virtio", "up"),
        # of a running domain libvirt says what the network made of it
        ("bridge", "br0", "virtio", "up"),
        ("user", None, "e1000e", "down"),
        ("ethernet", None, "virtio", "up"),
    ]
    assert nics[4]["target"] == "tapweb1"
    assert len({nic["mac"] for nic in nics}) == 5
    assert all(nic["addresses"] for nic in nics[:3])


def test_addresses_are_those_of_the_laboratory(domains: Domains, fleet: Fleet) -> None:
    """The agents' answers are the DHCP server's leases."""
    leases = {mac: address for mac, address, *_ in reversed(fleet.guests.lab.leases())}
    for name in ("web1", "web2"):
        nic = domains[name]["nics"][0]
        assert nic["addresses"] == [leases[nic["mac"]]]
        assert ipaddress.ip_address(nic["addresses"][0]) in fleet.guests.lab.network
        assert domains[name]["agent"] is True
    assert domains["off1"]["nics"][0]["addresses"] == []


def test_all_graphics_and_consoles(domains: Domains) -> None:
    """Two graphics, not the last of them; ports that are really listening."""
    vnc, spice = domains["web1"]["graphics"]
    assert (vnc["type"], vnc["listen"]) == ("vnc", "127.0.0.1")
    assert (spice["type"], spice["listen"]) == ("spice", "127.0.0.1")
    assert vnc["port"] >= 5900
    assert spice["port"] >= 5900
    assert vnc["port"] != spice["port"]
    serial, virtio = domains["web1"]["consoles"]
    assert (serial["target"], virtio["target"]) == ("isa-serial", "virtio")
    assert serial["log"] == "/var/log/fleet-virt-test/web1.log"


def test_snapshots(domains: Domains) -> None:
    """In the order they were made, the current one marked."""
    found = domains["off1"]["snapshots"]
    assert [(one["name"], one["current"]) for one in found] == [("first", False), ("second", True)]
    assert all(one["state"] == "shutoff" and one["created"] > 1.7e9 for one in found)
    assert domains["web1"]["snapshots"] == []


def test_counters(domains: Domains) -> None:
    """CPU, memory, NICs and disks of what runs."""
    stats = domains["web1"]["stats"]
    assert stats["cpu"]["time_ns"] > 1e8
    assert stats["memory"]["actual_mib"] == 128
    assert stats["memory"]["rss_mib"] > 50
    assert {disk["target"] for disk in stats["disks"]} >= {"vda", "vdb", "vdc", "vdd"}
    assert next(d for d in stats["disks"] if d["target"] == "vda")["read_bytes"] > 1e6
    assert stats["nics"][0]["target"] == domains["web1"]["nics"][0]["target"]
    assert stats["nics"][0]["receive_bytes"] > 0


def test_what_cannot_be_read_is_in_its_own_entry(domains: Domains) -> None:
    """A file that is no image, a device that is gone, a volume of an inactive pool: named."""
    found = domains["broken1"]
    assert found["state"] == "shutoff"
    assert [disk["size_mib"] for disk in found["disks"]] == [None, None, None]
    assert "disk vda: the file is not a qcow2 image" in found["error"]
    assert "disk vdb: /dev/fleet/gone: No such file or directory" in found["error"]
    assert "disk vdc: pool cold is not active" in found["error"]
    assert found["disks"][2]["pool"] == "cold"


def test_what_a_guest_says_is_data(domains: Domains, fleet: Fleet) -> None:
    """A lookup in title, description, metadata and host name comes out as it went in."""
    found = domains["web2"]
    evil = fleet.evil("evil")
    assert (found["title"], found["description"]) == (evil, evil)
    assert found["metadata"]["groups"] == [evil, "web"]
    assert found["metadata"]["managed"] is True
    assert domains["web1"]["metadata"]["managed"] is False
    assert not fleet.trap.exists()


def test_names_choose(ansible: Ansible, fleet: Fleet) -> None:
    """``names`` in any order, with one more or less; without the extras that were not asked for."""
    assert fleet.guests.made
    found = ansible.module("hv1", "virt_query", {"names": ["web1", "off1", "web1"]})["hv1"]
    assert [one["name"] for one in found["domains"]] == ["off1", "web1"]
    assert [one["stats"] for one in found["domains"]] == [None, None]
    assert [one["nics"][0]["addresses"] for one in found["domains"]] == [[], []]


def test_no_domain_chosen(ansible: Ansible, fleet: Fleet) -> None:
    """None is a list without entries, of the same shape."""
    assert fleet.guests.made
    args = {"names": ["web2"], "ignore_missing": True}
    found = ansible.module("hypervisors", "virt_query", args)
    assert found["hv1"]["domains"] == []
    assert [one["name"] for one in found["hv2"]["domains"]] == ["web2"]
