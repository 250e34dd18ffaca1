# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_migrate and migrate_vm between two real hypervisors, with a guest that counts and writes."""

from __future__ import annotations

import re
import shlex

from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.plan import claim_uuid
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support.documented import undocumented
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import IMAGES, KILL, MODULE, Movers, bring

BASES = "/var/lib/libvirt/base"
CLIENT_KEY = "/etc/pki/libvirt/private/clientkey.pem"
# What is known only afterwards, and what the guest changes while it is predicted
_LATER = ("bytes", "seconds", "downtime_ms")
_MOVING = ("vms.0.bytes_to_copy", "vms.0.progress")


def test_b16_an_overlay_moves_while_it_runs(movers: Movers) -> None:
    """It runs on the target with the same content, and is gone from the source with its files."""
    movers.make("b16", autostart=True)
    movers.count("b16")
    before = movers.listed("hv1", "b16")
    done = harness.verify(
        movers.ansible,
        movers.lab,
        "hv1",
        MODULE,
        movers.args("b16"),
        generated=_LATER,
        predicted_ignore=_MOVING,
    )
    (vm,) = done.real["hv1"]["vms"]
    assert undocumented("virt_migrate", done.real["hv1"]) == []
    assert vm["flow"] == "overlay"
    disk = f"{IMAGES}/b16_system.qcow2"
    made = next(step for step in vm["steps"] if step.startswith("create "))
    assert made.startswith(f"create {disk} on hv2 over {BASES}/")
    assert vm["steps"] == [
        "mark b16 as moving to hv2",
        "autostart off",
        "claim b16 on hv2",
        made,
        "move b16 to hv2, overlay",
        f"remove {disk} here",
        "release the claim of b16 on hv2",
        "autostart on",
        "remove the marks of the move of b16",
    ]
    assert 0 < vm["bytes"] < 200 << 20
    print(f"overlay: {vm['bytes'] >> 20} MiB, {vm['seconds']} s, {vm['downtime_ms']} ms downtime")
    movers.clean("hv1", "b16")
    assert movers.state("hv2", "b16") == "running"
    after = movers.listed("hv2", "b16")
    for key in ("uuid", "autostart", "persistent", "machine", "nics", "metadata"):
        wanted, real = before[key], after[key]
        if key == "nics":
            wanted, real = [one["mac"] for one in wanted], [one["mac"] for one in real]
        assert real == wanted, key
    assert after["autostart"]
    assert movers.fleet.domains()["hv2"] == ["b16"]
    assert "migrating" not in movers.metadata("hv2", "b16")
    first = movers.shown("hv2", "b16")
    wait_for(lambda: movers.shown("hv2", "b16") > first, 10, "it goes on counting")
    virtual, occupied = movers.fleet.host(
        "hv2", f"virsh -q domblkinfo b16 vda | awk '{{print $2}}' | head -n 2; ls {disk} >/dev/null"
    ).split()
    assert int(occupied) < int(virtual) / 2, "it was thin, and stays thin"
    movers.fleet.host("hv2", "virsh -q destroy b16")
    movers.qemu_check("hv2", "b16")


def _tiny(bases: list[str]) -> str:
    """The tiny image among base images; other tests may have left theirs."""
    (found,) = [name for name in bases if name.endswith("-tiny.qcow2")]
    return found


