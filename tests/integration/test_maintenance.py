# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor in maintenance: marked, passed over when VMs are placed, and ready again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.lab import images
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

MODULE = "fleet.virt.virt_maintenance"
MARK = "fleet-virt.maintenance"
_PLAYBOOK = "ansible-playbook fleet.virt.maintenance -e virt_host=hv1"
# Commands of the guide, and whether hv1 has the mark afterwards
COMMANDS = {_PLAYBOOK: True, f"{_PLAYBOOK} -e virt_maintenance=false": False}


@pytest.fixture
def unmarked(lab: Laboratory) -> Iterator[Laboratory]:
    """The laboratory, without marks before and after."""
    yield lab
    for host in ("hv1", "hv2"):
        lab.ssh(host, f"virsh -q vol-delete {MARK} fleet-notes || true", check=False)


def _marked(ansible: Ansible, host: str) -> bool:
    return bool(ansible.module(host, "virt_host_info")[host]["host"]["maintenance"])


# What a kill between two of libvirt's calls leaves of the pool
_HALF_MADE = """
path=/var/lib/libvirt/fleet-notes
virsh -q pool-define-as fleet-notes dir --target $path 2>/dev/null
virsh -q pool-destroy fleet-notes 2>/dev/null
virsh -q pool-autostart --disable fleet-notes
"""


def test_the_mark_is_set_and_taken_away(ansible: Ansible, unmarked: Laboratory) -> None:
    unmarked.ssh("hv2", _HALF_MADE)
    done = harness.verify(ansible, unmarked, "hv2", MODULE, {"state": "present"})
    assert done.real["hv2"]["maintenance"] is True
    assert _marked(ansible, "hv2")
    told = " ".join(unmarked.ssh("hv2", "virsh pool-info fleet-notes").stdout.split())
    assert "State: running" in told, told
    assert "Autostart: yes" in told, told
    assert not _marked(ansible, "hv1")
    done = harness.verify(ansible, unmarked, "hv2", MODULE, {"state": "absent"})
    assert done.real["hv2"]["maintenance"] is False
    assert not _marked(ansible, "hv2")


def test_a_mark_that_libvirt_has_not_seen_is_taken_over(
    ansible: Ansible, unmarked: Laboratory
) -> None:
    """As a call leaves it that is killed between the file and libvirt's list."""
    ansible.module("hv1", "virt_maintenance", {"state": "present"})  # which makes the pool
    ansible.module("hv1", "virt_maintenance", {"state": "absent"})
    unmarked.ssh("hv1", f"touch /var/lib/libvirt/fleet-notes/{MARK}")
    ansible.module("hv1", "virt_maintenance", {"state": "present"})
    assert _marked(ansible, "hv1")


def test_mark_with_shared_base_pool_leaves_other_hypervisor_unmarked(
    ansible: Ansible, unmarked: Laboratory, tmp_path: Path
) -> None:
    """A pool of base images that both mount; a mark that an earlier version left there is of both,
    until it is removed."""
    shared = {"base_pool": "shared", "base_path": "/srv/marks"}
    pool = f"virsh -q pool-define-as shared dir --target {shared['base_path']}"

    def marks() -> list[bool]:
        answers = {h: ansible.module(h, "virt_host_info", shared)[h] for h in ("hv1", "hv2")}
        return [answer["host"]["maintenance"] for answer in answers.values()]

    with shared_folder(unmarked, tmp_path, shared["base_path"], ("hv1", "hv2")):
        for host in ("hv1", "hv2"):
            unmarked.ssh(host, f"{pool}; virsh -q pool-start shared")
        words = [
            *("fleet.virt.maintenance", "-e", "virt_host=hv1", "-e", "virt_base_pool=shared"),
            *("-e", f"virt_base_path={shared['base_path']}"),
        ]
        ansible.run("ansible-playbook", words).succeeded()
        assert marks() == [True, False]
        unmarked.ssh("hv2", f"virsh -q vol-create-as shared {MARK} 0 --format raw")
        unmarked.ssh("hv1", "virsh -q pool-refresh shared")
        assert marks() == [True, True]
        ansible.run("ansible-playbook", [*words, "-e", "virt_maintenance=false"]).succeeded()
        unmarked.ssh("hv2", "virsh -q pool-refresh shared")
        assert marks() == [False, False]
        for host in ("hv1", "hv2"):
            unmarked.ssh(host, "virsh -q pool-destroy shared; virsh -q pool-undefine shared")


def test_commands_of_the_guide(ansible: Ansible, unmarked: Laboratory) -> None:
    """No VM is placed on a marked hypervisor, not even one that names it; the reason is told."""
    image = images.image("tiny")
    for command, marked in COMMANDS.items():
        program, *words = shlex.split(command)
        ansible.run(program, words).succeeded()
        assert (MARK in unmarked.ssh("hv1", "virsh -q vol-list fleet-notes").stdout) is marked
        noted = unmarked.ssh("hv2", "ls /var/lib/libvirt/fleet-notes").stdout
        assert noted.count(f".{'present' if marked else 'absent'}.hv1") == 1, "hv2 shows it"
        options = {
            "vm_name": "kept1",
            "vm_memory": 64,
            "vm_seed": False,
            "vm_image": image.name,
            "virt_image_dir": str(image.parent),
        }
        if marked:
            placed = ansible.playbook("fleet.virt.provision_vm", options, check=True).succeeded()
            assert list(placed.of("Choose the hypervisors")["hv1"]["shares"]) == ["hv2"]
        options["vm_host"] = "hv1"
        named = ansible.alone("hv1").playbook("fleet.virt.provision_vm", options, check=True)
        assert (named.returncode != 0) is marked, str(named)
        assert ("it is in maintenance" in str(named)) is marked, str(named)


def test_bad_input(ansible: Ansible, lab: Laboratory) -> None:
    run = ansible.run("ansible-playbook", ["fleet.virt.maintenance"])
    assert run.returncode != 0
    assert "virt_host is missing; name the hypervisor" in str(run)
    harness.refuse(ansible, lab, "hv1", MODULE, {"base_path": "srv"}, match="base_path: 'srv'")
