# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of guests that run and that are off, on libvirt 9.0 (hv1) and 11.3 (hv2)."""

from __future__ import annotations

import json
import re
import shlex
import typing as t
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import (
    BASE,
    IMAGES,
    Guests,
)
from ansible_collections.fleet.virt.tests.integration.support.killing import (
    KILL,
    begun,
    meanwhile,
)
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet

SNAPSHOT = "fleet.virt.virt_snapshot"
NAME = "snap1"
HOSTS = ("hv1", "hv2")
BOTH = "hv1:hv2"
_OF_WEB1 = "ansible-playbook fleet.virt.snapshot -e vm_name=web1 -e virt_snapshot=before-upgrade"
_NIGHTLY = "ansible-playbook fleet.virt.snapshot -e vm_name=web1 -e virt_snapshot=nightly"
# As the guide shows them, in this order, each with what it must print
COMMANDS = {
    _OF_WEB1: r"web1 +hv1 +changed +take snapshot before-upgrade with its memory",
    "ansible-playbook fleet.virt.snapshots": (
        r"web1 +hv1 +before-upgrade +- +yes +\d{4}-\S+ \S+Z +running +internal +fleet\.virt"
    ),
    f"{_OF_WEB1} -e virt_snapshot_state=reverted": (
        r"web1 +hv1 +changed +revert to snapshot before-upgrade \(running\)"
    ),
    f"{_OF_WEB1} -e virt_snapshot_state=absent": r"changed +delete snapshot before-upgrade",
    f"{_NIGHTLY} -e virt_snapshot_disk_only=true": (
        r"web1 +hv1 +changed +take disk-only snapshot nightly"
    ),
    f"{_NIGHTLY} -e virt_snapshot_state=absent": (
        r"changed +mark snapshot nightly as being merged; delete snapshot nightly, merging"
    ),
}


@pytest.fixture(scope="module")
def both(all_guests: Guests) -> Iterator[Guests]:
    """A guest that runs on each hypervisor, booted at the same time."""
    for host in HOSTS:
        all_guests.define(host, NAME, start=True)
    for host in HOSTS:
        all_guests.wait_agent(host, NAME)
    yield all_guests
    for host in HOSTS:
        all_guests.remove(host, NAME)
        all_guests.script(host, f"rm -f {IMAGES}/{NAME}.*")


