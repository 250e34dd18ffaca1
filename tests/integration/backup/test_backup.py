# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of guests that run and that are off, on libvirt 9.0 (hv1) and 11.3 (hv2).

Each guest has an overlay on a base image and a raw disk, and counts on both of them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.backup_server import (
    KEEPING,
    PLACE,
    SECRET,
    SLOW,
    BackupServer,
)
from ansible_collections.fleet.virt.tests.integration.support.guests import IMAGES, Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.unit.backup import _made

VMS = {"hv1": "saved1", "hv2": "saved2"}
DISKS = {"disks/vda.raw", "disks/vdb.raw"}
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
# Each number is on the second disk before it is on the first; none is while there is a file /still
_COUNT = """
n=0; while n=$((n+1)); do
  while [ -e /still ]; do sleep 0.1; done
  printf '%-511s\\n' "count $n" | dd of=/dev/vdb seek=8 conv=fsync,notrunc 2>/dev/null
  echo $n > /root/count.new; sync; mv /root/count.new /root/count; sync; sleep 0.1
done >/dev/null 2>&1 &
"""
_COUNTED = "cat /root/count; dd if=/dev/vdb skip=8 count=1 2>/dev/null | tr -dc 0-9; echo"
# Ends the module that restores, once it has begun with a disk
_KILL = """
set +e
for try in $(seq 3000); do
  owner=$(virsh -q dumpxml --inactive {name} 2>/dev/null | grep ':owner ' | grep -o ' pid=.[0-9]*')
  [ -z "$(ls {images}/{name}* 2>/dev/null)" ] || [ -z "$owner" ] || break
  sleep 0.02
done
kill -9 $(echo "$owner" | tr -dc 0-9) && echo killed
"""
_CUT = """
nft add table inet cut
nft add chain inet cut out '{ type filter hook output priority 0; }'
nft add rule inet cut out tcp dport 2222 drop
"""


@pytest.fixture(scope="module")
def server(all_guests: Guests, ansible: Ansible) -> Iterator[BackupServer]:
    """The place, and a guest that runs on each hypervisor with an overlay and a raw disk."""
    found = BackupServer(all_guests, ansible, tuple(VMS), 1024)
    found.begin()
    for host, name in VMS.items():
        all_guests.script(host, f"truncate -s 32M {IMAGES}/{name}-data.raw")
        all_guests.define(host, name, start=True, devices=_DISK.format(name))
    for host, name in VMS.items():
        all_guests.wait_agent(host, name)
        all_guests.execute(host, name, _COUNT)
    yield found
    for host, name in VMS.items():
        all_guests.remove(host, name)
        all_guests.script(host, f"rm -f {IMAGES}/{name}*")
    found.end()


def backup(server: BackupServer, *names: str, status: int = 0, **more: str) -> Run:
    """Back up VMs of these names, or both."""
    return server.backup(*(names or VMS.values()), status=status, **more)


def write(guests: Guests, text: str) -> None:
    """Have both guests write to both disks, past their caches."""
    command = f"echo {text} > /root/data; sync; echo {text} | dd of=/dev/vdb conv=fsync 2>/dev/null"
    for host, name in VMS.items():
        guests.execute(host, name, command)


def test_backup_is_of_its_moment_and_small_if_nothing_changed(
    server: BackupServer, ansible: Ansible, all_guests: Guests
) -> None:
    write(all_guests, "before-the-first")
    check = ansible.playbook(
        "backup", {"virt_names": "saved*", "virt_backup_to": server.place}, check=True
    )
    assert check.returncode == 0, check.stdout
    assert len(re.findall(r"saved\d +hv\d +would be saved", check.stdout)) == len(VMS)
    assert not all_guests.script("hv2", f"ls {PLACE}").strip()
    backup(server)
    for host, name in VMS.items():
        all_guests.execute(host, name, "touch /still; sync")
    backup(server)  # with what was written during the first
    again = backup(server).stdout
    for host, name in VMS.items():
        all_guests.execute(host, name, "rm /still; sync")
    write(all_guests, "after-the-second")
    for host, name in VMS.items():
        row = rf"{name} +{host} +saved +(\S+) +frozen +(\S+) +(\S+)"
        match = re.search(row, again)
        assert match, again
        assert float(match[3]) <= 5, again
        first, _second, third = server.archives(name, host)
        assert third == match[1]
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
    server.require_nothing_left()


