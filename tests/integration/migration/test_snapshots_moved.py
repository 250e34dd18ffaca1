# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs that move with their snapshots, and are reverted to them where they have come to."""

from __future__ import annotations

import os
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.killing import Mortal
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import IMAGES, KILL, Movers

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_SHARED = {"disks": [{"name": "system", "pool": "shared", "size": 256}], "overlay": False}
# A screen whose password is in the definition, and so in each snapshot
_SCREEN = (
    "virsh -q dumpxml --inactive {name} | sed -e '/<graphics/,/<.graphics>/d' -e"
    " \"s|</devices>|<graphics type='vnc' autoport='yes' passwd='s3cret42'/></devices>|\""
    " > /run/x; virsh -q define /run/x; rm /run/x"
)
_OTHER = {"hv1": "hv2", "hv2": "hv1"}


def _snapshot(movers: Movers, name: str, snapshot: str, **more: Any) -> None:
    movers.ansible.playbook(
        "snapshot", {"vm_name": name, "virt_snapshot": snapshot, **more}
    ).succeeded()


def _snapshots(movers: Movers, host: str, name: str) -> tuple[dict[str, str], str]:
    """The parent of each snapshot, and the current one."""
    lines = movers.fleet.host(host, f"virsh -q snapshot-list {name} --parent").splitlines()
    parents = {line.split()[0]: line.split()[-1] for line in lines if line.strip()}
    names = movers.fleet.host(host, f"virsh -q snapshot-list {name} --name").split()
    current = movers.lab.ssh(host, f"virsh snapshot-current {name} --name", check=False).stdout
    return {one: parents[one] if parents[one] in names else "" for one in names}, current.strip()


def _nothing_kept(movers: Movers) -> None:
    for host in ("hv1", "hv2"):
        assert movers.fleet.host(host, "virsh -q secret-list").strip() == "", host
        assert movers.fleet.host(host, "ls -A /etc/libvirt/secrets").strip() == "", host


def _disk(movers: Movers, host: str, name: str) -> str:
    """The file of the VM's disk."""
    listed = movers.fleet.host(host, f"virsh -q domblklist {name}").split()
    return next(word for word in listed if word.startswith("/"))


def _marked(movers: Movers, host: str, name: str, text: str, at: str = "200M") -> None:
    """Have the disk of a VM that is off carry a text, beyond its file system's first MiB."""
    path = _disk(movers, host, name)
    movers.fleet.host(host, f"qemu-io -c 'write -P {text} {at} 64k' {path}")


def _mark(movers: Movers, host: str, name: str, text: str, at: str = "200M") -> bool:
    path = _disk(movers, host, name)
    done = movers.fleet.host(host, f"qemu-io -r -c 'read -P {text} {at} 64k' {path}")
    return "Pattern verification failed" not in done


def test_vm_off_with_local_snapshots_moves_and_is_reverted(movers: Movers) -> None:
    """There and back, so that either libvirt has taken them; each revert gives the old contents."""
    movers.make("off", start=False, disks=[{"name": "system", "size": 256}])
    _marked(movers, "hv1", "off", "0x11")
    _snapshot(movers, "off", "first")
    _marked(movers, "hv1", "off", "0x22")
    _snapshot(movers, "off", "second")
    _marked(movers, "hv1", "off", "0x33")
    movers.fleet.host("hv1", "virsh -q snapshot-current off first >/dev/null")
    for source in ("hv1", "hv2"):
        before = _snapshots(movers, source, "off")
        assert before[0] == {"first": "", "second": "first"}
        other = _OTHER[source]
        checked = movers.playbook(check=True, vm_name="off", vm_host=other).succeeded()
        assert "would move (offline)" in checked.stdout, str(checked)
        run = movers.playbook(vm_name="off", vm_host=other).succeeded()
        print(run.stdout)
        movers.clean(source, "off")
        assert _snapshots(movers, other, "off") == before
        _nothing_kept(movers)
        assert _mark(movers, other, "off", "0x33")
        listed = movers.fleet.host(other, f"qemu-img snapshot -l {IMAGES}/off_system.qcow2")
        assert {"first", "second"} <= set(listed.split()), listed
    for host, snapshot, text in (("hv1", "second", "0x22"), ("hv2", "first", "0x11")):
        if host == "hv2":
            movers.playbook(vm_name="off", vm_host="hv2").succeeded()
        _snapshot(movers, "off", snapshot, virt_snapshot_state="reverted")
        assert _mark(movers, host, "off", text), (host, snapshot)
        assert _snapshots(movers, host, "off")[1] == snapshot
        movers.qemu_check(host, "off")


