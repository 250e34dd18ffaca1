# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module compiles on a hypervisor is there for its second run, for root alone."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_FOLDER = "/run/fleet-virt/bytecode"
_PLAIN = {"ansible_python_interpreter": "/usr/bin/python3"}  # no fork of one that has imported it


@pytest.mark.parametrize("host", ["hv1", "hv2"])  # reached as root, and as a user with sudo
def test_the_second_run_adds_nothing(ansible: Ansible, lab: Laboratory, host: str) -> None:
    def listed() -> list[str]:
        return lab.ssh(host, f"stat -c '%A %U %Y %n' {_FOLDER} {_FOLDER}/*").stdout.splitlines()

    lab.ssh(host, f"rm -rf {_FOLDER}")
    for check in (True, False):
        done = ansible.module(host, "virt_query", check=check, extra=_PLAIN)[host]
        assert not done["failed"]
        if check:
            first = listed()
    assert listed() == first
    assert first[0].startswith("drwx------ root ")
    assert len(first) > 20
    assert all(line.startswith("-rw------- root ") for line in first[1:])