_VOLUME = """
<disk type='volume' device='disk'><driver name='qemu' type='raw'/>
<source pool='apart' volume='odd1-data.raw'/><target dev='vdb' bus='virtio'/></disk>
"""
_ODD = {"fixed": ("vdb", ""), "later": ("vdc", "--config"), "plugged": ("vdd", "--live")}


def test_disks_of_a_single_definition_read_only_or_in_a_pool_are_restored(
    server: BackupServer, ansible: Ansible, all_guests: Guests
) -> None:
    """The VM with a volume of a pool is off, and fails no backup of the other."""
    disks = {}
    for kind, (target, _how) in _ODD.items():
        path = f"{IMAGES}/odd2-{kind}.raw"
        readonly = "<readonly/>" if kind == "fixed" else ""
        disks[kind] = (
            f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{path}'"
            f"/><target dev='{target}' bus='virtio'/>{readonly}</disk>"
        )
        write_disk = f"truncate -s 8M {path}; printf %s of-{kind} | dd of={path} conv=notrunc"
        all_guests.script("hv1", write_disk)
    all_guests.pool("hv1", "apart", f"{IMAGES}/apart")
    volume = f"{IMAGES}/apart/odd1-data.raw"
    all_guests.script("hv1", "virsh -q vol-create-as apart odd1-data.raw 8M --format raw")
    all_guests.script("hv1", f"printf %s volume | dd of={volume} conv=notrunc")
    all_guests.define("hv1", "odd1", devices=_VOLUME)
    all_guests.define("hv1", "odd2", start=True, blank=True, devices=disks["fixed"])
    for kind in ("later", "plugged"):
        all_guests.script("hv1", "cat > /run/disk.xml", input=disks[kind])
        all_guests.virsh("hv1", "attach-device", "odd2", "/run/disk.xml", _ODD[kind][1])
    printed = backup(server, "odd1", "odd2").stdout
    assert set(re.findall(r"(odd\d) +hv1 +saved", printed)) == {"odd1", "odd2"}, printed
    for name in ("odd1", "odd2"):
        all_guests.remove("hv1", name)
    all_guests.script("hv1", f"rm -f {IMAGES}/odd* {volume}")
    variables = {**server.variables, "virt_names": "odd1,odd2", "vm_host": "hv1"}
    all_guests.made += [("hv1", "odd1"), ("hv1", "odd2")]
    ansible.playbook("restore", variables, limit=300).succeeded()
    for kind, (target, _how) in _ODD.items():
        path = f"{IMAGES}/odd2_{target}.raw"
        assert all_guests.script("hv1", f"head -c {len(kind) + 3} {path}") == f"of-{kind}"
    assert all_guests.script("hv1", f"head -c 6 {IMAGES}/apart/odd1_vdb.raw") == "volume"
    for name in ("odd1", "odd2"):
        all_guests.remove("hv1", name)
    all_guests.script(
        "hv1",
        f"rm -rf {IMAGES}/odd*; virsh -q pool-destroy apart; virsh -q pool-undefine apart;"
        f" rm -rf {IMAGES}/apart",
    )


def _delete_as_root(server: BackupServer, guests: Guests) -> None:
    """Do what root on a hypervisor can do to backups; undo it on the server, as the guide says."""
    uuid = guests.virsh("hv1", "domuuid", "saved1").strip()
    address, folder = f"{server.place}/{uuid}", f"{PLACE}/{uuid}"
    before = server.archives("saved1", "hv1")
    transactions = guests.script("hv2", f"cat {folder}/transactions")
    last = re.findall(r"^transaction (\d+),", transactions, re.MULTILINE)[-1]
    server.borg("delete", address, *before, host="hv1")
    assert not server.borg("list", "--short", address, host="hv1").split()
    server.borg("delete", "--force", address, host="hv1", check=False)
    server.borg("compact", address, host="hv1", check=False)
    (block,) = re.findall(r"code-block:: sh\n\n((?:    .*\n|\n)+)", KEEPING.read_text())
    script = re.sub(r"^    ", "", str(block), flags=re.MULTILINE)
    script = script.replace("/srv/backup/UUID", folder).replace("UUID", uuid)
    guests.script("hv2", script.replace("> 9", f"> {last}"))
    guests.script("hv1", "rm -rf /var/cache/fleet-virt/borg /root/.cache/borg /root/.config/borg")
    guests.script("hv2", "rm -rf /root/.cache/borg /root/.config/borg")
    assert server.archives("saved1", "hv1") == before