def test_a_base_image_that_is_lacking_comes_first(movers: Movers) -> None:
    """From the hypervisor that the VM leaves, under its digest; check mode only says so. So does
    the medium of its CD drive, which the guest goes on reading, until a move ejects it."""
    medium = movers.fleet.images / "tools.iso"
    medium.write_bytes(bytes(0x8000) + b"\x01CD001\x01".ljust(2048, b"\0") + b"TOOLS".ljust(2048))
    movers.make("lacks", disks=[{"name": "cd", "device": "cdrom", "image": medium.name}])
    movers.count("lacks")
    bases = movers.fleet.files("hv2", BASES)
    (cd,) = [name for name in movers.fleet.files("hv1", BASES) if name.endswith("-tools.iso.raw")]
    before = _tiny(bases)
    gone = {"image": before, "state": "absent"}
    assert movers.ansible.module("hv2", "virt_image", gone)["hv2"]["changed"]
    checked = movers.playbook(vm_name="lacks", check=True).succeeded()
    assert re.search(r"lacks +hv1 +hv2 +would move", checked.stdout), str(checked)
    assert before not in movers.fleet.files("hv2", BASES)
    moved = movers.playbook(vm_name="lacks").succeeded()
    for volume in (before, cd):
        assert f"hv2: base image {volume}: " in moved.stdout, str(moved)
    assert sorted(movers.fleet.files("hv2", BASES)) == sorted({*bases, cd})
    found = movers.fleet.host("hv2", f"sha256sum < {BASES}/{before}").split()[0]
    assert before.startswith(f"{found}-")
    movers.clean("hv1", "lacks")
    movers.guests.wait_agent("hv2", "lacks")
    movers.guests.execute("hv2", "lacks", "dd if=/dev/sr0 bs=2048 skip=17 count=1 | grep -q TOOLS")
    step = f"eject {BASES}/{cd} from sda"
    eject = {"vm_name": "lacks", "virt_eject_media": "true"}
    for check in (True, False):
        back = movers.ansible.playbook("migrate_vm", eject, ["-v"], check=check, limit=300)
        assert step in back.succeeded().stdout
    for which in ("", "--inactive"):
        assert cd not in movers.fleet.host("hv1", f"virsh domblklist lacks {which}")
    movers.clean("hv2", "lacks")


def test_move_base_under_another_name_is_copied(movers: Movers) -> None:
    """The overlay's header names its base: the destination gets that file from its own copy of the
    same bytes, and keeps both as long as they are used. The guest never runs."""
    fleet = movers.fleet
    movers.make("twin", start=False)
    before = _tiny(fleet.files("hv2", BASES))
    other = before.replace("-tiny.qcow2", "-cloud.img.qcow2")
    fleet.host(
        "hv2",
        f"cd {BASES} && chattr -i {before} && mv {before} {other} && chattr +i {other}"
        " && virsh -q pool-refresh base",
    )
    checked = movers.playbook(vm_name="twin", check=True).succeeded()
    assert re.search(r"twin +hv1 +hv2 +would move", checked.stdout), str(checked)
    said = f"hv2: base image {before}: {{}}copied from {other}"
    assert said.format("would be ") in checked.stdout, str(checked)
    assert before not in fleet.files("hv2", BASES)
    moved = movers.playbook(vm_name="twin").succeeded()
    assert said.format("") in moved.stdout, str(moved)
    sums = fleet.host("hv2", f"cd {BASES} && sha256sum {before} {other}").split()
    assert sums == [before[:64], before, before[:64], other]
    flags = fleet.host("hv2", f"lsattr {BASES}/{before} {BASES}/{other}").split("\n")
    assert ["i" in line.split()[0] for line in flags if line] == [True, True]
    assert fleet.host("hv2", f"stat -c %h {BASES}/{before}").strip() == "1"
    movers.qemu_check("hv2", "twin")
    # both are listed, and only what is unused is removed
    listed = fleet.ansible.module("hv2", "virt_image_info", {"verify": True})["hv2"]["images"]
    users = {one["volume"]: (one["intact"], bool(one["users"])) for one in listed}
    assert (users[before], users[other]) == ((True, True), (True, False))
    pruned = fleet.ansible.module("hv2", "virt_image", {"state": "pruned"})["hv2"]
    assert other in [one["volume"] for one in pruned["images"]], pruned
    assert before in fleet.files("hv2", BASES)
    movers.clean("hv1", "twin")


def test_how_far_it_is_is_shown_meanwhile(movers: Movers) -> None:
    """Of a slow move; whether the guest survives that is not asked (see ``Movers.last_number``)."""
    movers.make("shows")
    movers.guests.wait_agent("hv1", "shows")
    checked = movers.playbook(vm_name="shows", check=True).succeeded()
    assert "shows: " not in checked.stdout
    moved = movers.playbook(vm_name="shows", virt_bandwidth=2).succeeded()
    lines = re.findall(r"^shows: (\d+) %, .*MiB.*$", moved.stdout, re.MULTILINE)
    # after the move, three at most are shown
    assert len(lines) > 3, str(moved)
    assert int(lines[0]) < int(lines[-1]), lines
    movers.clean("hv1", "shows")


