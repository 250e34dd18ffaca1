# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk moves to another pool while its guest writes, on libvirt 9.0 (hv1) and 11.3 (hv2)."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support import doctor
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import IMAGES, Guests
from ansible_collections.fleet.virt.tests.integration.support.killing import (
    KILL,
    Mortal,
    begun,
    meanwhile,
)

from .conftest import Fleet

MODULE = "fleet.virt.virt_move_disk"
NAME = "web1"
FAST = "/srv/fast"
HOSTS = ("hv1", "hv2")
_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
BOTH = "hv1:hv2"
# As the guide shows it, with what it must print
_COMMAND = (
    "ansible-playbook fleet.virt.move_disk -e vm_name=web1 -e virt_disk=vda -e virt_to_pool=fast"
)
COMMANDS = {_COMMAND: rf"web1 +hv1 +moved +{FAST}/web1\.qcow2"}
_COUNTS = "while :; do i=$((i+1)); echo $i > /root/new; mv /root/new /root/count; sync; done"
_READ = "for try in $(seq 40); do cp /root/count /run/told && exit; sleep 0.2; done; exit 1"


@pytest.fixture
def both(guests: Guests, ansible: Ansible) -> Iterator[Guests]:
    """A guest that counts on its disk, on each hypervisor, which has a pool ``fast``."""
    for host in HOSTS:
        guests.pool(host, "fast", FAST)
        guests.define(host, NAME, start=True)
    done = ansible.module(BOTH, "virt_adopt", {"names": [NAME], "disks": True})
    for host in HOSTS:
        assert not done[host].get("failed"), done[host]
        guests.wait_agent(host, NAME)
        guests.execute(host, NAME, "head -c 2000000 /dev/urandom > /root/data; sync")
        guests.execute(host, NAME, _COUNTS, wait=False)
    yield guests
    for host in HOSTS:
        guests.remove(host, NAME)
        guests.script(host, f"rm -f {FAST}/{NAME}.qcow2 {IMAGES}/{NAME}.qcow2")
        guests.script(host, "virsh -q pool-destroy fast; virsh -q pool-undefine fast")


def place(guests: Guests, host: str) -> list[str]:
    """The files of its disk, and where its definition and its QEMU have it."""
    found = guests.script(host, f"ls {FAST}/{NAME}.qcow2 {IMAGES}/{NAME}.qcow2 2>/dev/null || :")
    listed = f"virsh -q domblklist {NAME} {{}} | sed -n 's/^ *vda *//p'"
    shown = guests.script(host, f"{listed.format('--inactive')}; {listed.format('')}")
    return [*found.split(), *shown.split()]


def count(guests: Guests, host: str) -> int:
    """How far the guest has counted, read from its disk."""
    guests.execute(host, NAME, _READ)
    handle = guests.agent(host, NAME, "guest-file-open", path="/run/told")
    read = guests.agent(host, NAME, "guest-file-read", handle=handle)
    guests.agent(host, NAME, "guest-file-close", handle=handle)
    return int(base64.b64decode(read["buf-b64"]))


def move(
    ansible: Ansible, pool: str, hosts: str = BOTH, **more: bool
) -> dict[str, dict[str, object]]:
    return ansible.module(
        hosts, "virt_move_disk", {"name": NAME, "disk": "vda", "pool": pool}, **more
    )


# Once the VM is marked, within the first call that needs QEMU, which stands still
_IN_THE_CALL = f"""
for try in $(seq 600); do
  virsh -q dumpxml {NAME} --inactive | grep -q '>changing<' && break
  sleep 0.02
done
kill -STOP $(cat /run/libvirt/qemu/{NAME}.pid)
sleep 0.5
{KILL}
kill -CONT $(cat /run/libvirt/qemu/{NAME}.pid)
"""


