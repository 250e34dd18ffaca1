# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of guests that run and that are off, on libvirt 9.0 (hv1) and 11.3 (hv2)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import pytest
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import (
    BASE,
    IMAGES,
    Guests,
)

from .conftest import Fleet

SNAPSHOT = "fleet.virt.virt_snapshot"
NAME = "snap1"
_OF_WEB1 = "ansible-playbook fleet.virt.snapshot -e vm_name=web1 -e virt_snapshot=before-upgrade"
# As the guide shows them, in this order, each with what it must print
COMMANDS = {
    _OF_WEB1: r"web1 +hv1 +changed +take snapshot before-upgrade with its memory",
    "ansible-playbook fleet.virt.snapshots": (
        r"web1 +hv1 +before-upgrade +- +yes +\d{4}-\S+ \S+Z +running +internal +fleet\.virt"
    ),
    f"{_OF_WEB1} -e virt_snapshot_state=reverted": (
        r"web1 +hv1 +changed +go back to snapshot before-upgrade \(running\)"
    ),
    f"{_OF_WEB1} -e virt_snapshot_state=absent": r"changed +delete snapshot before-upgrade",
}


@pytest.fixture(scope="module", params=["hv1", "hv2"])
def host(request: pytest.FixtureRequest, all_guests: Guests) -> Iterator[str]:
    """A hypervisor with one guest that runs."""
    name: str = request.param
    all_guests.define(name, NAME, start=True)
    all_guests.wait_agent(name, NAME)
    yield name
    all_guests.remove(name, NAME)


def write(guests: Guests, host: str, text: str) -> None:
    """Have the guest write to its disk, past its cache."""
    guests.execute(host, NAME, f"echo {text} > /root/data; echo {text} > /run/data; sync")


def require(guests: Guests, host: str, text: str) -> None:
    """The data are those: on the disk, and in the memory of a guest that never stopped."""
    guests.execute(host, NAME, f"test $(cat /root/data) = {text} && test $(cat /run/data) = {text}")


def bring(
    ansible: Ansible, guests: Guests, host: str, steps: Sequence[str], **options: object
) -> None:
    """Verify one way, and that it is the one expected."""
    wanted = {"name": NAME, **options}
    if host == "hv1":
        done = harness.verify(ansible, guests.lab, host, SNAPSHOT, wanted).real
    else:  # what check mode says does not depend on libvirt's version
        done = ansible.module(host, "virt_snapshot", wanted)
    assert done[host]["changed"]
    assert done[host]["vms"][0]["steps"] == list(steps)


def go_back(ansible: Ansible, host: str, name: str, steps: Sequence[str]) -> None:
    """Going back is never done already, so the harness has nothing to say of a second run."""
    wanted = {"name": NAME, "snapshot": name, "state": "reverted"}
    runs = [
        ansible.module(host, "virt_snapshot", wanted, check=check)[host] for check in (True, False)
    ]
    for run in runs:
        assert run["changed"], run
        assert run["vms"][0]["steps"] == list(steps), run
    assert runs[0]["vms"] == runs[1]["vms"]
    assert runs[0]["diff"] == runs[1]["diff"]


def digest(guests: Guests, host: str) -> str:
    return guests.script(host, f"sha256sum {BASE}")


def test_a_guest_that_runs_goes_on_from_that_moment(
    ansible: Ansible, guests: Guests, host: str
) -> None:
    before = digest(guests, host)
    write(guests, host, "one")
    bring(ansible, guests, host, ["take snapshot a with its memory"], snapshot="a")
    write(guests, host, "two")
    bring(ansible, guests, host, ["take snapshot b with its memory"], snapshot="b")
    write(guests, host, "three")
    go_back(ansible, host, "a", ["go back to snapshot a (running)"])
    require(guests, host, "one")
    go_back(ansible, host, "b", ["go back to snapshot b (running)"])
    require(guests, host, "two")
    write(guests, host, "four")
    bring(ansible, guests, host, ["delete snapshot a"], snapshot="a", state="absent")
    require(guests, host, "four")
    go_back(ansible, host, "b", ["go back to snapshot b (running)"])
    require(guests, host, "two")
    bring(ansible, guests, host, ["delete snapshot b"], snapshot="b", state="absent")
    require(guests, host, "two")
    assert digest(guests, host) == before
    listed = guests.script(host, f"qemu-img snapshot -U -l {IMAGES}/{NAME}.qcow2")
    assert not listed.strip()


def test_of_those_of_ours_the_newest_are_kept(ansible: Ansible, guests: Guests, host: str) -> None:
    guests.virsh(host, "destroy", NAME)
    guests.virsh(host, "snapshot-create-as", NAME, "theirs")
    for name in ("a", "b"):
        steps = [f"take snapshot {name} of its disks"]
        bring(ansible, guests, host, steps, snapshot=name, keep=2)
    steps = ["take snapshot c of its disks", "delete snapshot a, the oldest beyond 2"]
    bring(ansible, guests, host, steps, snapshot="c", keep=2)
    steps = ["delete snapshot c", "delete snapshot b", "delete snapshot theirs"]
    bring(ansible, guests, host, steps, snapshot="theirs", state="absent", children=True)


def test_of_a_vm_of_the_collection_as_the_guide_says(fleet: Fleet) -> None:
    """The commands in their order; with a snapshot it is not renamed, grows, and is removed."""
    files = fleet.files("hv1")
    vm = {"vm_name": "web1", "vm_image": "tiny.qcow2", "vm_memory": 96, "vm_wait": False}
    fleet.provision(vm_host="hv1", vm_disks=[{"name": "system", "size": 64}], **vm).succeeded()
    for command, printed in COMMANDS.items():
        program, *words = shlex.split(command)
        run = fleet.ansible.run(program, words, limit=120).succeeded()
        assert re.search(printed, run.stdout), str(run)
    taken = {"vm_name": "web1", "virt_snapshot": "a"}
    for check in (True, False):
        run = fleet.ansible.playbook("snapshot", taken, check=check).succeeded()
        assert "take snapshot a with its memory" in run.stdout, str(run)
    refused = fleet.ansible.playbook("rename", {"vm_name": "web1", "vm_new_name": "web9"})
    assert refused.returncode, str(refused)
    assert "fleet.virt.snapshot -e vm_name=web1" in str(refused), str(refused)
    more = [{"name": "system", "size": 72}]
    fleet.provision(vm_host="hv1", vm_disks=more, virt_converge=True, **vm).succeeded()
    size = "virsh domblkinfo web1 vda | grep Capacity"
    assert str(72 << 20) in fleet.host("hv1", size)
    back = {**taken, "virt_snapshot_state": "reverted"}
    fleet.ansible.playbook("snapshot", back).succeeded()
    assert str(64 << 20) in fleet.host("hv1", size)
    absent = {**taken, "vm_name": "web2"}
    assert "no hypervisor has a VM 'web2'" in str(fleet.ansible.playbook("snapshot", absent))
    fleet.ansible.playbook("purge_vm", {"vm_name": "web1", "vm_force": True}).succeeded()
    assert fleet.domains()["hv1"] == []
    left = set(fleet.files("hv1")) - set(files)
    assert not {name for name in left if "web1" in name}
    assert not fleet.host("hv1", "ls /var/lib/libvirt/qemu/snapshot/web1 2>/dev/null || true")
