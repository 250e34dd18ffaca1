# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of guests that run and that are off, on libvirt 9.0 (hv1) and 11.3 (hv2).

The place is a server, which hv2 is as well. With the second key it takes a while to answer: so long
a backup is at work, and something else can be done to its VM.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.guests import IMAGES, Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

VMS = {"hv1": "saved1", "hv2": "saved2"}
DISKS = {"disks/vda.raw", "disks/vdb.raw"}
SECRET = "marker-of-the-passphrase"  # noqa: S105
PLACE = "/srv/backup-test"
SLOW = "/root/.ssh/slow"
_SECONDS = 12
_ONE = "ansible-playbook fleet.virt.backup -e vm_name=web1"
# As the guide shows them, each with what it must print
COMMANDS = {
    f"{_ONE} --check": r"web1 +hv1 +would be saved",
    _ONE: r"web1 +hv1 +saved +\d{4}-\d\d-\d\dT\S+Z +(frozen|crash-consistent|shut off) ",
}
_DISK = f"""
<disk type='file' device='disk'><driver name='qemu' type='raw'/>
<source file='{IMAGES}/{{}}-data.raw'/><target dev='vdb' bus='virtio'/></disk>
"""
_SHOWN = "mount | grep -c fleet-virt/backup || true"
_LEFT = """
set +e
for vm in $(virsh list --name); do virsh backup-dumpxml $vm 2>/dev/null; done
ls -d /run/fleet-virt/backup-*/ 2>/dev/null
ls /var/lib/fleet-virt/scratch
ls /var/lib/libvirt/qemu/domain-*/fleet-virt-backup.sock 2>/dev/null
mount | grep /run/fleet-virt/
pgrep -l '^(borg|qemu-storage-d)'
systemctl list-units --all --no-legend 'fleet-virt-backup*' 'fleet-virt-thaw*'
true
"""


_EACH = """bash -c 'f=$(mktemp); cat > $f
set -- $(sha256sum < $f) $(grep -ac "$0" $f) $(grep -ac "$1" $f)
echo "$TAR_FILENAME $1 $3 $4"; rm $f'"""


class Server:
    """The place of backups, on hv2."""

    def __init__(self, guests: Guests) -> None:
        self.guests = guests
        self.address = guests.script("hv2", "hostname -I").split()[0]

    @property
    def place(self) -> str:
        """As hypervisors are told it."""
        return f"ssh://root@{self.address}{PLACE}"

    def borg(self, *words: str) -> str:
        """What borg prints of a repository."""
        script = f"exec 9< <(printf {SECRET}); BORG_PASSPHRASE_FD=9 borg {shlex.join(words)}"
        return self.guests.script("hv2", f"bash -c {shlex.quote(script)}")

    def repository(self, name: str, host: str) -> str:
        """The repository of a VM."""
        return f"{PLACE}/{self.guests.virsh(host, 'domuuid', name).strip()}"

    def archives(self, name: str, host: str) -> list[str]:
        """The archives of a VM."""
        repository = self.repository(name, host)
        if not self.guests.script("hv2", f"ls -d {repository} 2>/dev/null || true"):
            return []
        return self.borg("list", "--short", repository).split()

    def read_back(self, name: str, host: str, archive: str, *texts: str) -> dict[str, list[str]]:
        """Of each file in an archive its digest, and how many of its lines have each text."""
        where = f"{self.repository(name, host)}::{archive}"
        each = f"{_EACH} {shlex.join(texts)}"
        tar = f"borg export-tar {where} - | tar -x --to-command={shlex.quote(each)}"
        script = f"exec 9< <(printf {SECRET}); BORG_PASSPHRASE_FD=9 {tar}"
        printed = self.guests.script("hv2", f"bash -c {shlex.quote(script)}")
        return {line.split()[0]: line.split()[1:] for line in printed.splitlines()}


