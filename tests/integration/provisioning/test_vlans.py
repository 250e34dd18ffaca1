# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VLAN tags on a Linux bridge that filters VLANs, on a hypervisor that is a guest itself.

Only with FLEET_VIRT_TRIALS: the kernel under the laboratory's hypervisors need not have such
bridges, so a whole Debian 13 with a kernel of its own boots, which takes minutes without KVM.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible_collections.fleet.virt.tests.integration.support.ansible import SERVERS, Ansible
from ansible_collections.fleet.virt.tests.lab import images

from .conftest import Fleet
from .test_seed import metadata, ssh


def _nested(fleet: Fleet, folder: Path) -> tuple[Ansible, str, str]:
    """The guest as a hypervisor: Ansible that knows it, its address, its host key."""
    (fleet.images / "hypervisor.qcow2").symlink_to(images.image("hypervisor"))
    vm = {"name": "nested", "vcpus": 2, "memory": 1024, "image": "hypervisor.qcow2", "host": "hv2"}
    run = fleet.provision(virt_vms=[vm], virt_wait_timeout=800, limit=900).succeeded()
    (waited,) = run.of("Wait for SSH")["hv2"]["vms"]
    address, key = waited["address"], metadata(fleet, "hv2", "nested")["host_key"]
    known = folder / "known_hosts"
    known.write_text(f"{address} {key}\n")
    host = {
        "ansible_host": address,
        "ansible_user": "ansible",
        "ansible_ssh_private_key_file": str(fleet.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={known} -o StrictHostKeyChecking=yes",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    inventory = folder / "hypervisors.json"
    inventory.write_text(json.dumps({"hypervisors": {"hosts": {"nested": host}}}))
    return Ansible(inventory, fleet.ansible.home, SERVERS), address, key


if "FLEET_VIRT_TRIALS" in os.environ:

    def test_the_guests_tap_has_the_tag(fleet: Fleet, tmp_path: Path) -> None:
        ansible, address, key = _nested(fleet, tmp_path)

        def host(command: str) -> str:
            done = ssh(fleet, address, key, f"sudo sh -c '{command}'")
            assert done.returncode == 0, done
            return done.stdout

        def init(name: str, bridge: str, check: bool = False) -> dict[str, Any]:
            nic = {"name": "eth0", "bridge": bridge, "vlan": 7}
            options = {"name": name, "memory": 64, "seed": False, "nics": [nic]}
            return ansible.module(
                "nested", "virt_init", options, extra=fleet.variables, check=check, limit=300
            )["nested"]

        for bridge, filters in (("plain", 0), ("brv", 1)):
            host(f"ip link add {bridge} type bridge vlan_filtering {filters}")
            host(f"ip link set {bridge} up")
        refused = init("refused", "plain")
        assert refused["failed"]
        assert "no VLAN tag on bridge plain" in refused["msg"]
        for check, changed in ((True, True), (False, True), (False, False)):
            made = init("tagged", "brv", check)
            assert (made["failed"], made["changed"]) == (False, changed), made
        tap = host("virsh -q domiflist tagged").split()[0]
        (port,) = json.loads(host(f"bridge -j vlan show dev {tap}"))
        assert [(one["vlan"], sorted(one["flags"])) for one in port["vlans"]] == [
            (7, ["Egress Untagged", "PVID"])
        ]
        (query,) = ansible.module("nested", "virt_query", {"names": ["tagged"]}).values()
        assert [nic["vlan"] for nic in query["domains"][0]["nics"]] == [[7]]
