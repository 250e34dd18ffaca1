# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""setup_hypervisors killed at random moments: run again, it ends right.

Environment: FLEET_VIRT_TRIALS is the number of kills (default 1), each of the set-up of a machine
that is bare. The seed is printed and may be given as FLEET_VIRT_SEED.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree
from ansible_collections.fleet.virt.tests.integration.support.newcomers import Newcomers, changed
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261121"))
_LONGEST = 60  # seconds; about what a whole run takes
# What an interrupted run could leave: transfers, temporary files, an armed way back
_LEFT = (
    "ls -d /var/tmp/fleet-virt* /tmp/fleet-virt* /etc/pki/.*[a-z]* /etc/libvirt/.*[a-z]*"
    " /var/lib/fleet-virt/bridge/armed 2>/dev/null; systemctl list-timers --all --no-legend"
    " 'fleet-virt-*'; systemctl --failed --no-legend"
)


@pytest.mark.parametrize("trial", range(_TRIALS))
def test_set_up_killed_at_a_random_moment(
    trial: int, lab: Laboratory, ansible: Ansible, tmp_path: Path
) -> None:
    after = random.Random(_SEED + trial).uniform(1, _LONGEST)  # noqa: S311 (when to kill, no secret)
    what = f"seed {_SEED}, trial {trial}, {after:.1f} s"
    newcomers = Newcomers(lab, ansible, tmp_path / "inventory", [])
    newcomers.folder.mkdir()
    host = newcomers.add("trixie" if trial % 2 else "bookworm")
    try:
        process = newcomers.start()
        try:
            process.wait(timeout=after)
            print(f"{what}: it had ended")
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            process.wait()
            print(f"{what}: killed")
        newcomers.run().succeeded()
        assert changed(newcomers.run().succeeded()) == [], what
        read = ansible.module("hypervisors", "virt_host_info", inventory=newcomers.folder)
        info = read[host.name]["host"]
        pools = {pool["name"]: pool["state"] for pool in info["pools"]}
        assert pools == {"base": "running", "default": "running"}, what
        assert host.address in newcomers.sh(host, "ip -4 -o address show dev br0"), what
        assert newcomers.sh(host, _LEFT) == "", what
    finally:
        newcomers.take_down()