def test_vm_on_shared_storage_moves_with_snapshots_running_and_off(
    movers: Movers, folder: Path
) -> None:
    """Killed in the middle of the first move, with both ends keeping what libvirt has of the
    snapshots, a password among it; then reverted on 11.3 and, moved back, on 9.0. Boots: ``both``.
    """
    movers.make("both", start=False, **_SHARED)
    movers.fleet.host("hv1", _SCREEN.format(name="both"))
    movers.fleet.host("hv1", "virsh -q start both")
    movers.count("both")
    _snapshot(movers, "both", "first")
    at_first = movers.shown("hv1", "both")
    _snapshot(movers, "both", "second")
    before = _snapshots(movers, "hv1", "both")
    assert before == ({"first": "", "second": "first"}, "second")

    killer = (
        "for turn in $(seq 1 300); do systemctl list-units --plain --no-legend 'fleet-virt-mi*'"
        f" | grep -q running && {{ sleep 1; {KILL.format(name='both')}; exit 0; }}; sleep 0.2; done"
    )
    movers.lab.ssh("hv1", f"systemd-run --quiet --unit=killer sh -c {shlex.quote(killer)}")
    killed = movers.ansible.module("hv1", "virt_migrate", movers.args("both", bandwidth=4))["hv1"]
    assert killed["failed"]
    assert "vms" not in killed, "it was not killed"
    for host in ("hv1", "hv2"):
        modes = movers.fleet.host(host, "stat -c '%a %U' /etc/libvirt/secrets/*.base64").split()
        assert modes == ["600", "root"], (host, modes)
    repaired = movers.ansible.playbook("repair_vms", {}, limit=300).succeeded()
    assert "s3cret42" not in str(killed) + repaired.stdout
    movers.clean("hv1", "both")
    assert movers.state("hv2", "both") == "running"
    assert _snapshots(movers, "hv2", "both") == before
    _nothing_kept(movers)
    kept = movers.fleet.host("hv2", "virsh snapshot-dumpxml both first --security-info")
    assert "passwd='s3cret42'" in kept
    _snapshot(movers, "both", "first", virt_snapshot_state="reverted")
    assert movers.state("hv2", "both") == "running"
    wait_for(lambda: movers.shown("hv2", "both") > at_first, 60, "it goes on from there")

    movers.fleet.host("hv2", "virsh -q destroy both")
    off = movers.playbook(vm_name="both", vm_host="hv1").succeeded()
    assert "moved (offline)" in off.stdout
    assert _snapshots(movers, "hv1", "both") == (before[0], "first")
    _nothing_kept(movers)
    assert "both_system.qcow2" in {one.name for one in folder.iterdir()}
    _snapshot(movers, "both", "second", virt_snapshot_state="reverted")
    assert movers.state("hv1", "both") == "running"
    movers.fleet.host("hv1", "virsh -q destroy both")


@pytest.mark.usefixtures("folder")
def test_external_snapshots_move_on_shared_storage_and_are_refused_elsewhere(
    movers: Movers,
) -> None:
    """Off, so that nothing boots: 11.3 reverts to it where it has come to, 9.0 cannot at all. The
    same of local disks is refused, in check mode with the same words."""
    movers.make("ext", start=False, **_SHARED)
    movers.make("local", start=False, disks=[{"name": "system", "size": 256}])
    _marked(movers, "hv1", "ext", "0x11")
    for name in ("ext", "local"):
        _snapshot(movers, name, "outside", virt_snapshot_disk_only=True)
    _marked(movers, "hv1", "ext", "0x22")
    movers.playbook(vm_name="ext", vm_host="hv2").succeeded()
    assert _snapshots(movers, "hv2", "ext") == ({"outside": ""}, "outside")
    assert _mark(movers, "hv2", "ext", "0x22")
    _snapshot(movers, "ext", "outside", virt_snapshot_state="reverted")
    assert _mark(movers, "hv2", "ext", "0x11")
    _nothing_kept(movers)
    texts = []
    for check in (True, False):
        run = movers.playbook(check=check, vm_name="local", vm_host="hv2")
        assert run.returncode != 0, str(run)
        (line,) = {one for one in run.stdout.splitlines() if "has external snapshots" in one}
        texts.append(line)
    assert texts[0] == texts[1]
    assert "'local' has external snapshots (outside), and vda would be copied" in texts[0]
    movers.clean("hv2", "local")


