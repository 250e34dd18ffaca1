# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups are booted and asked: one that is good, one whose kernel was damaged before it was saved,
one that is damaged in its repository; and nothing of that is left."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support import backups
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.guests import IMAGES, Guests
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_VERIFY = "ansible-playbook fleet.virt.verify_backups"
# As the guide shows them, each with what it must print
COMMANDS = {
    f"{_VERIFY} --check": r"proof1 +\S+Z +hv\d +would be proven",
    f"{_VERIFY} -e vm_name=web1 -e virt_depth=read": r"proof1 +\S+Z +hv\d +proven",
    f"{_VERIFY} -e virt_sample=3 -e virt_proof_page=backups.html": r"3 backups: 1 read back, 2 f",
}
_HOSTS = ("hv1", "hv2")
_FIRST, _SECOND = "2026-11-28T06:51:18Z", "2026-11-28T07:51:18Z"
_SCREEN = "<graphics type='vnc' listen='127.0.0.1'/><video><model type='vga'/></video>"
# The guest's console is a shell at once; that of most guests asks for a login
_LOGIN = r"sed -i 's/^exec/echo; echo \"tiny login: \"; exec/' /sbin/console; sync"
# The kernel's setup header (Documentation/arch/x86/boot.rst), from which its sectors are found
_DAMAGE = """
import mmap, re, subprocess, sys
raw = "/var/tmp/damaged.raw"
subprocess.run(["qemu-img", "convert", "-O", "raw", sys.argv[1], raw], check=True)
with open(raw, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
    kernel = re.search(rb"\\x55\\xaa\\xeb.HdrS", content, re.DOTALL).start() - 0x1FE
subprocess.run(["rm", raw], check=True)
write = f"write -P 0x55 {kernel + 65536} 4M"
subprocess.run(["qemu-io", "-f", "qcow2", "-c", write, sys.argv[1]], check=True)
"""
_LEFT = """
set +e
virsh list --all --name | grep proof-
ls -d /run/fleet-virt-proofs/* /var/lib/fleet-virt/proofs/* /var/lib/libvirt/swtpm/* 2>/dev/null
ls /var/log/libvirt/qemu | grep proof-
mount | grep fleet-virt-proof
pgrep -l '^borg'
systemctl list-units --all --no-legend 'fleet-virt-proof*'
true
"""


class Verified:
    """A place of backups that all have, and what is done with it."""

    def __init__(self, lab: Laboratory, ansible: Ansible, guests: Guests, folder: Path) -> None:
        self.lab, self.ansible, self.guests, self.folder = lab, ansible, guests, folder

    def run(self, command: str, **variables: Any) -> Run:
        """Run a command of a playbook."""
        program, *words = shlex.split(command)
        given = {
            "virt_backup_to": backups.AT,
            "virt_backup_read_from": str(self.folder),
            "virt_backup_passphrase": backups.PASSPHRASE,
            "virt_boot_seconds": 120,
            "virt_proof_mib": 256,
            **variables,
        }
        done = self.ansible.run(program, [*words, "-e", json.dumps(given)], limit=300)
        assert backups.PASSPHRASE not in done.stdout + done.stderr + str(done.events)
        return done

    def archives(self, uuid: str) -> list[str]:
        """The files of a VM's repository."""
        return sorted(map(str, (self.folder / uuid).rglob("*")))

    def left(self) -> str:
        """What there is of proofs on all hypervisors."""
        return "".join(self.guests.script(host, _LEFT) for host in _HOSTS).strip()


@pytest.fixture
def verified(
    lab: Laboratory, ansible: Ansible, guests: Guests, tmp_path: Path
) -> Iterator[Verified]:
    folder = tmp_path / "backup"
    folder.mkdir()
    with shared_folder(lab, folder, backups.AT, _HOSTS):
        yield Verified(lab, ansible, guests, folder)


def _found(run: Run) -> dict[tuple[str, str], dict[str, Any]]:
    (result,) = run.of("Record and show what was found").values()
    return {(entry["name"], entry["archive"]): entry for entry in result["backups"]}