def test_a_base_image_that_nobody_can_give_is_a_reason_against_the_move(movers: Movers) -> None:
    movers.make("keeps", start=False)
    before = _tiny(movers.fleet.files("hv2", BASES))
    gone = {"image": before, "state": "absent"}
    assert movers.ansible.module("hv2", "virt_image", gone)["hv2"]["changed"]
    # hv2 can ask nobody
    movers.fleet.host("hv2", f"mv {CLIENT_KEY} {CLIENT_KEY}.away")
    try:
        for check in (True, False):
            refused = movers.playbook(vm_name="keeps", check=check)
            assert refused.returncode != 0
            assert f"base image {before} could not be transferred: " in refused.stdout, str(refused)
            assert "is not on hv2" in refused.stdout, str(refused)
    finally:
        movers.fleet.host("hv2", f"mv {CLIENT_KEY}.away {CLIENT_KEY}")
        bring(movers.fleet)
    assert movers.state("hv1", "keeps") == "shut off"
    movers.clean("hv2", "keeps")


def test_whole_disks_move_and_move_back(movers: Movers) -> None:
    """From Debian 12 to 13 and back; the machine type is one that both have."""
    movers.make("there", overlay=False)
    movers.count("there")
    for host, other in (("hv1", "hv2"), ("hv2", "hv1")):
        first = movers.shown(host, "there")
        vm = movers.module("there", host)
        assert (vm["failed"], vm["flow"]) == (False, "copy"), vm
        movers.clean(host, "there")
        wait_for(lambda at=other, n=first: movers.shown(at, "there") > n, 10, "it goes on counting")


def test_b18_a_failure_leaves_it_running_and_the_target_clean(movers: Movers) -> None:
    """The target cannot use its keys for the data: libvirt fails after everything was made."""
    movers.make("b18")
    movers.count("b18")
    movers.fleet.host("hv2", "mv /etc/pki/qemu /etc/pki/qemu.away")
    try:
        vm = movers.module("b18")
    finally:
        movers.fleet.host("hv2", "mv /etc/pki/qemu.away /etc/pki/qemu")
    assert (vm["failed"], vm["changed"]) == (True, False)
    assert "keeps running on hv1, and hv2 was cleaned up" in vm["msg"], vm["msg"]
    movers.clean("hv2", "b18")
    assert movers.state("hv1", "b18") == "running"
    assert "migrating" not in movers.metadata("hv1", "b18")
    first = movers.shown("hv1", "b18")
    wait_for(lambda: movers.shown("hv1", "b18") > first, 10, "it goes on counting")
    vm = movers.module("b18")
    assert not vm["failed"], vm["msg"]
    movers.clean("hv1", "b18")
    assert movers.state("hv2", "b18") == "running"


_TAKER = (
    "<domain type='qemu'><name>taker</name><memory unit='MiB'>16</memory><os><type"
    " arch='x86_64'>hvm</type></os><devices><graphics type='vnc' port='5999' autoport='no'"
    " listen='127.0.0.1'/></devices></domain>"
)
_OWN_QEMU = "/usr/local/bin/qemu-own"
_OF_HOST = (
    f"<emulator>{_OWN_QEMU}</emulator><graphics type='vnc' port='5999' autoport='no'"
    " listen='127.0.0.1'/>"
)
_SHARED = (
    "<shmem name='own' role='peer'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>"
)


def _refused_for_what_it_names(movers: Movers) -> None:
    """Its own emulator, a kernel, shared memory, and a port that another VM has on the destination,
    which is of another release: check mode, the run and the module alone refuse it alike."""
    fleet = movers.fleet
    before = fleet.host("hv1", "virsh dumpxml --inactive off")
    fleet.host("hv1", f"ln -s /usr/bin/qemu-system-x86_64 {_OWN_QEMU}; touch /srv/own-vmlinuz")
    named = re.sub("<emulator>.*</emulator>", _OF_HOST + _SHARED, before)
    named = named.replace("</os>", "<kernel>/srv/own-vmlinuz</kernel></os>")
    movers.lab.ssh("hv1", "virsh -q define /dev/stdin", input=named)
    movers.lab.ssh("hv2", "virsh -q create --paused /dev/stdin", input=_TAKER)
    kept = fleet.host("hv1", "virsh dumpxml --inactive off")
    lacking = (
        f"{_OWN_QEMU} of its emulator is no program there",
        "/srv/own-vmlinuz of its kernel does not exist",
        "port 5999 of its vnc console is 'taker''s there, which runs",
    )
    try:
        for check in (True, False):
            refused = movers.playbook(vm_name="off", check=check)
            said = " ".join((refused.stdout + refused.stderr).split())
            assert refused.returncode != 0, str(refused)
            assert [problem for problem in lacking if problem not in said] == [], str(refused)
        alone = movers.module("off")
        assert "cannot move: it has the shared memory 'own' (ivshmem-plain)" in alone["msg"]
        assert lacking[0] in alone["msg"]
        assert lacking[2] in alone["msg"]
    finally:
        fleet.host("hv2", "virsh -q destroy taker")
    assert fleet.host("hv1", "virsh dumpxml --inactive off") == kept
    assert "off" not in fleet.domains()["hv2"]
    for host in ("hv1", "hv2"):
        fleet.host(host, f"ln -sf /usr/bin/qemu-system-x86_64 {_OWN_QEMU}")
    shared = re.compile("<shmem.*</shmem>", re.S)
    bootable = kept.replace("<kernel>/srv/own-vmlinuz</kernel>", "")
    movers.lab.ssh("hv1", "virsh -q define /dev/stdin", input=shared.sub("", bootable))


