# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_purge and purge_vm on real hypervisors: exactly a VM's own goes, nothing else, always."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import typing as t
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import (
    BASE,
    BLANK,
    IMAGES,
    NIC,
    Guests,
)
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

PURGE = "fleet.virt.virt_purge"
_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "0"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261125"))
# As the guide shows it
OF_THE_LOST = "ansible-playbook fleet.virt.purge_vm -e vm_name=web1 -e virt_hypervisors_lost=hv2"
NVRAM = "/var/lib/libvirt/qemu/nvram"
LOGS = "/var/log/libvirt/qemu"
POOL_ID = f"{IMAGES}/fleet-virt.pool-id"
_DISK = (
    "<disk type='file' device='disk'><driver name='qemu' type='{format}'/>"
    "<source file='{path}'/><target dev='vd{letter}' bus='virtio'/>{more}</disk>"
)
_MEDIUM = (
    "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='{path}'/>"
    "<target dev='sd{letter}' bus='sata'/><readonly/></disk>"
)
DEAD = "<owner boot_id='another-boot' pid='1' start_time='1' run='r'/>"
ALIVE = "<owner boot_id='{boot}' pid='1' start_time='{start}' run='r'/>"


def metadata(volumes: Sequence[tuple[str, str]], phase: str = "", owner: str = "") -> str:
    """Our metadata with ``volumes`` of the pool default, as (name, role)."""
    named = "".join(
        f"<volume pool='default' name='{name}' path='{IMAGES}/{name}' target='x' role='{role}'/>"
        for name, role in volumes
    )
    word = f"<phase>{phase}</phase>" if phase else ""
    inside = f"<request>{{}}</request>{word}{owner}{named}"
    return f"<metadata><fleet xmlns='urn:fleet.virt:1'>{inside}</fleet></metadata>"


class Vms:
    """VMs as the collection makes them, but made by virsh, and without an operating system."""

    def __init__(self, guests: Guests, ansible: Ansible) -> None:
        self.guests = guests
        self.ansible = ansible
        self.lab = guests.lab

    def make(
        self,
        name: str,
        *,
        host: str = "hv1",
        disks: Sequence[str] = (),
        seed: bool = False,
        phase: str = "",
        owner: str = "",
        nics: Sequence[str] = (),
        start: bool = False,
    ) -> list[str]:
        """A VM with its system disk, further disks and a seed medium; paths of all of them."""
        volumes = [(f"{name}.qcow2", "disk"), *((f"{name}_{disk}.qcow2", "disk") for disk in disks)]
        devices = "".join(
            _DISK.format(
                format="qcow2",
                path=f"{IMAGES}/{name}_{disk}.qcow2",
                letter=chr(98 + number),
                more="",
            )
            for number, disk in enumerate(disks)
        )
        script = [f"qemu-img create -q -f qcow2 {IMAGES}/{name}_{disk}.qcow2 8M" for disk in disks]
        if seed:
            volumes.append((f"{name}_seed.iso", "seed"))
            script.append(f"head -c 2048 /dev/zero > {IMAGES}/{name}_seed.iso")
            devices += _MEDIUM.format(path=f"{IMAGES}/{name}_seed.iso", letter="a")
        self.guests.prepare(host)
        self.guests.script(host, "\n".join(["true", *script]))
        top = metadata(volumes, phase, owner)
        self.guests.define(host, name, devices=devices, top=top, nics=nics, start=start, blank=True)
        return [f"{IMAGES}/{volume}" for volume, _ in volumes]

    def purge(self, name: str, host: str = "hv1", **options: t.Any) -> dict[str, t.Any]:
        """The module, ad hoc."""
        return self.ansible.module(host, "virt_purge", {"name": name, **options})[host]

    def files(self, host: str = "hv1") -> set[str]:
        """Every file of the pool and of libvirt's own folders, and the domains."""
        state = harness.state_of(self.lab, host, (LOGS,))
        there = {path for path in state["files"] if not path.startswith("/etc/libvirt")}
        return there | {f"domain {name}" for name in state["domains"]}

    def gone(self, name: str, host: str = "hv1") -> bool:
        """Whether libvirt knows no such domain."""
        return self.lab.ssh(host, f"virsh -q dominfo {name}", check=False).returncode != 0

    def start_fails(self, name: str, host: str = "hv1") -> bool:
        """Whether virsh cannot start it."""
        done = self.lab.ssh(host, f"virsh -q start {name}", check=False)
        return done.returncode != 0