def test_first_backup_is_restored_beside_the_guest_and_has_the_data_of_its_moment(
    server: BackupServer, ansible: Ansible, all_guests: Guests
) -> None:
    _delete_as_root(server, all_guests)
    for host, name in VMS.items():
        first = server.archives(name, host)[0]
        beside = {"vm_new_name": f"{name}-before", "virt_archive": first, "vm_host": host}
        variables = {**server.variables, "vm_name": name, **beside}
        all_guests.made.append((host, f"{name}-before"))
        if host == "hv1":
            kill = _KILL.format(name=f"{name}-before", images=IMAGES)
            with ThreadPoolExecutor(1) as pool:
                killed = pool.submit(all_guests.script, host, kill, limit=120)
                cut = ansible.playbook("restore", variables, limit=300)
                assert "killed" in killed.result(), str(cut)
            assert cut.returncode == 2, str(cut)
            started = all_guests.lab.ssh(host, f"virsh start {name}-before", check=False)
            assert started.returncode, "what was restored in part cannot be started"
        done = ansible.playbook("restore", variables, limit=300).succeeded()
        assert "restored, shut off" in done.stdout, done.stdout
        assert SECRET not in done.stdout + done.stderr
        all_guests.virsh(host, "start", f"{name}-before")
    for host, name in VMS.items():
        all_guests.wait_agent(host, f"{name}-before")
        data = "cat /root/data; head -n 1 /dev/vdb"
        assert all_guests.output(host, f"{name}-before", data) == ["before-the-first"] * 2
        assert all_guests.output(host, name, data) == ["after-the-second"] * 2
        on_file, on_disk = map(int, all_guests.output(host, f"{name}-before", _COUNTED))
        assert on_disk - 1 <= on_file <= on_disk, "both disks are of one moment"
        assert on_file < int(all_guests.output(host, name, _COUNTED)[0])
        all_guests.remove(host, f"{name}-before")
        all_guests.script(host, f"rm -f {IMAGES}/{name}-before*")


def test_backup_is_abandoned_where_its_unit_is_killed_or_its_scratch_fills(
    server: BackupServer, all_guests: Guests
) -> None:
    before = [server.archives(name, host) for host, name in VMS.items()]
    fill = "dd if=/dev/urandom of=/dev/vdb bs=1M count=24 conv=fsync"
    all_guests.execute("hv2", "saved2", fill)
    slow = {"virt_backup_host_key": SLOW, "virt_backup_scratch_mib": "16"}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(backup, server, status=2, **slow)
        for host, name in VMS.items():
            server.wait_begun(host, name)
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
    server.require_nothing_left()
    for host, name in VMS.items():
        all_guests.execute(host, name, "dd if=/dev/vdb of=/dev/null bs=1M 2>/dev/null")
    assert [server.archives(name, host) for host, name in VMS.items()] == before


def test_guest_keeps_running_where_link_is_cut_or_libvirtd_is_killed(
    server: BackupServer, all_guests: Guests
) -> None:
    before = {name: server.archives(name, host) for host, name in VMS.items()}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(backup, server, status=2, virt_backup_host_key=SLOW)
        server.wait_begun("hv1", "saved1")
        wait_for(lambda: int(all_guests.script("hv2", _SHOWN)) == 2, 60, "the reader")
        all_guests.script("hv1", _CUT)
        all_guests.script("hv2", "systemctl kill --kill-who=main --signal=KILL libvirtd")
        printed = running.result().stdout
    all_guests.script("hv1", "nft delete table inet cut")
    assert re.search(r"saved1 +hv1 +failed", printed), printed
    assert "check the server, its key" in printed, printed
    assert re.search(r"saved2 +hv2 +saved", printed), printed
    for host, name in VMS.items():
        all_guests.execute(host, name, "echo more > /root/more; sync")
    assert server.archives("saved1", "hv1") == before["saved1"]
    backup(server, "saved1")
    assert len(server.archives("saved1", "hv1")) == len(before["saved1"]) + 1
    server.require_nothing_left()