def test_backups_are_proven_or_named_with_what_is_wrong(verified: Verified) -> None:
    guests, lab = verified.guests, verified.lab
    guests.define("hv1", "proof1", start=True, devices=_SCREEN)
    guests.define("hv1", "proof2", blank=True)
    guests.wait_agent("hv1", "proof1")
    guests.execute("hv1", "proof1", _LOGIN)
    guests.virsh("hv1", "destroy", "proof1")
    # QEMU would end here if the proof had it open this, which nothing has
    xml = guests.virsh("hv1", "dumpxml", "--inactive", "proof1")
    table = "<acpi><table type='slic'>/root/.ssh/of-hypervisor</table></acpi>"
    guests.define_xml("hv1", "proof1", xml.replace("</os>", f"{table}</os>"))
    uuid = backups.save(lab, "hv1", "proof1", _FIRST)
    check, healthy, sample = (command.replace("web1", "proof1") for command in COMMANDS)
    before = verified.archives(uuid)
    would = verified.run(check).succeeded()
    assert re.search(COMMANDS[check], would.stdout), would
    assert not verified.left()
    assert verified.archives(uuid) == before

    proven = verified.run(healthy).succeeded()
    entry = _found(proven)["proof1", _FIRST]
    assert entry["state"] == "proven", proven
    answers = r"agent: tiny, console: login prompt, screenshot after \d+ s; every byte"
    assert re.match(answers, entry["how"]), entry
    assert not verified.left()

    lab.python("hv1", _DAMAGE, [f"{IMAGES}/proof1.qcow2"])
    backups.save(lab, "hv1", "proof1", _SECOND)
    damaged = backups.save(lab, "hv1", "proof2", _FIRST)
    _flip(verified.folder / damaged)
    # what boots it is a file that no backup has
    xml = guests.virsh("hv1", "dumpxml", "--inactive", "proof2")
    xml = re.sub("<uuid>.*</uuid>", "", xml).replace("<name>proof2", "<name>proof3")
    xml = xml.replace("</os>", "<kernel>/boot/vmlinuz</kernel></os>")
    guests.define_xml("hv1", "proof3", xml)
    backups.save(lab, "hv1", "proof3", _FIRST)
    page = verified.folder.parent / "backups.html"
    more = {"virt_depth": "read", "virt_boot_seconds": 20}
    bad = verified.run(sample.replace("backups.html", str(page)), **more)
    assert bad.returncode == 2, bad
    assert re.search(list(COMMANDS.values())[2], bad.stdout), bad
    found = _found(bad)
    unbootable, broken = found["proof3", _FIRST], found["proof1", _SECOND]
    assert (broken["state"], broken["screenshot"]) == ("failed", True), broken
    assert "does not boot: nothing in it answered within 20 s" in broken["how"], broken
    assert "every byte was read back" in broken["how"], broken
    assert found["proof2", _FIRST]["state"] == "failed"
    assert "damaged: " in found["proof2", _FIRST]["how"], found
    assert (unbootable["state"], unbootable["failed"]) == ("read back", False), unbootable
    assert "its kernel is a file of its former hypervisor" in unbootable["how"], unbootable
    assert page.read_text(encoding="utf-8").count("data:image/png;base64,") == 1
    assert not verified.left()

    listed = verified.run("ansible-playbook fleet.virt.backups").succeeded()
    for name, moment, state in (
        ("proof1", _FIRST, "proven"),
        ("proof1", _SECOND, "failed"),
        ("proof2", _FIRST, "failed"),
        ("proof3", _FIRST, "read back"),
    ):
        assert re.search(rf"{name} +{moment} .* {state} ", listed.stdout), listed


def _flip(repository: Path) -> None:
    """Damage the largest file of a repository in its middle."""
    largest = max(repository.glob("data/*/*"), key=lambda path: path.stat().st_size)
    with largest.open("r+b") as file:
        file.seek(largest.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0xFF]))


def test_proof_that_is_killed_leaves_nothing_and_no_vm_of_the_fleet(verified: Verified) -> None:
    guests, lab = verified.guests, verified.lab
    guests.define("hv1", "proof1")
    uuid = backups.save(lab, "hv1", "proof1", _FIRST)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(verified.run, _VERIFY)
        seen = wait_for(lambda: verified.left() if "running" in _states(guests) else "", 60, "boot")
        listed = verified.ansible.playbook("list").succeeded()
        assert "fleet-virt-proof" not in listed.stdout
        unit = re.search(r"fleet-virt-proof-[0-9a-f-]{36}", seen)
        assert unit
        words = "cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' ' '"
        shown = "".join(guests.script(host, words) for host in _HOSTS)
        assert "borg" in shown
        assert backups.PASSPHRASE not in shown
        for host in _HOSTS:
            kill = f"systemctl kill --kill-who=main --signal=KILL {unit[0]}.service || true"
            guests.script(host, f"systemctl daemon-reload\n{kill}")
        done = running.result()
    assert done.returncode == 2, done
    assert "its unit ended without a result" in done.stdout + done.stderr, done
    assert wait_for(lambda: not verified.left(), 10, "its end"), verified.left()
    # what a power failure leaves: no unit is there to remove it
    name = f"fleet-virt-proof-{uuid}"
    leave = f"install -d /var/lib/fleet-virt/proofs/{name}"
    guests.script("hv2", leave)
    for check, words in ((True, "would be removed"), (False, "was removed")):
        repaired = verified.ansible.playbook("repair_vms", check=check).succeeded()
        assert f"hv2: {name} {words}, which a killed proof had left" in repaired.stdout, repaired
        assert bool(verified.left()) is check
    guests.script("hv2", leave)
    tasks = [example.task for example in documentation.examples("virt_verify_backups")]
    run = verified.ansible.play(tasks, "hv2", become=True).succeeded()
    assert [event.result["removed"] for event in run.events] == [[name]]


def _states(guests: Guests) -> str:
    script = "virsh -q list --all | grep proof- || true"
    return "".join(guests.script(host, script) for host in _HOSTS)