@pytest.fixture
def vms(guests: Guests, ansible: Ansible) -> Iterator[Vms]:
    """Both pools are looked at again afterwards: tests make files behind libvirt's back."""
    for host in ("hv1", "hv2"):
        guests.prepare(host)
    yield Vms(guests, ansible)
    for host in ("hv1", "hv2"):
        kept = " ".join(f"! -name '{path.rpartition('/')[2]}'" for path in (BASE, BLANK))
        script = (
            "for name in $(virsh -q list --all --name); do virsh -q destroy $name 2>/dev/null;"
            " virsh -q undefine $name --managed-save --snapshots-metadata --nvram; done\n"
            f"chattr -i {IMAGES}/* 2>/dev/null; find {IMAGES} -mindepth 1 {kept} -delete\n"
            "virsh -q pool-refresh default"
        )
        guests.lab.ssh(host, script, check=False)


def verify(vms: Vms, name: str, **options: t.Any) -> dict[str, t.Any]:
    """Check mode, the real run and again, by the harness; the entry of the VM."""
    wanted = {"name": name, **options}
    done = harness.verify(vms.ansible, vms.lab, "hv1", PURGE, wanted, watch=(LOGS,))
    (vm,) = done.real["hv1"]["vms"]
    assert vms.gone(name)
    return t.cast("dict[str, t.Any]", vm)


def purged(vms: Vms, name: str, **options: t.Any) -> dict[str, t.Any]:
    """The real run alone, whose plan is the one of check mode; the entry of the VM."""
    done = vms.purge(name, **options)
    assert not done["failed"], done
    assert done["changed"]
    (vm,) = done["vms"]
    assert vms.gone(name)
    return t.cast("dict[str, t.Any]", vm)


def test_b21_exactly_its_own_goes(vms: Vms) -> None:
    """Every other file of the folder stays; what its own disks lie on and what is in its CD drives
    too. What others need of its disks is an obstacle until they do not."""
    guests = vms.guests
    own = ["b21.qcow2", "b21_data.qcow2", "b21_seed.iso"]
    named = ["b21_shared.qcow2", "b21_parent.qcow2", "b21_detached.qcow2", "b21_folder"]
    disks = [("data", ""), ("shared", "<shareable/>"), ("parent", "")]
    devices = "".join(
        _DISK.format(
            format="raw" if more else "qcow2",
            path=f"{IMAGES}/b21_{disk}.qcow2",
            letter=chr(98 + number),
            more=more,
        )
        for number, (disk, more) in enumerate(disks)
    )
    devices += _MEDIUM.format(path=f"{IMAGES}/b21_seed.iso", letter="a")
    devices += _MEDIUM.format(path=f"{IMAGES}/install.iso", letter="b")
    devices += f"<serial type='null'><log file='{LOGS}/b21-console.log'/></serial>"
    volumes = [(name, "seed" if name.endswith("iso") else "disk") for name in own + named]
    volumes.append(("../outside.qcow2", "disk"))
    guests.script(
        "hv1",
        f"cd {IMAGES}\n"
        "for disk in b21_data b21_parent b21_detached b21x; do"
        " qemu-img create -q -f qcow2 $disk.qcow2 8M; done\n"
        "truncate -s 8M b21_shared.qcow2\n"
        "qemu-img create -q -f qcow2 -b b21_parent.qcow2 -F qcow2 clone.qcow2\n"
        "head -c 2048 /dev/zero > b21_seed.iso; echo x > install.iso; echo x > notes.txt\n"
        "mkdir b21_folder; echo x > b21_folder/precious\n"
        "echo x > ../outside.qcow2\n"
        f"echo x > {LOGS}/b21-console.log; echo x > {LOGS}/b21-console.log.0\n"
        f"echo x > {LOGS}/b21.log",
    )
    guests.define("hv1", "b21", devices=devices, top=metadata(volumes))
    shared = _DISK.format(
        format="raw", path=f"{IMAGES}/b21_shared.qcow2", letter="b", more="<shareable/>"
    )
    guests.define("hv1", "other1", devices=shared)
    guests.virsh("hv1", "autostart", "b21")
    for match in (
        "b21_shared.qcow2 of 'b21' is needed by others: used by domain 'other1'",
        f"b21_parent.qcow2 of 'b21' is needed by others: backs {IMAGES}/clone.qcow2",
    ):
        harness.refuse(vms.ansible, vms.lab, "hv1", PURGE, {"name": "b21"}, match=match)
    guests.virsh("hv1", "undefine", "other1")
    guests.script("hv1", f"rm {IMAGES}/clone.qcow2")
    own += ["b21_shared.qcow2", "b21_parent.qcow2"]
    before = vms.files()
    vm = verify(vms, "b21")
    assert before - vms.files() == {
        "domain b21",
        f"{LOGS}/b21-console.log",
        f"{LOGS}/b21-console.log.0",
        *(f"{IMAGES}/{name}" for name in own),
    }
    assert vms.files() <= before
    assert {item["path"] for item in vm["removed"]} == {
        None,
        f"{LOGS}/b21-console.log",
        f"{LOGS}/b21-console.log.0",
        *(f"{IMAGES}/{name}" for name in own),
    }
    assert [item["size_mib"] for item in vm["removed"] if item["kind"] == "volume"] == [48] + [
        8
    ] * 3
    reasons = {item["path"].rpartition("/")[2]: item["reason"] for item in vm["kept"]}
    assert "no longer one of its disks" in reasons["b21_detached.qcow2"]
    assert reasons["b21_folder"] == "a directory"
    assert "outside the pool" in reasons["outside.qcow2"]
    assert "backing file" in reasons["tiny.qcow2"]
    assert "cdrom medium" in reasons["install.iso"]
    guests.script("hv1", f"rm {IMAGES}/../outside.qcow2 {LOGS}/b21.log")