def test_one_that_is_shut_off_moves_and_never_runs(movers: Movers) -> None:
    """Once the destination has what it names."""
    movers.make("off", start=False)
    _refused_for_what_it_names(movers)
    log = "/var/log/libvirt/qemu/off-console.log"
    done = harness.verify(
        movers.ansible,
        movers.lab,
        "hv1",
        MODULE,
        movers.args("off"),
        generated=_LATER,
        predicted_ignore=_MOVING,
    )
    (vm,) = done.real["hv1"]["vms"]
    assert vm["flow"] == "offline"
    movers.clean("hv1", "off")
    assert movers.state("hv2", "off") == "shut off"
    assert "migrating" not in movers.fleet.host("hv2", "virsh dumpxml --inactive off")
    for host in ("hv1", "hv2"):
        assert movers.fleet.host(host, f"cat {log} 2>/dev/null || true") == "", "its guest ran"
    movers.qemu_check("hv2", "off")
    movers.fleet.host("hv2", "virsh -q start off")
    movers.count("off", "hv2")


def test_a_move_whose_module_was_killed_is_finished(movers: Movers) -> None:
    """The unit goes on; the second run joins it and does what is left to do."""
    movers.make("joined")
    movers.count("joined")
    kill = KILL.format(name="joined")
    killer = (
        "for turn in $(seq 1 300); do systemctl list-units --plain --no-legend 'fleet-virt-mi*'"
        f" | grep -q running && {{ sleep 1; {kill}; exit 0; }}; sleep 0.2; done"
    )
    movers.lab.ssh("hv1", f"systemd-run --quiet --unit=killer sh -c {shlex.quote(killer)}")
    killed = movers.ansible.module("hv1", "virt_migrate", movers.args("joined", bandwidth=8))["hv1"]
    assert killed["failed"]
    assert "vms" not in killed, "it was not killed"
    vm = movers.module("joined")
    assert (vm["failed"], vm["flow"]) == (False, "finish"), vm
    movers.clean("hv1", "joined")
    assert movers.state("hv2", "joined") == "running"
    assert "migrating" not in movers.metadata("hv2", "joined")
    assert not movers.module("joined")["changed"]


def test_one_that_takes_too_long_goes_on_or_is_paused(movers: Movers) -> None:
    """At 1 MiB a second, with two seconds for it."""
    movers.make("slow", memory=128)
    movers.count("slow")
    slow = {"bandwidth": 1, "seconds_per_gib": 1, "auto_converge": False}
    vm = movers.module("slow", **slow)
    assert "it took longer than 2 seconds and was aborted" in vm["msg"], vm
    assert movers.state("hv1", "slow") == "running"
    movers.clean("hv2", "slow")
    first = movers.shown("hv1", "slow")
    vm = movers.module("slow", **{**slow, "bandwidth": 20, "on_timeout": "pause"})
    assert not vm["failed"], vm
    assert "slow: paused after 2 s" in vm["progress"]
    assert movers.state("hv2", "slow") == "running"
    wait_for(lambda: movers.shown("hv2", "slow") > first, 10, "it goes on counting")
    movers.clean("hv1", "slow")