def each(function: Callable[[str], object]) -> None:
    """On both hypervisors at once."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(function, HOSTS))


def write(guests: Guests, text: str) -> None:
    """Have the guests write to their disks, past their caches."""
    command = f"echo {text} > /root/data; echo {text} > /run/data; sync"
    each(lambda host: guests.execute(host, NAME, command))


def require(guests: Guests, text: str, host: str = "", *, places: str = "root run") -> None:
    """The data are those: on the disk, and in the memory of a guest that never stopped."""
    command = f"for place in {places}; do test $(cat /$place/data) = {text} || exit 1; done"
    if host:
        guests.execute(host, NAME, command)
    else:
        each(lambda one: guests.execute(one, NAME, command))


def bring(
    ansible: Ansible,
    lab: Laboratory,
    steps: Sequence[str],
    *,
    verified: bool = False,
    **more: t.Any,
) -> None:
    """Go one way on both, and see that it is the one expected.

    That check mode tells it too and a second run changes nothing is ``verified`` for what the test
    driver has not: memory, and file systems that are frozen; for the others it is settled by
    tests/unit/engine/test_check_mode.py and tests/unit/snapshots/test_snapshot_crashes.py.
    """
    wanted = {"name": NAME, **more}
    if verified:
        done = harness.verify(ansible, lab, BOTH, SNAPSHOT, wanted).real
    else:
        done = ansible.module(BOTH, "virt_snapshot", wanted)
    for host in HOSTS:
        assert done[host]["changed"], done[host]
        assert done[host]["vms"][0]["steps"] == list(steps)


def go_back(
    ansible: Ansible,
    name: str,
    steps: Sequence[str],
    hosts: str = BOTH,
    *,
    predicted: bool = False,
) -> None:
    """Going back is never done already, so the harness has nothing to say of a second run."""
    wanted = {"name": NAME, "snapshot": name, "state": "reverted"}
    told = ansible.module(hosts, "virt_snapshot", wanted, check=True) if predicted else {}
    for host, real in ansible.module(hosts, "virt_snapshot", wanted).items():
        assert real["changed"], real
        assert real["vms"][0]["steps"] == list(steps), real
        if predicted:
            assert told[host]["vms"] == real["vms"]
            assert told[host]["diff"] == real["diff"]


def digests(guests: Guests) -> list[str]:
    return [guests.script(host, f"sha256sum {BASE}") for host in HOSTS]


def holds(guests: Guests, host: str, file: str, text: str) -> bool:
    """Whether a disk holds the text, without what lies upon it; the guest may have it open."""
    read = f"qemu-img convert -U -O raw {IMAGES}/{file} /run/disk; grep -c -a {text} /run/disk"
    return guests.script(host, f"{read} || :; rm /run/disk").strip() != "0"


def test_a_guest_that_runs_goes_on_from_that_moment(ansible: Ansible, both: Guests) -> None:
    before = digests(both)
    write(both, "one")
    bring(ansible, both.lab, ["take snapshot a with its memory"], verified=True, snapshot="a")
    write(both, "two")
    bring(ansible, both.lab, ["take snapshot b with its memory"], snapshot="b")
    write(both, "three")
    go_back(ansible, "a", ["revert to snapshot a (running)"], predicted=True)
    require(both, "one")
    bring(ansible, both.lab, ["delete snapshot a"], snapshot="a", state="absent")
    require(both, "one")
    go_back(ansible, "b", ["revert to snapshot b (running)"])
    require(both, "two")
    bring(ansible, both.lab, ["delete snapshot b"], snapshot="b", state="absent")
    require(both, "two")
    assert digests(both) == before
    for host in HOSTS:
        listed = both.script(host, f"qemu-img snapshot -U -l {IMAGES}/{NAME}.qcow2")
        assert not listed.strip()


def test_the_disks_alone_of_a_guest_that_goes_on(ansible: Ansible, both: Guests) -> None:
    """Merged while it runs; gone back to where libvirt can, and refused where it cannot."""
    before, lab = digests(both), both.lab
    alone = {"disk_only": True, "quiesce": "always"}
    write(both, "word-of-one")
    taken = "take disk-only snapshot {}, its file systems frozen"
    bring(ansible, lab, [taken.format("d1")], verified=True, snapshot="d1", **alone)
    assert both.agent("hv1", NAME, "guest-fsfreeze-status") == "thawed"
    write(both, "word-of-two")
    bring(ansible, lab, [taken.format("d2")], snapshot="d2", **alone)
    write(both, "word-of-three")
    for host in HOSTS:
        for file, then, since in (
            (f"{NAME}.qcow2", "word-of-one", "word-of-two"),
            (f"{NAME}.d1.qcow2", "word-of-two", "word-of-three"),
        ):
            assert holds(both, host, file, then), (host, file)
            assert not holds(both, host, file, since), (host, file)
    steps = ["mark snapshot d1 as being merged", "delete snapshot d1, merging its files"]
    bring(ansible, lab, steps, snapshot="d1", state="absent")
    require(both, "word-of-three")
    wanted = {"name": NAME, "snapshot": "d2", "state": "reverted"}
    refused = ansible.module("hv1", "virt_snapshot", wanted)["hv1"]
    assert "needs libvirt 9.9 on its hypervisor, which has 9.0" in refused["msg"]
    go_back(ansible, "d2", ["revert to snapshot d2 (shutoff)"], "hv2")
    steps = ["mark snapshot d2 as being merged", "delete snapshot d2, merging its files"]
    bring(ansible, lab, steps, snapshot="d2", state="absent")
    require(both, "word-of-three", "hv1")
    both.virsh("hv2", "start", NAME)
    both.wait_agent("hv2", NAME)
    require(both, "word-of-two", "hv2", places="root")
    assert digests(both) == before
    for host in HOSTS:
        assert both.script(host, f"cd {IMAGES}; ls {NAME}.*").split() == [f"{NAME}.qcow2"]


# As soon as the snapshot is noted as one that goes: libvirt waits for QEMU, which stands still
_IN_THE_CALL = f"""
qemu=$(cat /run/libvirt/qemu/{NAME}.pid)
kill -STOP $qemu
for try in $(seq 400); do
  virsh -q snapshot-dumpxml {NAME} d3 | grep -q 'being merged' && break
  sleep 0.05
