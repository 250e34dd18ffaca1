# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role by its molecule scenario, on a machine that was bare before the first of them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.tests.integration.support.ansible import PROGRAMS
from ansible_collections.fleet.virt.tests.lab.host import Host
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

CHECKOUT = Path(__file__).resolve().parents[2]
SCENARIOS = CHECKOUT / "extensions" / "molecule"
ROLES = sorted(path.name for path in (CHECKOUT / "roles").iterdir() if path.is_dir())
_LIMIT = 600
_KEYS = "/etc/pki/CA /etc/pki/libvirt /etc/pki/libvirt-vnc /etc/pki/qemu"


def _molecule(lab: Laboratory, host: Host, role: str, home: Path) -> str:
    arguments = yaml.safe_load((lab.inventory / "10-hypervisors.yml").read_text())
    variables = arguments["bare"]["hosts"][host.name]
    done = subprocess.run(
        ["molecule", "test", "--scenario-name", role],
        cwd=CHECKOUT,
        env={
            **os.environ,
            "HOME": str(home),
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "MOLECULE_EPHEMERAL_DIRECTORY": str(home / role),
            "FLEET_VIRT_TEST_HOST": host.address,
            "FLEET_VIRT_TEST_USER": host.user,
            "FLEET_VIRT_TEST_KEY": str(lab.key),
            "FLEET_VIRT_TEST_SSH_ARGS": variables["ansible_ssh_common_args"],
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    command = shlex.join(map(str, done.args))
    assert done.returncode == 0, f"{command}\nexit status {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.mark.parametrize("role", ROLES)
def test_scenario(role: str, lab: Laboratory, bare_host: Host, tmp_path: Path) -> None:
    assert (SCENARIOS / role / "molecule.yml").exists(), f"{role} has no scenario"
    # Each scenario's CA is gone with it, and a machine that trusts one takes no other
    lab.ssh(bare_host.name, f"rm -rf {_KEYS}")
    said = _molecule(lab, bare_host, role, tmp_path)
    # What was left out would be as silent as what went well
    for action in ("syntax", "converge", "idempotence", "verify"):
        assert f"{role} > {action}: Executed: Successful" in said, said