def test_b22_snapshots_and_nvram_go_completely(vms: Vms) -> None:
    vms.make("b22")
    before = vms.files() - {f"{IMAGES}/b22.qcow2", "domain b22"}
    for name in ("one", "two", "three"):
        vms.guests.virsh("hv1", "snapshot-create-as", "b22", name)
    # libvirt 9 takes no internal snapshots of a domain with such firmware, so that comes later
    firmware = (
        '<loader readonly="yes" type="pflash">/usr/share/firmware.fd</loader>'
        f"<nvram>{NVRAM}/b22_VARS.fd</nvram></os>"
    )
    vms.guests.script(
        "hv1",
        f"mkdir -p {NVRAM}; head -c 4096 /dev/zero > {NVRAM}/b22_VARS.fd\n"
        f"virsh -q dumpxml b22 | sed 's|</os>|{firmware}|' > /run/b22.xml\n"
        "virsh -q define /run/b22.xml",
    )
    vm = purged(vms, "b22")
    assert [(item["kind"], item["name"]) for item in vm["removed"]] == [
        ("volume", "default/b22.qcow2"),
        ("snapshot", "one"),
        ("snapshot", "three"),
        ("snapshot", "two"),
        ("nvram", "b22"),
        ("domain", "b22"),
    ]
    assert vms.files() - {NVRAM} == before - {NVRAM}


def test_b22_snapshots_in_files_are_refused_and_all_stays(vms: Vms) -> None:
    vms.make("b22")
    vms.guests.virsh("hv1", "snapshot-create-as", "b22", "one", "--disk-only")
    match = r"external snapshots \(one\)"
    harness.refuse(vms.ansible, vms.lab, "hv1", PURGE, {"name": "b22"}, match=match)
    # and if libvirt is made to forget the snapshot, its file still lies on the disk
    vms.guests.virsh("hv1", "snapshot-delete", "b22", "one", "--metadata")
    match = r"b22.qcow2 is the backing file of \S+/b22.one.*merge it first"
    harness.refuse(vms.ansible, vms.lab, "hv1", PURGE, {"name": "b22"}, match=match)


def test_a_vm_that_is_not_ours_or_that_runs_is_refused(vms: Vms) -> None:
    vms.guests.define("hv1", "foreign1")
    vms.make("own1")
    names = {"names": ["own1", "foreign1"], "force": True}
    match = "'foreign1' was neither made nor adopted by this collection"
    harness.refuse(vms.ansible, vms.lab, "hv1", PURGE, names, match=match)
    vms.make("busy1", start=True, nics=(NIC,))
    match = "'busy1' is running; shut it down first"
    harness.refuse(vms.ansible, vms.lab, "hv1", PURGE, {"name": "busy1"}, match=match)