@pytest.fixture(scope="module")
def server(all_guests: Guests) -> Iterator[Server]:
    """The place, and a guest that runs on each hypervisor with an overlay and a raw disk."""
    keys = "".join(
        all_guests.script(
            host,
            "mkdir -p -m 700 /root/.ssh; cd /root/.ssh\n"
            "[ -f id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -f id_ed25519\n"
            f"[ -f {SLOW} ] || ssh-keygen -q -t ed25519 -N '' -f {SLOW}\n"
            "cat id_ed25519.pub\n"
            f"printf 'command=\"sleep {_SECONDS}; borg serve\" '; cat {SLOW}.pub",
        )
        for host in VMS
    )
    all_guests.script("hv2", "cat >> /root/.ssh/authorized_keys", input=keys)
    all_guests.script("hv2", f"mkdir -p {PLACE}")
    found = Server(all_guests)
    for host, name in VMS.items():
        known = f"ssh-keyscan -t ed25519 {found.address} >> /root/.ssh/known_hosts 2>/dev/null"
        all_guests.script(host, f"{known}; truncate -s 32M {IMAGES}/{name}-data.raw")
        all_guests.define(host, name, start=True, devices=_DISK.format(name))
    for host, name in VMS.items():
        all_guests.wait_agent(host, name)
        all_guests.script(host, "mkdir -p /var/lib/fleet-virt/scratch")
    yield found
    for host, name in VMS.items():
        all_guests.remove(host, name)
        all_guests.script(host, f"rm -f {IMAGES}/{name}*; rm -rf /root/.ssh/slow* {PLACE}")
    all_guests.script("hv2", "sed -i '/borg serve/d' /root/.ssh/authorized_keys")


def backup(ansible: Ansible, server: Server, *names: str, status: int = 0, **more: str) -> Run:
    """Back up VMs of these names, or both."""
    variables = {"virt_backup_to": server.place, "virt_backup_passphrase": SECRET, **more}
    chosen = ",".join(names or VMS.values())
    done = ansible.playbook("backup", {"virt_names": chosen, **variables}, args=["-vv"])
    assert done.returncode == status, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done


def write(guests: Guests, text: str) -> None:
    """Have both guests write to both disks, past their caches."""
    command = f"echo {text} > /root/data; sync; echo {text} | dd of=/dev/vdb conv=fsync 2>/dev/null"
    for host, name in VMS.items():
        guests.execute(host, name, command)


def require_nothing_left(guests: Guests) -> None:
    """No job, no unit, no file, no process; the guests' disks have no errors."""
    for host in VMS:
        left = wait_for(lambda host=host: not guests.script(host, _LEFT).strip(), 10, "its end")
        assert left, guests.script(host, _LEFT)


def test_backup_is_of_its_moment_and_small_if_nothing_changed(
    server: Server, ansible: Ansible, all_guests: Guests
) -> None:
    write(all_guests, "before-the-first")
    check = ansible.playbook(
        "backup", {"virt_names": "saved*", "virt_backup_to": server.place}, check=True
    )
    assert check.returncode == 0, check.stdout
    assert len(re.findall(r"saved\d +hv\d +would be saved", check.stdout)) == len(VMS)
    assert not all_guests.script("hv2", f"ls {PLACE}").strip()
    backup(ansible, server)
    again = backup(ansible, server).stdout
    write(all_guests, "after-the-second")
    for host, name in VMS.items():
        row = rf"{name} +{host} +saved +(\S+) +frozen +(\S+) +(\S+)"
        match = re.search(row, again)
        assert match, again
        assert float(match[3]) <= 5, again
        first, second = server.archives(name, host)
        assert second == match[1]
        where = f"{server.repository(name, host)}::{first}"
        manifest = json.loads(server.borg("extract", "--stdout", where, "manifest.json"))
        assert manifest["consistency"] == "frozen"
        assert {disk["format"] for disk in manifest["disks"]} == {"qcow2", "raw"}
        files = server.read_back(name, host, first, "before-the-first", "after-the-second")
        assert files.pop("manifest.json")
        digests = {path: digest for path, (digest, *_lines) in files.items()}
        assert digests == {file["path"]: file["sha256"] for file in manifest["files"]}
        assert {path for path, (_digest, lines, _later) in files.items() if lines != "0"} == DISKS
        assert {later for _digest, _lines, later in files.values()} == {"0"}
    require_nothing_left(all_guests)


