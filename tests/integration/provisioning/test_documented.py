# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of README and the guides that change VMs are run as they are shown, in their order."""

from __future__ import annotations

import re
import shlex

from .conftest import Fleet

_STATE = "ansible hv1 -b -m fleet.virt.virt_state -a"
_PURGE = "ansible-playbook fleet.virt.purge_vm"
# Each with what it must print
COMMANDS = {
    f"{_STATE} 'name=web1 state=running'": r"hv1 \| (CHANGED|SUCCESS)",
    f"{_STATE} 'name=web1,db1 state=shutoff'": r"hv1 \| CHANGED",
    f"{_PURGE} -e vm_name=web1 --check": r"web1_system\.qcow2",
    f"{_PURGE} -e vm_name=web1": r"web1_system\.qcow2",
    f"{_PURGE} -e virt_names=web1,web2 -e vm_force=true": r"web2_system\.qcow2",
}


def test_commands_that_change_vms(fleet: Fleet) -> None:
    vms = [
        {"name": name, "memory": 96, "image": "tiny.qcow2", "host": "hv1", "start": name != "web1"}
        for name in ("web1", "web2", "db1")
    ]
    fleet.provision(virt_vms=[{**vm, "wait": vm["name"] == "db1"} for vm in vms]).succeeded()
    for command, pattern in COMMANDS.items():
        program, *words = shlex.split(command)
        if "state=shutoff" in command:  # a guest that boots hears nobody
            waited = fleet.ansible.module("hv1", "virt_wait", {"names": ["web1", "db1"]})
            assert not waited["hv1"]["failed"], waited
        run = fleet.ansible.run(program, words).succeeded()
        assert re.search(pattern, run.stdout), str(run)
    assert fleet.domains()["hv1"] == ["db1"]
    assert fleet.files("hv1") == ["db1_seed.iso", "db1_system.qcow2"]
