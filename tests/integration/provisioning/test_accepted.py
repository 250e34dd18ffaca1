# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that libvirt takes: VMs with all of them start on both versions, and read back."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.fleet.virt.tests import setting_classes

from .conftest import Fleet

# What QEMU takes for a Linux kernel of the boot protocol 2.12
_KERNEL = f"""
python3 -c '
k = bytearray(8192); k[0x1f1] = 1; k[0x1fe:0x200] = b"\\x55\\xaa"
k[0x202:0x208] = b"HdrS\\x0c\\x02"; k[0x211] = 1; k[0x22c:0x230] = b"\\xff\\xff\\xff\\x7f"
k[0x200:0x202] = b"\\xeb\\xfe"
open("{setting_classes.KERNEL}", "wb").write(k)'
"""


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_vms_with_all_settings_start_and_read_back(fleet: Fleet, host: str) -> None:
    fleet.host(host, _KERNEL)
    fleet.network(host, setting_classes.NETWORK, "br0")
    problems = []
    for vm in setting_classes.VMS:
        for changed in (True, False):
            result = fleet.init(host, seed=False, **copy.deepcopy(vm))
            if result["failed"] or result["changed"] is not changed:
                problems.append((vm["name"], result.get("msg"), result["vms"]))
        state = fleet.lab.ssh(host, f"virsh domstate {vm['name']}", check=False).stdout
        if state.strip() != "running":
            problems.append((vm["name"], state, []))
        fleet.lab.ssh(host, f"virsh destroy {vm['name']}", check=False)
    assert problems == []