def test_a_running_vm_goes_by_force(vms: Vms) -> None:
    vms.make("force1", disks=("data",), seed=True, start=True, nics=(NIC,))
    vm = verify(vms, "force1", force=True)
    assert [item["kind"] for item in vm["removed"]] == ["volume", "volume", "seed", "domain"]


def test_saved_memory_goes(vms: Vms) -> None:
    vms.make("saved1", start=True)
    vms.guests.virsh("hv1", "managedsave", "saved1")
    vm = purged(vms, "saved1")
    assert [item["kind"] for item in vm["removed"]] == ["managed_save", "volume", "domain"]


def test_a_volume_that_a_program_has_open_is_refused(vms: Vms) -> None:
    vms.make("locked1")
    unit = "test-purge-locked"
    image = f"{IMAGES}/locked1.qcow2"
    vms.guests.script(
        "hv1",
        f"systemd-run -q --unit={unit} qemu-nbd -f qcow2 -t -k /run/{unit}.socket {image}\n"
        f"for try in $(seq 100); do test -S /run/{unit}.socket && break; sleep 0.1; done",
    )
    try:
        match = r"locked1.qcow2 is in use \(locked\) by a program.*fuser"
        harness.refuse(vms.ansible, vms.lab, "hv1", PURGE, {"name": "locked1"}, match=match)
    finally:
        vms.guests.script("hv1", f"systemctl stop {unit}")
    purged(vms, "locked1")


# Holds a lock where QEMU has its own, but on a byte that no QEMU looks at
_HOLD = """
import fcntl, os, struct, sys, time
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 290, 1, 0))
open("/run/test-purge-held", "w").close()
time.sleep(300)
"""


def test_what_turns_out_only_after_the_plug_was_pulled_leaves_the_vm_as_it_was(vms: Vms) -> None:
    """The lock of a program can be told from the VM's own only when the VM is off."""
    (path,) = vms.make("undone1", start=True)
    before = vms.files()
    definition = vms.guests.virsh("hv1", "dumpxml", "--inactive", "undone1")
    unit = "test-purge-hold"
    vms.guests.script(
        "hv1",
        f"cat > /run/hold.py; systemd-run -q --unit={unit} python3 /run/hold.py {path}\n"
        "for try in $(seq 100); do test -e /run/test-purge-held && break; sleep 0.1; done",
        input=_HOLD,
    )
    try:
        done = vms.purge("undone1", force=True)
    finally:
        vms.guests.script("hv1", f"systemctl stop {unit}; rm /run/test-purge-held /run/hold.py")
    assert done["failed"]
    assert "undone1.qcow2 is in use (locked)" in done["msg"]
    assert done["vms"][0]["removed"] == []
    assert vms.files() == before
    assert vms.guests.virsh("hv1", "dumpxml", "--inactive", "undone1") == definition
    assert not vms.start_fails("undone1")


@pytest.mark.parametrize("phase", ["creating", "purging"])
def test_what_a_dead_run_left_is_removed(vms: Vms, phase: str) -> None:
    """Some of its volumes are not there yet, or not any more."""
    paths = vms.make("half1", disks=("data",), seed=True, phase=phase, owner=DEAD)
    vms.guests.script("hv1", f"rm {paths[1]}; virsh -q pool-refresh default")
    vm = purged(vms, "half1")
    assert [item["path"] for item in vm["removed"]] == [paths[0], paths[2], None]


def test_phases_that_are_somebody_elses(vms: Vms) -> None:
    """A migration is never cut short, and a run that is alive is waited for, then refused."""
    boot = vms.lab.ssh("hv1", "cat /proc/sys/kernel/random/boot_id").stdout.strip()
    start = vms.lab.ssh("hv1", "cut -d' ' -f22 /proc/1/stat").stdout.strip()
    vms.make("moving1", phase="migrating", owner=DEAD)
    match = "'moving1' is in phase migrating"
    harness.refuse(vms.ansible, vms.lab, "hv1", PURGE, {"name": "moving1"}, match=match)
    vms.make("made1", phase="creating", owner=ALIVE.format(boot=boot, start=start))
    done = vms.ansible.module("hv1", "virt_purge", {"name": "made1"}, check=True)["hv1"]
    assert "'made1' is being created by process 1 (systemd, since" in done["msg"]