def _claim(movers: Movers, name: str, made: str) -> None:
    """What a dead run left of the VM's move on the destination: a claim that names its disk."""
    uuid = movers.fleet.host("hv1", f"virsh domuuid {name}").strip()
    request = '{"disks": [{"name": "vda", "size": 8, "format": "qcow2"}]}'
    kept = (
        "<fleet xmlns='urn:fleet.virt:1'><phase>creating</phase>"
        "<owner boot_id='gone' pid='1' start_time='1' run='r'/>"
        f"<volume pool='default' name='{name}_system.qcow2' path='{IMAGES}/{name}_system.qcow2'"
        f" target='vda' role='disk' made='{made}'/><request>{request}</request></fleet>"
    )
    xml = (
        f"<domain type='qemu'><name>{name}.migration</name><uuid>{claim_uuid(uuid)}</uuid>"
        f"<metadata>{kept}</metadata><memory>65536</memory><os><type>hvm</type></os></domain>"
    )
    movers.lab.ssh("hv2", "virsh define /dev/stdin", input=xml)


def test_a_copy_that_a_program_uses_stays(movers: Movers) -> None:
    """QEMU's lock, as its libvirt on the destination meets it; without it the copy is replaced."""
    movers.make("used1", start=False)
    disk = f"{IMAGES}/used1_system.qcow2"
    # a copy that occupies more than its virtual size
    movers.fleet.host(
        "hv2",
        f"qemu-img create -q -f qcow2 {disk} 1M; qemu-io -c 'write -P 7 0 1M' {disk} >/dev/null;"
        " virsh pool-refresh default",
    )
    _claim(movers, "used1", "yes")
    user = f"{{ echo 'write -P 8 0 4k'; sleep 300; }} | qemu-io {disk}"
    movers.fleet.host("hv2", f"systemd-run --quiet --unit=user1 sh -c {shlex.quote(user)}; sleep 2")
    refused = movers.module("used1")
    assert refused["failed"], refused
    assert f"refusing to remove {disk} on" in refused["msg"], refused
    assert "in use (locked) by a program; see fuser -v" in refused["msg"], refused
    assert "in use (locked)" in " ".join(refused["kept"]), refused
    assert movers.state("hv1", "used1") == "shut off"
    movers.fleet.host("hv2", f"systemctl stop user1; test -e {disk}")
    _claim(movers, "used1", "yes")
    done = movers.module("used1")
    assert (done["failed"], done["kept"]) == (False, []), done
    assert movers.fleet.files("hv1") == []
    assert movers.state("hv2", "used1") == "shut off"


def test_a_disk_that_no_move_made_is_never_removed(movers: Movers) -> None:
    """Neither somebody else's under a claim's name, nor the old one of a VM that does not run."""
    movers.make("kept1", start=False)
    disk = f"{IMAGES}/kept1_system.qcow2"
    theirs = f"qemu-img create -q -f qcow2 {disk} 8M; qemu-io -c 'write -P 7 0 4k' {disk}"
    movers.fleet.host("hv2", f"{theirs} >/dev/null; virsh pool-refresh default")
    before = movers.fleet.host("hv2", f"md5sum {disk}")
    for made, why in (
        ("no", "already exists on hv2, not from moving this VM"),
        ("begun", "it has content, and may not have been created for this VM"),
    ):
        _claim(movers, "kept1", made)
        refused = movers.module("kept1")
        assert refused["failed"]
        assert why in refused["msg"], refused
        assert movers.fleet.host("hv2", f"md5sum {disk}") == before
        assert movers.state("hv1", "kept1") == "shut off"
    # it has arrived and does not run there, whatever became of it
    marks = (
        "<fleet:phase>migrating</fleet:phase>"
        "<fleet:owner boot_id='gone' pid='1' start_time='1' run='r'/>"
        "<fleet:move source='hv1' destination='hv2' run='r' autostart='no' state='running'/>"
    )
    xml = movers.fleet.host("hv1", "virsh dumpxml --inactive kept1")
    xml = xml.replace("</fleet:fleet>", f"{marks}</fleet:fleet>")
    assert marks in xml
    _claim(movers, "kept1", "yes")
    movers.lab.ssh("hv2", "virsh define /dev/stdin", input=xml)
    movers.fleet.host("hv1", "virsh undefine kept1")
    done = movers.module("kept1")
    assert (done["failed"], done["flow"]) == (False, "finish"), done
    (kept,) = done["kept"]
    assert kept.startswith(f"{disk}: 'kept1' does not run on hv2, so what it had here stays")
    assert movers.fleet.files("hv1") == ["kept1_system.qcow2"]
    assert "migrating" not in movers.fleet.host("hv2", "virsh dumpxml --inactive kept1")