def test_disk_moves_while_the_guest_writes_and_back_when_off(
    both: Guests, ansible: Ansible, fleet: Fleet
) -> None:
    here, fast = f"{IMAGES}/{NAME}.qcow2", f"{FAST}/{NAME}.qcow2"
    before = {host: count(both, host) for host in HOSTS}
    predicted = move(ansible, "fast", check=True)
    for host in HOSTS:
        assert predicted[host].get("changed"), predicted[host]
        assert place(both, host) == [here, here, here]
    done = move(ansible, "fast")
    for host in HOSTS:
        assert done[host]["vms"] == predicted[host]["vms"], host
        assert done[host]["diff"] == predicted[host]["diff"]
        assert place(both, host) == [fast, fast, fast]
    assert not any(answer["changed"] for answer in move(ansible, "fast").values())
    # the same guest goes on, on the new file
    after = {host: count(both, host) for host in HOSTS}
    assert all(after[host] > before[host] for host in HOSTS), (before, after)
    for host in HOSTS:  # killed on the way back
        words = ("-m", MODULE, "-a", json.dumps({"name": NAME, "disk": "vda", "pool": "default"}))
        dying = ansible.begin("ansible", host, "--become", *words, ANSIBLE_PIPELINING="false")
        said = meanwhile(dying, both.lab, host, begun("virt_move_disk", _IN_THE_CALL))
        assert said.strip() == "killed"
        *files, defined, runs = place(both, host)  # before the switch or after it
        assert defined == runs
        assert runs in files
        assert count(both, host) > after[host]
    findings = doctor.look(ansible, complete=False)
    again = _COMMAND.replace("fast", "default")  # what finishes it, and nothing else does
    for host in HOSTS:
        left = doctor.the_one(findings, "work_unfinished", f"no process on {host}")
        assert left["remedy"] == again
    done = move(ansible, "default")
    for host in HOSTS:
        assert not done[host].get("failed"), done[host]
        assert place(both, host) == [here, here, here]
        last = count(both, host)
        both.execute(host, NAME, "sync")
        both.virsh(host, "destroy", NAME)
        assert last > after[host]
    # off: the content is what the guest left
    digest = f"qemu-img convert -O raw {{}}/{NAME}.qcow2 /run/d; sha256sum /run/d; rm /run/d"
    content = {host: both.script(host, digest.format(IMAGES)) for host in HOSTS}
    done = move(ansible, "fast", "hv2")
    assert not done["hv2"].get("failed"), done
    program, *words = shlex.split(_COMMAND)
    run = fleet.alone("hv1").ansible.run(program, words).succeeded()
    assert re.search(COMMANDS[_COMMAND], run.stdout), str(run)
    for host in HOSTS:
        assert place(both, host)[:2] == [fast, fast]
        assert both.script(host, digest.format(FAST)) == content[host]
    both.virsh("hv1", "start", NAME)
    both.wait_agent("hv1", NAME)
    assert count(both, "hv1") > after["hv1"]


@pytest.mark.trials
def test_move_that_is_killed_before_an_effect_is_finished_by_the_next_run(
    both: Guests, ansible: Ansible, tmp_path: Path
) -> None:
    """There and back, before each effect in turn, while another controller moves the same disk at
    the same moment or a little later. Then it is moved once more by each."""
    pools = {"fast": f"{FAST}/{NAME}.qcow2", "default": f"{IMAGES}/{NAME}.qcow2"}
    other = Ansible(ansible.inventory, tmp_path)
    number = dict.fromkeys(HOSTS, 1)
    hits = tried = 0

    def trial(host: str, pool: str, late: float) -> str:
        reached = count(both, host)
        dying = Mortal(both.lab, host, "virt_move_disk", ">changing<", number[host])
        by = {"ansible_python_interpreter": dying.interpreter}
        words = {"name": NAME, "disk": "vda", "pool": pool}

        def run(who: int) -> dict[str, Any]:
            time.sleep(late * who)
            extra = None if who else by
            return (other if who else ansible).module(host, "virt_move_disk", words, extra=extra)[
                host
            ]

        with ThreadPoolExecutor(2) as two:
            answers = list(two.map(run, range(2)))
        effects = dying.effects()
        killed = dying.killed
        what = f"{host}, effect {number[host]} {effects[-1:]} of {len(effects)}: {answers}"
        assert killed == bool(answers[0].get("failed")) or not killed, what
        number[host] = number[host] + 1 if killed else 1
        last = [one.module(host, "virt_move_disk", words)[host] for one in (ansible, other)]
        assert not any(answer.get("failed") for answer in last), (what, last)
        assert not last[1]["changed"], (what, last)
        assert place(both, host) == [pools[pool]] * 3, (what, last)
        assert count(both, host) > reached, what
        left = both.script(host, f"virsh -q dumpxml --inactive {NAME} | grep -c phase || :")
        assert left.strip() == "0", what
        failed = [one["failed"] for one in answers]
        print(f"{'killed' if killed else 'over'}: {what[:200]}, failed {failed}")
        return "killed" if killed else ""

    for turn in range(_TRIALS):
        pool = ("fast", "default")[turn % 2]
        with ThreadPoolExecutor(2) as hosts:
            done = list(hosts.map(trial, HOSTS, [pool] * 2, [0.0, 1.0]))
        hits += sum(map(bool, done))
        tried += len(done)
    print(f"{hits} of {tried} were killed at an effect")
    assert 2 * hits >= tried
    for host in HOSTS:
        both.virsh(host, "destroy", NAME)
        checked = both.script(host, f"qemu-img check {pools[pool]}; echo $?")
        assert checked.strip().endswith("0"), checked