done
sleep 0.3
{KILL}
kill -CONT $qemu
"""


def test_what_dies_while_libvirt_merges_is_ended_by_the_next(
    ansible: Ansible, both: Guests
) -> None:
    host = "hv2"
    wanted = {"name": NAME, "snapshot": "d3"}
    write(both, "word-of-four")
    assert ansible.module(host, "virt_snapshot", {**wanted, "disk_only": True})[host]["changed"]
    write(both, "word-of-five")
    gone = {**wanted, "state": "absent"}
    words = ("-m", SNAPSHOT, "-a", json.dumps(gone))
    dying = ansible.begin("ansible", host, "--become", *words, ANSIBLE_PIPELINING="false")
    said = meanwhile(dying, both.lab, host, begun("virt_snapshot", _IN_THE_CALL))
    assert said.strip() == "killed"
    done = ansible.module(host, "virt_snapshot", gone)[host]
    assert not done["failed"], done
    assert both.virsh(host, "snapshot-list", NAME, "--name").split() == []
    assert not both.script(host, f"ls {IMAGES}/{NAME}.d3.qcow2 2>/dev/null || :")
    require(both, "word-of-five", host)


_FULL = "/srv/full"
_TIGHT = "tight"


def test_a_full_disk_leaves_the_vm_running_and_its_data_whole(
    ansible: Ansible, both: Guests
) -> None:
    host = "hv2"
    make = f"mkdir -p {_FULL}; mount -t tmpfs -o size=24M tmpfs {_FULL}; qemu-img create -q"
    both.script(host, f"{make} -f qcow2 {_FULL}/{_TIGHT}.qcow2 64M")
    fill = f"cat /dev/zero > {_FULL}/filler 2>/dev/null || :"
    room = f"rm {_FULL}/filler"
    wanted = {"name": _TIGHT, "snapshot": "d", "disk_only": True}
    gone = {"name": _TIGHT, "snapshot": "d", "state": "absent"}

    def look() -> tuple[str, str]:
        return both.state(host, _TIGHT), both.virsh(host, "domblklist", _TIGHT)

    try:
        xml = both.xml(_TIGHT, nics=()).replace(f"{IMAGES}/{_TIGHT}", f"{_FULL}/{_TIGHT}")
        both.define_xml(host, _TIGHT, xml)
        both.virsh(host, "start", _TIGHT)
        before = look()
        both.script(host, fill)
        failed = ansible.module(host, "virt_snapshot", wanted)[host]
        assert failed["failed"]
        assert "No space left" in failed["msg"], failed
        assert look() == before
        assert both.script(host, f"ls {_FULL}").split() == ["filler", f"{_TIGHT}.qcow2"]
        both.script(host, room)
        both.virsh(host, "destroy", _TIGHT)
        assert ansible.module(host, "virt_snapshot", wanted)[host]["changed"]
        both.script(host, f"qemu-io -c 'write -P 7 0 9M' {_FULL}/{_TIGHT}.d.qcow2")
        both.virsh(host, "start", _TIGHT)
        between = look()
        both.script(host, fill)
        failed = ansible.module(host, "virt_snapshot", gone)[host]
        assert "No space left" in failed["msg"], failed
        assert look() == between
        back = ansible.module(host, "virt_snapshot", {**gone, "state": "reverted"})[host]
        assert "no longer usable" in back["msg"]
        both.script(host, room)
        done = ansible.module(host, "virt_snapshot", gone)[host]
        assert done["vms"][0]["steps"] == ["delete snapshot d, merging its files"]
        assert look() == before
        both.virsh(host, "destroy", _TIGHT)
        read = f"qemu-io -c 'read -P 7 0 9M' {_FULL}/{_TIGHT}.qcow2"
        assert "Pattern verification failed" not in both.script(host, read)
    finally:
        both.remove(host, _TIGHT)
        both.script(host, f"umount {_FULL}")


def test_of_those_of_ours_the_newest_are_kept(ansible: Ansible, both: Guests) -> None:
    """Of a VM that is off, within its disks and in files of their own."""
    for host in HOSTS:
        both.virsh(host, "destroy", NAME)
        both.virsh(host, "snapshot-create-as", NAME, "theirs")
    lab = both.lab
    bring(ansible, lab, ["take snapshot a of its disks"], snapshot="a", keep=1)
    steps = ["take snapshot b of its disks", "delete snapshot a, the oldest beyond 1"]
    bring(ansible, lab, steps, snapshot="b", keep=1)
    refused = ansible.module(
        "hv1", "virt_snapshot", {"name": NAME, "snapshot": "c", "disk_only": True}
    )
    assert "has internal snapshots (theirs, b)" in refused["hv1"]["msg"]
    steps = ["delete snapshot b", "delete snapshot theirs"]
    bring(ansible, lab, steps, snapshot="theirs", state="absent", children=True)
    alone = {"disk_only": True, "keep": 1}
    bring(ansible, lab, ["take disk-only snapshot c"], snapshot="c", **alone)
    steps = [
        "take disk-only snapshot d",
        "mark snapshot c as being merged",
        "delete snapshot c, merging its files, the oldest beyond 1",
    ]
    bring(ansible, lab, steps, verified=True, snapshot="d", **alone)
    for host in HOSTS:
        found = both.script(host, f"cd {IMAGES}; ls {NAME}.*").split()
        assert found == [f"{NAME}.d.qcow2", f"{NAME}.qcow2"]


def test_of_a_vm_of_the_collection_as_the_guide_says(fleet: Fleet) -> None:
    """The commands in their order; with a snapshot it is not renamed, grows, and is removed."""
    files = {host: fleet.files(host) for host in HOSTS}
    # waited for: its seed medium is gone, and its drive empty, in the snapshot as well
    vm = {"vm_name": "web1", "vm_image": "tiny.qcow2", "vm_memory": 96}
    alone = fleet.alone("hv1")
    alone.provision(vm_host="hv1", vm_disks=[{"name": "system", "size": 64}], **vm).succeeded()
    for command, printed in COMMANDS.items():
        program, *words = shlex.split(command)
        run = alone.ansible.run(program, words, limit=120).succeeded()
        assert re.search(printed, run.stdout), str(run)
    taken = {"vm_name": "web1", "virt_snapshot": "a"}
    run = alone.ansible.playbook("snapshot", taken).succeeded()
    assert "take snapshot a with its memory" in run.stdout, str(run)
    refused = alone.ansible.playbook("rename", {"vm_name": "web1", "vm_new_name": "web9"})
    assert refused.returncode, str(refused)
    assert "fleet.virt.snapshot -e vm_name=web1" in str(refused), str(refused)
    more = [{"name": "system", "size": 72}]
    alone.provision(vm_host="hv1", vm_disks=more, virt_converge=True, **vm).succeeded()
    size = "virsh domblkinfo web1 vda | grep Capacity"
    assert str(72 << 20) in fleet.host("hv1", size)
    back = {**taken, "virt_snapshot_state": "reverted"}
    alone.ansible.playbook("snapshot", back).succeeded()
    assert str(64 << 20) in fleet.host("hv1", size)
    absent = {**taken, "vm_name": "web2"}
    assert "no hypervisor has a VM 'web2'" in str(fleet.ansible.playbook("snapshot", absent))
    below = {**taken, "virt_snapshot_state": "absent", "virt_snapshot_children": True}
    run = alone.ansible.playbook("snapshot", below).succeeded()
    assert "delete snapshot a" in run.stdout, str(run)
    _several_at_once(fleet)
    alone.provision(vm_host="hv1", vm_disks=more, virt_converge=True, **vm).succeeded()
    assert str(72 << 20) in fleet.host("hv1", size)
    purge = {"virt_names": ["web1", "web2"], "vm_force": True}
    for check in (True, False):
        run = fleet.ansible.playbook("purge_vm", purge, check=check).succeeded()
        assert "web1_system.n2.qcow2" in run.stdout, str(run)
    assert fleet.domains() == {host: [] for host in HOSTS}
    for host in HOSTS:
        left = set(fleet.files(host)) - set(files[host])
        assert not {name for name in left if "web" in name}
        assert not fleet.host(host, "ls -d /var/lib/libvirt/qemu/snapshot/web* 2>/dev/null || :")


def _several_at_once(fleet: Fleet) -> None:
    """One that runs and one that is off, on two hypervisors: the newest of each is kept."""
    other = {"vm_name": "web2", "vm_image": "tiny.qcow2", "vm_memory": 96, "vm_start": False}
    fleet.provision(vm_host="hv2", **other).succeeded()
    for name, more in (("n1", ""), ("n2", "; delete snapshot n1, merging its files")):
        asked = {
            **{"virt_names": ["web1", "web2"], "virt_snapshot": name},
            **{"virt_snapshot_disk_only": True, "virt_snapshot_keep": 1},
        }
        run = fleet.ansible.playbook("snapshot", asked).succeeded()
        for vm in ("web1 +hv1", "web2 +hv2"):
            row = rf"{vm} +changed +take disk-only snapshot {name}.*{more}"
            assert re.search(row, run.stdout), str(run)
    again = fleet.ansible.playbook("snapshot", asked).succeeded()
    assert len(re.findall(r"hv\d +unchanged", again.stdout)) == 2, str(again)
    shown = fleet.ansible.playbook("snapshots", {"virt_names": ["web1", "web2"]}).succeeded()
    assert len(re.findall(r"web\d +hv\d +n2 +- +yes .* external +fleet\.virt", shown.stdout)) == 2