def test_stopped_halfway_it_cannot_be_started_and_is_finished_by_the_next(vms: Vms) -> None:
    paths = vms.make("stuck1", disks=("data",))
    vms.guests.script("hv1", f"chattr +i {paths[1]}")
    done = vms.purge("stuck1")
    assert done["failed"], done
    assert "partly removed" in done["msg"]
    assert [item["path"] for item in done["vms"][0]["removed"]] == [paths[0]]
    # even with all its disks there again, virsh is told to start nothing
    vms.guests.script("hv1", f"qemu-img create -q -f qcow2 {paths[0]} 8M")
    assert vms.start_fails("stuck1")
    state = vms.ansible.module("hv1", "virt_state", {"name": "stuck1", "state": "running"})["hv1"]
    assert "'stuck1' is in phase purging" in state["msg"]
    vms.guests.script("hv1", f"rm {paths[0]}; chattr -i {paths[1]}")
    vm = purged(vms, "stuck1")
    assert [item["path"] for item in vm["removed"]] == [paths[1], None]


_WATCHING = "/run/fleet-virt-test-watching"
# Kills, on the hypervisor, the process that has marked a domain as its own to remove
_KILL = f"""
import os, re, signal, sys, time
open("{_WATCHING}", "w").close()
end = time.monotonic() + 40
while time.monotonic() < end:
    try:
        text = open(f"/etc/libvirt/qemu/{{sys.argv[1]}}.xml").read()
    except FileNotFoundError:
        continue
    found = re.search(r"<fleet:owner [^>]*pid=.(\\d+)", text)
    if found:
        time.sleep(float(sys.argv[2]))
        try:
            os.kill(int(found[1]), signal.SIGKILL)
        except ProcessLookupError:
            sys.exit("too late")
        sys.exit(0)
sys.exit("nothing to be killed")
"""


def test_killed_while_it_removes_the_next_run_ends_right(vms: Vms) -> None:
    """As soon as it has marked the domain, then FLEET_VIRT_TRIALS times at random moments."""
    chance = random.Random(_SEED)  # noqa: S311 (where to kill, no secret)
    disks = [f"data{number}" for number in range(8)]
    vms.guests.define("hv1", "bystander1")
    log = {f"{LOGS}/killed1.log"}  # libvirt's own, about virsh's attempts to start it
    before = vms.files() - log
    killed = 0
    for round_ in range(max(5, 1 + _TRIALS)):
        if killed and round_ > _TRIALS:
            break
        vms.make("killed1", disks=disks, seed=True)
        delay = chance.uniform(0, 0.4) if round_ else 0.0
        print(f"seed {_SEED}, round {round_}: killed {delay:.2f} s after that")
        vms.lab.ssh("hv1", f"rm -f {_WATCHING}")
        with ThreadPoolExecutor(1) as pool:
            command = ["python3", "-c", _KILL, "killed1", str(delay)]
            killer = pool.submit(vms.lab.ssh, "hv1", command, check=False)
            wait_for(
                lambda: vms.lab.ssh("hv1", f"test -e {_WATCHING}", check=False).returncode == 0,
                20,
                "the killer watches",
            )
            result = vms.purge("killed1")
            ended = killer.result()
        assert "nothing" not in ended.stderr, result
        killed += ended.returncode == 0
        if not vms.gone("killed1"):
            assert vms.start_fails("killed1")
        done = vms.purge("killed1")
        assert not done["failed"], done
        assert vms.files() - log == before
        assert not vms.purge("killed1")["changed"]
    assert killed


def test_one_that_cannot_go_keeps_all_others(vms: Vms) -> None:
    vms.make("batch1")
    vms.make("batch2", phase="migrating")
    names = {"names": ["batch1", "batch2", "nowhere1"]}
    harness.refuse(vms.ansible, vms.lab, "hv1", PURGE, names, match="'batch2' is in phase")


def test_hostile_metadata_removes_nothing_of_others(vms: Vms) -> None:
    """Whoever may define a domain may write that anything is its own."""
    guests = vms.guests
    guests.define("hv1", "victim1")
    guests.script("hv1", f"qemu-img create -q -f qcow2 {IMAGES}/spare.qcow2 8M")
    names = ["victim1.qcow2", "spare.qcow2", "../../../../etc/passwd", "..", "."]
    guests.define("hv1", "hostile1", top=metadata([(name, "disk") for name in names]))
    before = vms.files()
    purged(vms, "hostile1")
    assert before - vms.files() == {"domain hostile1"}
    # what its own disk lies on is not removed either, and that is said
    guests.define("hv1", "hostile1", top=metadata([("tiny.qcow2", "disk")]))
    match = "tiny.qcow2 is the backing file of .*hostile1.qcow2"
    harness.refuse(vms.ansible, vms.lab, "hv1", PURGE, {"name": "hostile1"}, match=match)