def test_copying_of_files_that_is_killed_leaves_them_on_the_source(movers: Movers) -> None:
    """Killed while a file is sent; repaired, nothing of it is on the destination, and it moves."""
    movers.make("cut", start=False, disks=[{"name": "system", "size": 512}])
    disk = _disk(movers, "hv1", "cut")
    movers.fleet.host("hv1", f"qemu-io -c 'write -P 0x5a 0 400M' {disk}")
    _snapshot(movers, "cut", "first")
    before = _snapshots(movers, "hv1", "cut")
    opened = "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q cut_system"
    killer = f"until {opened} && grep -q migrating /etc/libvirt/qemu/cut.xml; do sleep 0.1; done"
    killer += f"; {KILL.format(name='cut')}"
    movers.lab.ssh("hv1", f"systemd-run --quiet --unit=killer sh -c {shlex.quote(killer)}")
    killed = movers.ansible.module("hv1", "virt_migrate", movers.args("cut"))["hv1"]
    assert killed["failed"]
    assert "vms" not in killed, "it was not killed"
    assert "cut_system.qcow2" in movers.fleet.files("hv2")
    assert _snapshots(movers, "hv1", "cut") == before
    movers.ansible.playbook("repair_vms", {}, limit=300).succeeded()
    movers.clean("hv2", "cut")
    assert _snapshots(movers, "hv1", "cut") == before
    assert not movers.module("cut")["failed"]
    movers.clean("hv1", "cut")
    assert _snapshots(movers, "hv2", "cut") == before
    movers.qemu_check("hv2", "cut")
    _nothing_kept(movers)


@pytest.mark.trials
@pytest.mark.usefixtures("folder")
def test_move_with_snapshots_that_is_killed_before_an_effect_is_ended_by_a_repair(
    movers: Movers, tmp_path: Path
) -> None:
    """To and fro, one that is off with local disks and one that runs on shared storage, before each
    effect in turn; another controller moves the same VM a moment later."""
    other = Ansible(movers.ansible.inventory, tmp_path)
    movers.make("away", start=False, disks=[{"name": "system", "size": 64}])
    _marked(movers, "hv1", "away", "0x33", at="40M")
    movers.make("live", start=False, **_SHARED)
    movers.fleet.host("hv1", "virsh -q start live")
    movers.count("live")
    at, number, hits = {"away": "hv1", "live": "hv1"}, {"away": 1, "live": 1}, 0
    for name in at:
        _snapshot(movers, name, "first")
        _snapshot(movers, name, "second")
    before = {name: _snapshots(movers, "hv1", name) for name in at}
    for trial in range(_TRIALS):
        name = ("away", "live")[trial % 2]
        source, new = at[name], _OTHER[at[name]]
        reached = movers.shown(source, name) if name == "live" else 0
        dying = Mortal(movers.lab, source, "virt_migrate", "migrating", number[name])
        by = {"ansible_python_interpreter": dying.interpreter}

        def move(who: int) -> Run:
            time.sleep(who * (1 + trial % 3))  # noqa: B023
            words = {"vm_name": name, "vm_host": new, **({} if who else by)}  # noqa: B023
            return (other if who else movers.ansible).playbook("migrate_vm", words, limit=300)

        with ThreadPoolExecutor(2) as both:
            runs = list(both.map(move, range(2)))
        effects = dying.effects()
        killed = dying.killed
        hits += killed
        text = f"{runs[0]}\n{runs[1]}\n{effects}"
        assert not killed or runs[0].returncode, text
        repaired = movers.ansible.playbook("repair_vms", {}, limit=300)
        text += str(repaired)
        assert repaired.returncode == 0, text
        again = movers.playbook(vm_name=name, vm_host=new)
        text += str(again)
        assert again.returncode == 0, text
        print(
            f"trial {trial}: {name} to {new}, killed {killed} at effect {number[name]} of"
            f" {len(effects)} ({effects[-1:]}), {[run.returncode for run in runs]}, {hits} hits"
        )
        movers.clean(source, name) if name == "away" else None
        assert movers.state(source, name) == "", text
        assert _snapshots(movers, new, name) == before[name], text
        _nothing_kept(movers)
        if name == "live":
            assert movers.state(new, name) == "running", text
            last, _went_on = movers.last_number(new, name)
            assert last >= reached, text
            movers.guests.execute(new, name, "count start")
        else:
            assert _mark(movers, new, name, "0x33", at="40M"), text
            movers.qemu_check(new, name)
        number[name] = number[name] + 1 if killed else 1
        at[name] = new
    assert 2 * hits >= _TRIALS, f"too few were hit: {hits} of {_TRIALS}"
