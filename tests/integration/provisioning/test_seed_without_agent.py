# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cloud image without a guest agent, with an address that only a DHCP server knows.

Only with FLEET_VIRT_TRIALS: libguestfs takes the agent out of the image, and a whole Debian boots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration.support import offline
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet
from .test_seed import metadata, ssh

_IMAGE = f"{offline.FOLDER}/agentless.qcow2"
_STRIP = (
    f"LIBGUESTFS_BACKEND=direct virt-customize -q --no-network -a {_IMAGE}"
    " --run-command 'dpkg --purge qemu-guest-agent'"
)

if "FLEET_VIRT_TRIALS" in os.environ:

    @pytest.fixture(scope="module")
    def agentless(lab: Laboratory) -> Iterator[str]:
        with offline.libguestfs(lab):
            offline.bring_debian(lab, _IMAGE)
            lab.ssh("hv1", _STRIP, timeout=600)
            yield _IMAGE

    def test_its_address_is_found_and_it_is_reached_strictly(
        fleet: Fleet, agentless: str, tmp_path: Path
    ) -> None:
        vm = {"name": "silent", "vcpus": 2, "memory": 512, "image": agentless, "host": "hv1"}
        vm["nics"] = [{"name": "eth0", "bridge": "br0"}]
        vm["seed"] = {"method": "nocloud"}
        run = fleet.provision(virt_vms=[vm], virt_wait_timeout=600, limit=900).succeeded()
        (waited,) = run.of("Wait for SSH")["hv1"]["vms"]
        assert waited["answered"]
        assert waited["source"] in ("neighbour", "console"), waited
        # it is the address that the DHCP server gave to its NIC
        mac = fleet.host("hv1", "virsh -q domiflist silent").split()[-1]
        leases = [lease[1] for lease in fleet.lab.leases() if lease[0] == mac]
        assert waited["address"] in leases
        kept = metadata(fleet, "hv1", "silent")
        assert kept["addresses"] == []
        said = ssh(fleet, waited["address"], kept["host_key"], "ls /usr/sbin/qemu-ga; hostname")
        assert said.stdout == "silent\n", said
        ping = fleet.strict_ping(tmp_path / "inventory", "silent").succeeded()
        assert '"ping": "pong"' in ping.stdout
        # strictly: with another key in the metadata it is not reached
        key = kept["host_key"].split()[1]
        wrong = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
        edit = "virsh metadata silent urn:fleet.virt:1 --live --config --key fleet --set"
        kept_xml = "virsh metadata silent urn:fleet.virt:1 --config"
        fleet.host("hv1", f'{edit} "$({kept_xml} | sed s,{key},{wrong},)"')
        refused = fleet.strict_ping(tmp_path / "inventory", "silent")
        assert refused.returncode != 0
        assert "Host key verification failed" in refused.stdout + refused.stderr