def test_a_vm_of_virt_init_leaves_nothing(vms: Vms, tmp_path: Path) -> None:
    """What the collection makes is what the collection removes; only the base image stays."""
    key = tmp_path / "key.pub"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key.with_suffix(""))], check=True
    )
    wanted = {
        "name": "made1",
        "image": BLANK,
        "memory": 128,
        "disks": [{"name": "system", "size": 64}, {"name": "data", "size": 8}],
    }
    before = vms.files()
    done = vms.ansible.module("hv1", "virt_init", wanted, extra={"virt_ssh_public_key": str(key)})
    assert not done["hv1"]["failed"], done
    made = {path for path in vms.files() - before if not path.startswith("/var/lib/libvirt/base")}
    assert "domain made1" in made
    vm = verify(vms, "made1", force=True)
    # libvirt's own log of the domain is libvirt's
    assert {path for path in made if path in vms.files()} <= {f"{LOGS}/made1.log"}
    assert {"volume", "seed", "log", "domain"} <= {item["kind"] for item in vm["removed"]}


# The playbook


def play(vms: Vms, check: bool = False, **variables: t.Any) -> t.Any:
    return vms.ansible.playbook("purge_vm", variables, check=check)


def test_the_playbook_finds_its_hypervisor(vms: Vms) -> None:
    paths = vms.make("web1", host="hv2", disks=("data",), start=True, nics=(NIC,))
    done = play(vms, vm_name="web1")
    assert done.returncode != 0
    assert "hv2: 'web1' is running" in done.stdout
    assert "vm_force=true" in done.stdout
    before = vms.files("hv2")
    result = harness.verify_playbook(
        vms.ansible,
        vms.lab,
        "fleet.virt.purge_vm",
        variables={"vm_name": "web1", "vm_force": "true"},
        predicted_ignore=("output",),
    )
    assert before - vms.files("hv2") == {*paths, "domain web1"}
    assert "would go" in result.runs[0].output
    assert "not there" in result.runs[2].output


def test_the_playbook_removes_several_on_several(vms: Vms) -> None:
    vms.make("web1")
    vms.make("web2", host="hv2")
    done = play(vms, virt_names="web1,web2,web3").succeeded()
    assert vms.gone("web1")
    assert vms.gone("web2", "hv2")
    assert done.stdout.count("removed") >= 4
    assert "not there" in done.stdout


def test_pattern_is_removed_once_the_number_is_confirmed(vms: Vms) -> None:
    vms.make("test1")
    vms.make("test2", host="hv2")
    for check in (False, True):
        done = play(vms, check, virt_names="tast*")
        assert done.returncode == 2
        assert "no VM matches 'tast*'" in done.stdout
    for confirm in ({}, {"virt_confirm": "1"}):
        done = play(vms, virt_names="test*", **confirm)
        assert done.returncode == 2
        assert "2 VMs would be removed (hv1: test1; hv2: test2)" in done.stdout
        assert "-e virt_confirm=2" in done.stdout
    assert not vms.gone("test1")
    predicted = play(vms, True, virt_names="test*").succeeded()
    assert "would go" in predicted.stdout
    assert "add -e virt_confirm=2" in predicted.stdout
    assert not vms.gone("test1")
    play(vms, virt_names="test*", virt_confirm="2").succeeded()
    assert vms.gone("test1")
    assert vms.gone("test2", "hv2")


def test_one_name_on_two_hypervisors_is_refused(vms: Vms) -> None:
    vms.make("twice1")
    vms.make("twice1", host="hv2")
    done = play(vms, vm_name="twice1")
    assert done.returncode != 0
    assert "'twice1' is defined on hv1 and hv2" in done.stdout
    assert not vms.gone("twice1")
    assert not vms.gone("twice1", "hv2")
    vms.make("claimed1")
    vms.make("claimed1", host="hv2", phase="creating", owner=DEAD)
    done = play(vms, vm_name="claimed1")
    assert "'claimed1' is being created on hv2 by another run" in done.stdout
    assert "remove the other" not in done.stdout