def test_next_backup_succeeds_after_a_power_cut_and_where_the_place_was_full(
    server: BackupServer, all_guests: Guests
) -> None:
    before = {name: server.archives(name, host) for host, name in VMS.items()}
    all_guests.execute("hv2", "saved2", "dd if=/dev/urandom of=/dev/vdb bs=1M count=16 conv=fsync")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(backup, server, status=2, virt_backup_host_key=SLOW)
        for host, name in VMS.items():
            server.wait_begun(host, name)
        all_guests.script("hv2", f"dd if=/dev/zero of={PLACE}/fill bs=1M 2>/dev/null || true")
        all_guests.lab.kill("hv1")
        printed = running.result().stdout
    assert "No space left" in printed, printed
    assert "make space at the place" in printed, printed
    all_guests.script("hv2", f"rm {PLACE}/fill")
    all_guests.lab.start("hv1")
    scratch = "ls /var/lib/fleet-virt/scratch"
    assert all_guests.script("hv1", scratch).strip(), "what the next run removes"
    again = backup(server).stdout
    assert re.search(r"saved1 +hv1 +saved +\S+ +shut off", again), again
    assert re.search(r"saved2 +hv2 +saved +\S+ +frozen", again), again
    for host, name in VMS.items():
        assert server.archives(name, host)[:-1] == before[name]
    server.require_nothing_left()


def test_snapshot_and_start_win_over_a_backup_that_is_then_tried_again(
    server: BackupServer, ansible: Ansible, all_guests: Guests
) -> None:
    """hv1's VM is off, since its hypervisor was."""
    before = [len(server.archives(name, host)) for host, name in VMS.items()]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(backup, server, virt_backup_host_key=SLOW)
        for host in VMS:
            wait_for(lambda h=host: int(all_guests.script(h, _SHOWN)) == 2, 60, "the reader")
        all_guests.virsh("hv1", "start", "saved1")
        options = {"name": "saved2", "snapshot": "wins", "disk_only": True}
        taken = ansible.module("hv2", "virt_snapshot", options)
        assert not taken["hv2"].get("failed"), taken
        done = running.result()
    first = [event.result for event in done.events if "vms" in event.result]
    said = json.dumps([vm.get("msg") for answer in first for vm in answer["vms"]])
    assert "such as a move or a snapshot, which wins" in said, said
    assert "it was started meanwhile" in said, said
    assert re.search(r"saved1 +hv1 +saved +\S+ +(frozen|crash-consistent)", done.stdout), done
    assert re.search(r"saved2 +hv2 +saved +\S+ +frozen", done.stdout), done.stdout
    server.require_nothing_left()
    after = [len(server.archives(name, host)) for host, name in VMS.items()]
    assert after == [count + 1 for count in before]


def test_archive_replaced_with_the_key_of_a_hypervisor_stops_pruning(
    server: BackupServer, ansible: Ansible, all_guests: Guests
) -> None:
    """The key can only append, so nothing is lost as long as nobody prunes; and a backup of the
    future, which it can add as well, takes the place of none."""
    uuid = all_guests.virsh("hv1", "domuuid", "saved1").strip()
    address, late = f"{server.place}/{uuid}", "2031-01-01T00:00:00Z"
    backup(server, "saved1")
    *_earlier, last = server.archives("saved1", "hv1")

    def prune(status: int, known: Path, **more: str) -> str:
        variables = {**server.variables, "virt_names": "saved1", "virt_keep": {"last": 1}, **more}
        variables["virt_backup_known"] = str(known)
        done = ansible.playbook("prune_backups", variables)
        assert done.returncode == status, done.stdout + done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done.stdout

    def write(name: str, comment: str) -> None:
        escaped = comment.replace("{", "{{").replace("}", "}}")
        words = ("create", "--comment", escaped, f"{address}::{name}", "/etc/hostname")
        server.borg(*words, host="hv1")

    with _made.lasting() as folder:
        known = folder / "backups.json"
        assert "only remembered" in prune(0, known)
        listed = json.loads(
            server.borg("list", "--json", "--format", "{comment}", address, host="hv1")
        )
        comment = {entry["name"]: entry["comment"] for entry in listed["archives"]}[last]
        server.borg("delete", f"{address}::{last}", host="hv1")
        write(last, comment)
        write(late, comment.replace(last, late))
        there = server.archives("saved1", "hv1")
        assert f"{uuid}::{last}: the id is another than when" in prune(2, known)
        assert server.archives("saved1", "hv1") == there
        printed = prune(0, known, virt_prune_accept=server.variables["virt_backup_read_from"])
        assert re.search(rf"{last} +kept: last 1\n", printed), printed
        assert re.search(rf"{late} +kept: later than the clock\n", printed), printed
        assert {*server.archives("saved1", "hv1")} == {last, late}


def test_examples_and_commands_run_as_written(
    server: BackupServer, ansible: Ansible, guests: Guests
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
    server.require_nothing_left()