def test_backup_is_abandoned_where_its_unit_is_killed_or_its_scratch_fills(
    server: Server, ansible: Ansible, all_guests: Guests
) -> None:
    before = [server.archives(name, host) for host, name in VMS.items()]
    fill = "dd if=/dev/urandom of=/dev/vdb bs=1M count=24 conv=fsync"
    all_guests.execute("hv2", "saved2", fill)
    slow = {"virt_backup_host_key": SLOW, "virt_backup_scratch_mib": "16"}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(backup, ansible, server, status=2, **slow)
        for host, name in VMS.items():
            begun = f"virsh backup-dumpxml {name} >/dev/null 2>&1 && echo yes || true"
            wait_for(lambda h=host, b=begun: all_guests.script(h, b).strip(), 30, f"job of {name}")
        argv = all_guests.script(
            "hv1", "cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' ' '"
        )
        assert "borg" in argv
        assert SECRET not in argv
        unit = f"fleet-virt-backup-{all_guests.virsh('hv1', 'domuuid', 'saved1').strip()}.service"
        all_guests.script("hv1", f"systemctl kill --kill-who=main --signal=KILL {unit}")
        all_guests.execute("hv2", "saved2", fill)  # fails where the guest's write does
        printed = running.result().stdout
    assert "its unit ended without a result" in printed, printed
    assert "80% of the 16 MiB" in printed, printed
    require_nothing_left(all_guests)
    for host, name in VMS.items():
        assert (
            not all_guests.virsh(host, "domblkerror", name).replace("No errors found", "").strip()
        )
        all_guests.execute(host, name, "dd if=/dev/vdb of=/dev/null bs=1M 2>/dev/null")
    assert [server.archives(name, host) for host, name in VMS.items()] == before


def test_snapshot_and_start_win_over_a_backup(
    server: Server, ansible: Ansible, all_guests: Guests
) -> None:
    all_guests.virsh("hv2", "destroy", "saved2")
    before = [server.archives(name, host) for host, name in VMS.items()]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(backup, ansible, server, status=2, virt_backup_host_key=SLOW)
        for host in VMS:
            wait_for(lambda h=host: int(all_guests.script(h, _SHOWN)) == 2, 30, "the reader")
        all_guests.virsh("hv2", "start", "saved2")
        options = {"name": "saved1", "snapshot": "wins", "disk_only": True}
        taken = ansible.module("hv1", "virt_snapshot", options)
        assert not taken["hv1"].get("failed"), taken
        printed = running.result().stdout
    assert "a snapshot of it is taken, which wins" in printed, printed
    assert "a start wins" in printed, printed
    require_nothing_left(all_guests)
    assert [server.archives(name, host) for host, name in VMS.items()] == before


def test_examples_and_commands_run_as_written(
    server: Server, ansible: Ansible, guests: Guests
) -> None:
    for name in ("web1", "db1"):
        guests.define("hv1", name, blank=True)
    text = json.dumps([example.task for example in documentation.examples("virt_backup")])
    for place in ("ssh://backup@backup.example.com/srv/backup", "/mnt/backup"):
        text = text.replace(place, server.place)
    tasks = json.loads(text.replace("{{ vault_backup_passphrase }}", SECRET))
    run = ansible.play(tasks, "hv1", become=True).succeeded()
    results = [vm for event in run.events for vm in event.result["vms"]]
    assert [(vm["name"], vm["consistency"]) for vm in results] == [
        ("web1", "shut off"),
        ("web1", "shut off"),
        ("db1", "shut off"),
    ]
    for command, printed in COMMANDS.items():
        program, *words = shlex.split(command)
        given = ["-e", f"virt_backup_to={server.place}", "-e", f"virt_backup_passphrase={SECRET}"]
        done = ansible.run(program, [*words, *given]).succeeded()
        assert re.search(printed, done.stdout), done.stdout
    require_nothing_left(guests)