def test_no_name_is_refused(vms: Vms) -> None:
    done = play(vms)
    assert done.returncode != 0
    assert "no VM is named; give -e vm_name=web1" in done.stdout


def test_a_silent_hypervisor(vms: Vms, lab: Laboratory) -> None:
    """It is no obstacle for what is on a file system of the hypervisor's own, whether or not the
    pool has an id; it is one for what is nowhere to be found."""
    for name in ("local1", "local2", "shared1"):
        vms.make(name)
    identity = f"echo 6d0f > {POOL_ID}; virsh -q pool-refresh default"
    lab.cut("hv2")
    try:
        done = play(vms, vm_name="nowhere1")
        assert done.returncode != 0
        assert "'nowhere1' is on no hypervisor that responded, but may be on" in done.stdout
        assert "virt_hypervisors_lost=hv2" in done.stdout
        program, *words = shlex.split(OF_THE_LOST)
        vms.ansible.run(program, words).succeeded()
        done = play(vms, vm_name="nowhere1", virt_hypervisors_lost="hv9")
        assert "virt_hypervisors_lost names hv9" in done.stdout
        play(vms, vm_name="local1").succeeded()
        assert vms.gone("local1")
        vms.guests.script("hv1", identity)
        play(vms, vm_name="local2").succeeded()
        assert vms.gone("local2")
    finally:
        lab.heal("hv2")
    vms.guests.script("hv2", identity)
    ping = "ansible.builtin.ping"
    wait_for(lambda: not vms.ansible.module("hv2", ping)["hv2"]["unreachable"], 90, "hv2")
    disk = _DISK.format(format="qcow2", path=f"{IMAGES}/shared1.qcow2", letter="b", more="")
    vms.guests.define("hv2", "user1", devices=disk)
    done = play(vms, vm_name="shared1")
    assert done.returncode != 0
    assert "shared1.qcow2 on shared storage is used on hv2: used by domain 'user1'" in done.stdout
    assert not vms.gone("shared1")
    vms.guests.remove("hv2", "user1")
    play(vms, vm_name="shared1").succeeded()
    assert vms.gone("shared1")


def test_storage_of_the_network_is_not_purged_without_asking(vms: Vms, lab: Laboratory) -> None:
    """Seen as shared by the kind of its pool; a module that knows one host only refuses."""
    # a pool of type netfs whose mount is not there counts by its definition
    xml = (
        "<pool type='netfs'><name>net</name><source><host name='127.0.0.1'/><dir path='/x'/>"
        "<format type='nfs'/></source><target><path>/srv/net</path></target></pool>"
    )
    vms.guests.script("hv1", "mkdir -p /srv/net; cat > /run/pool.xml", input=xml)
    try:
        vms.guests.script(
            "hv1", "virsh -q pool-define /run/pool.xml; truncate -s 8M /srv/net/n.raw"
        )
        volume = "<volume pool='net' name='n.raw' path='/srv/net/n.raw' target='a' role='disk'/>"
        inside = f"<request>{{}}</request>{volume}"
        top = f"<metadata><fleet xmlns='urn:fleet.virt:1'>{inside}</fleet></metadata>"
        disk = _DISK.format(format="raw", path="/srv/net/n.raw", letter="b", more="")
        vms.guests.define("hv1", "net1", devices=disk, top=top)
        harness.refuse(
            vms.ansible, lab, "hv1", PURGE, {"name": "net1"}, match="pool 'net'.* is not active"
        )
        shown = vms.ansible.module(
            "hv1", "virt_purge", {"name": "net1", "_work": {"stage": "look"}}
        )["hv1"]
        assert shown["vms"][0]["volumes"] == [
            {"path": "/srv/net/n.raw", "pool_id": None, "shared": True}
        ]
    finally:
        vms.guests.script("hv1", "virsh -q pool-undefine net; rm -rf /srv/net")


def test_examples_run_as_written(vms: Vms) -> None:
    for name in ("web1", "web2", "db1"):
        vms.make(name, start=name == "db1")
    tasks = [example.task for example in documentation.examples("virt_purge")]
    run = vms.ansible.play(tasks, "hv1", become=True).succeeded()
    assert [event.status for event in run.events] == ["ok"] * len(tasks)
    assert all(event.result["changed"] for event in run.events)
