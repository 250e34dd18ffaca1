# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of a seed, and the rest of it, in a Debian with cloud-init.

Only with FLEET_VIRT_TRIALS: it boots twice, which takes minutes where there is no KVM. Without it
the demonstration's Debian shows that cloud-init takes a seed (test_demo.py).
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible_collections.fleet.virt.tests.integration.support.nat import Nat
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab import images

from .conftest import Fleet
from .test_seed import metadata, ssh

_NAT = Nat("seednat", "virbr8", "192.168.151")
_NAMES = "ls /sys/class/net | grep -v lo"
_WHO = (
    "cat /etc/machine-id /proc/sys/kernel/random/boot_id; hostname -f; ip -j -4 address;"
    " ip -j -6 address show scope global; ip -j -4 route show default; sudo cat /etc/token;"
    " id -nG alice"
)

if "FLEET_VIRT_TRIALS" in os.environ:

    def test_static_addresses_on_two_nics_and_dhcp_behind_nat_on_a_third(fleet: Fleet) -> None:
        (fleet.images / "debian12.qcow2").symlink_to(images.image("debian"))
        address = str(fleet.lab.network.network_address + 9)
        seed = {
            "fqdn": "three.example.org",
            "network": [
                {
                    "name": "eth0",
                    "addresses": [f"{address}/24"],
                    "gateway": str(fleet.lab.gateway),
                },
                {"name": "lan", "addresses": ["192.0.2.10/24", "2001:db8::10/64"]},
            ],
            "users": [{"name": "alice", "groups": ["adm"]}],
            "files": [{"path": "/etc/token", "content": "HUSH\n", "mode": "0600"}],
            "commands": [["touch", "/var/tmp/last"]],
        }
        nics = [
            {"name": "eth0", "bridge": "br0"},
            {"name": "lan", "bridge": "br0"},
            {"name": "eth1", "network": _NAT.name},
        ]
        vm = {"name": "three", "vcpus": 2, "memory": 512, "image": "debian12.qcow2"}
        vm.update(host="hv1", nics=nics, seed=seed)
        _NAT.start(fleet.lab, "hv1")
        try:
            run = fleet.provision(virt_vms=[vm], virt_wait_timeout=600).succeeded()
            (waited,) = run.of("Wait for SSH")["hv1"]["vms"]
            assert (waited["address"], waited["source"]) == (address, "static")
            key = metadata(fleet, "hv1", "three")["host_key"]

            def said(command: str) -> str:
                done = ssh(fleet, address, key, command)
                return done.stdout if done.returncode == 0 else ""

            # the end of the first boot was waited for, and cloud-init says how it ended
            assert said("cloud-init status; ls /var/tmp/last").split() == [
                *("status:", "done"),
                "/var/tmp/last",
            ]
            before = said(_WHO).splitlines()
            assert said(_NAMES).split() == ["eth0", "eth2", "lan"]
            _check(before, address, str(fleet.lab.gateway))
            ssh(fleet, address, key, "sudo systemctl reboot")

            def rebooted() -> bool:
                now = said("cat /proc/sys/kernel/random/boot_id").strip()
                return now not in ("", before[1])

            wait_for(rebooted, 600, "another boot", pause=3)
            after = said(_WHO).splitlines()
            # cloud-init has not run, and the NICs keep their names; the kernel would call lan eth1
            assert said(_NAMES).split() == ["eth0", "eth2", "lan"]
            _check(after, address, str(fleet.lab.gateway))
            assert (after[0], after[2]) == (before[0], before[2])
            marker = "/etc/cloud/cloud-init.disabled"
            assert said(f"ls {marker}") == f"{marker}\n"
        finally:
            fleet.sweep()
            _NAT.end(fleet.lab, "hv1")


def _check(lines: list[str], address: str, gateway: str) -> None:
    _machine_id, _boot, name, ipv4, ipv6, routes, token, groups = lines
    assert name == "three.example.org"
    assert (token, groups) == ("HUSH", "alice adm")
    found = [one for one in _addresses(ipv4) if not one.startswith("127.")]
    dhcp = [one for one in found if one.startswith(f"{_NAT.prefix}.")]
    assert sorted(found) == sorted([f"{address}/24", "192.0.2.10/24", *dhcp])
    assert len(dhcp) == 1
    assert "2001:db8::10/64" in _addresses(ipv6)
    assert gateway in [route.get("gateway") for route in json.loads(routes)]


def _addresses(text: str) -> list[str]:
    links: list[dict[str, Any]] = json.loads(text)
    return [
        f"{one['local']}/{one['prefixlen']}"
        for link in links
        for one in link.get("addr_info", ())
        if one and one["scope"] != "link"  # ip prints {} for what its filter leaves out
    ]
