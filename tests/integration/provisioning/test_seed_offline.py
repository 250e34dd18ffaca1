# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A seed written into a VM's own disk: a Debian without cloud-init is known before it boots.

Only with FLEET_VIRT_TRIALS: libguestfs is installed on hv1, and every look into a disk and every
boot takes half a minute to a minute where there is no KVM. Without it the files that are written
are tested for each kind of image (tests/unit), and that libguestfs is asked for.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support.ansible import PROGRAMS, Run
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab import images
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet
from .test_seed import metadata, ssh

_FOLDER = "/var/tmp/fleet-virt-offline"
_PLAIN, _LINKED = f"{_FOLDER}/plain.qcow2", f"{_FOLDER}/linked.qcow2"
_POOL = "/var/lib/libvirt/images"
_INSTALL = (
    "export DEBIAN_FRONTEND=noninteractive; apt-get -q update && apt-get install -y -q"
    " python3-guestfs libguestfs-tools linux-image-cloud-amd64"
)
# No trace of cloud-init, nor of the network's configuration that came for it
_STRIP = (
    "export LIBGUESTFS_BACKEND=direct; virt-customize -q --no-network -a {0}"
    " --run-command 'dpkg --purge cloud-init' --delete /etc/cloud --delete /var/lib/cloud"
    " --delete /etc/netplan"
)
# The least that is taken for a system, once on LVM and once on btrfs
_SYSTEM = (
    "mkdir-p /etc/ssh : mkdir-p /usr/bin : ln-s usr/bin /bin : mkdir-p /usr/lib/systemd"
    " : touch /usr/lib/systemd/systemd : touch /usr/lib/systemd/systemd-networkd"
    " : touch /usr/bin/python3 : touch /usr/bin/apt-get"
    " : write /etc/passwd root:x:0:0:root:/root:/bin/sh : write /etc/group root:x:0:"
)
_LVM_AND_BTRFS = (
    "export LIBGUESTFS_BACKEND=direct; cd {0}; truncate -s 256M lvm.raw btrfs.raw;"
    " guestfish --format=raw -a lvm.raw --format=raw -a btrfs.raw run : part-disk /dev/sda mbr"
    " : pvcreate /dev/sda1 : vgcreate vg /dev/sda1 : lvcreate root vg 200 : mkfs ext4 /dev/vg/root"
    f" : mount /dev/vg/root / : {_SYSTEM} : write /etc/fstab '/dev/vg/root / ext4 defaults 0 1'"
    " : umount / : part-disk /dev/sdb mbr : mkfs btrfs /dev/sdb1 label:root : mount /dev/sdb1 /"
    f" : {_SYSTEM} : write /etc/fstab 'LABEL=root / btrfs defaults 0 1'"
)
# A link of the image to where the hypervisor has a folder, and the image has none
_LINK = (
    "export LIBGUESTFS_BACKEND=direct; qemu-img create -q -f qcow2 -F qcow2 -b {0} {1};"
    " guestfish -a {1} -i mv /etc/ssh /etc/was : ln-s {2} /etc/ssh; qemu-img rebase -f qcow2 -b ''"
    " {1}"
)
_WHO = (
    "cat /etc/machine-id /proc/sys/kernel/random/boot_id; hostname -f; hostname;"
    " ip -j -4 address; id -nG alice; sudo cat /etc/token; readlink /etc/localtime;"
    " sudo sh -c 'ls /etc/ssh/ssh_host_*'; ls -d /var/tmp/last"
)
# Kills the module as soon as it has claimed the VM to write into its disk
_KILLER = r"""
for turn in $(seq 1 1200); do
  if virsh dumpxml late 2>/dev/null | grep -q 'phase>seeding<'; then
    sleep 8
    kill -9 $(pgrep -f 'python3 [^ ]*AnsiballZ_virt_seed.py') && echo killed
    exit
  fi
  sleep 0.1
done
"""
_HASH = "$6$HUSHHUSH$" + "a" * 86


def _strict(fleet: Fleet, folder: Path, name: str) -> Run:
    """Ansible's ping of a VM, by the inventory plugin alone."""
    folder.mkdir(exist_ok=True)
    shutil.copy(fleet.lab.inventory / "10-hypervisors.yml", folder)
    plugin = {
        "plugin": "fleet.virt.virt",
        "compose": {"ansible_ssh_private_key_file": f"'{fleet.key}'"},
    }
    (folder / "20-guests.virt.yml").write_text(json.dumps(plugin), encoding="utf-8")
    words = [name, "-m", "ansible.builtin.ping"]
    return fleet.ansible.run("ansible", words, inventory=folder)


def _digest(fleet: Fleet, path: str) -> str:
    return fleet.host("hv1", f"sha256sum {path}").split()[0]


def test_without_libguestfs_it_is_asked_for_and_auto_goes_on(fleet: Fleet) -> None:
    options = {"name": "small", "memory": 96, "image": "tiny.qcow2", "start": False}
    for check in (True, False):
        refused = fleet.init("hv1", check=check, **options, seed={"method": "offline"})
        assert refused["failed"]
        assert "install the package python3-guestfs" in refused["msg"], refused["msg"]
        assert fleet.domains()["hv1"] == fleet.files("hv1") == []
    made = fleet.init("hv1", **options, seed={"method": "auto"})
    assert not made["failed"], made
    (vm,) = made["vms"]
    assert vm["steps"][-1] == "seed small"
    assert vm["seed"]["method"] == "nocloud"
    assert "libguestfs is not on the hypervisor" in vm["seed"]["reason"]
    assert fleet.files("hv1") == ["small_seed.iso", "small_system.qcow2"]
    again = fleet.init("hv1", **options, seed={"method": "auto"})
    assert not again["changed"]


if "FLEET_VIRT_TRIALS" in os.environ:

    @pytest.fixture(scope="module")
    def plain(lab: Laboratory) -> Iterator[str]:
        """A Debian without cloud-init on hv1, which has libguestfs."""
        lab.ssh("hv1", _INSTALL, timeout=600)
        lab.ssh("hv1", f"rm -rf {_FOLDER}; mkdir -p {_FOLDER}")
        with images.image("debian").open("rb") as file:
            copy = [*lab.login("hv1"), f"cat > {_PLAIN}"]
            subprocess.run(copy, stdin=file, check=True, timeout=300)
        lab.ssh("hv1", _STRIP.format(_PLAIN), timeout=600)
        yield _PLAIN
        # other tests are of a hypervisor that has none
        lab.ssh("hv1", f"rm -rf {_FOLDER}; dpkg --purge python3-guestfs", timeout=120)

    def test_an_image_without_cloud_init_is_known_before_it_boots(
        fleet: Fleet, plain: str, tmp_path: Path
    ) -> None:
        before = _digest(fleet, plain)
        address = str(fleet.lab.network.network_address + 9)
        network = [
            {"name": "eth0", "addresses": [f"{address}/24"], "gateway": str(fleet.lab.gateway)}
        ]
        seed: dict[str, Any] = {
            "method": "offline",
            "fqdn": "plain.example.org",
            "network": network,
            "password_hash": _HASH,
            "users": [{"name": "alice", "groups": ["adm"]}],
            "files": [
                {"path": "/etc/token", "content": "HUSH\n", "mode": "0600", "owner": "alice"}
            ],
            "timezone": "Europe/Berlin",
            "commands": [["touch", "/var/tmp/last"]],
        }
        nics = [{"name": name, "bridge": "br0"} for name in ("eth0", "eth1")]
        vm = {"name": "plain1", "vcpus": 2, "memory": 512, "image": plain, "host": "hv1"}
        vm.update(nics=nics, seed=seed)
        run = fleet.provision(virt_vms=[vm], virt_wait_timeout=600, args=("-vvv",)).succeeded()
        assert "HUSH" not in run.stdout + run.stderr
        (waited,) = run.of("Wait until they answer")["hv1"]["vms"]
        assert (waited["address"], waited["source"]) == (address, "static")
        (made,) = [
            one
            for event in run.events
            for one in event.result.get("vms", ())
            if one.get("seed") and one["seed"].get("found")
        ]
        found = made["seed"]["found"]
        assert re.fullmatch(r"debian 12(\.\d+)?", found.pop("os"))
        assert made["seed"]["method"] == "offline"
        assert found == {
            "agent": True,
            "cloud_init": False,
            "network": "networkd",
            "python": True,
            "sshd": True,
        }
        assert fleet.files("hv1") == ["plain1_system.qcow2"]
        kept = metadata(fleet, "hv1", "plain1")
        assert [volume["role"] for volume in kept["volumes"]] == ["disk"]

        def said(command: str) -> str:
            done = ssh(fleet, address, kept["host_key"], command)
            return done.stdout if done.returncode == 0 else ""

        ping = _strict(fleet, tmp_path / "inventory", "plain1").succeeded()
        assert '"ping": "pong"' in ping.stdout
        wait_for(lambda: said("ls /var/lib/fleet-virt || echo gone") == "gone\n", 300, "first boot")
        first = said(_WHO).splitlines()
        _check(first, address)
        left = said(
            "ls -d /usr/bin/cloud-init /etc/cloud /run/cloud-init"
            " /etc/systemd/system/fleet-virt-first-boot.service 2>/dev/null; df -m --output=size /"
        )
        size = left.split()
        assert size[0] == "1M-blocks"  # nothing else is there
        assert int(size[1]) > 6000  # of a disk of 8 GiB; the image has 2

        for place in ("/etc/libvirt", "/var/log", "/run", "/tmp", "/root/.ansible"):
            assert fleet.host("hv1", f"grep -rlsa HUSH {place} || true") == ""
            keys = fleet.host("hv1", f"grep -rlsI 'OPENSSH PRIVATE KEY' {place} || true")
            assert keys == ""

        again = fleet.provision(virt_vms=[vm]).succeeded()
        assert all(not event.result.get("changed") for event in again.events), str(again)
        ssh(fleet, address, kept["host_key"], "sudo systemctl reboot")

        def rebooted() -> bool:
            now = said("cat /proc/sys/kernel/random/boot_id").strip()
            return now not in ("", first[1])

        wait_for(rebooted, 600, "another boot", pause=3)
        second = said(_WHO).splitlines()
        _check(second, address)
        assert (first[0], first[2:4]) == (second[0], second[2:4])
        _strict(fleet, tmp_path / "inventory", "plain1").succeeded()
        assert _digest(fleet, plain) == before
        for line in fleet.host("hv1", "cd /var/lib/libvirt/base; sha256sum *").splitlines():
            digest, name = line.split()
            assert name.startswith(digest[:16]), line

    def _check(lines: list[str], address: str) -> None:
        machine_id, _boot, full, short, ipv4, groups, token, zone, keys, last = (
            *lines[:8],
            " ".join(lines[8:10]),
            lines[10],
        )
        assert re.fullmatch("[0-9a-f]{32}", machine_id)
        assert (full, short) == ("plain.example.org", "plain")
        found = [
            f"{one['local']}/{one['prefixlen']}"
            for link in json.loads(ipv4)
            for one in link["addr_info"]
            if link["ifname"] != "lo"
        ]
        assert f"{address}/24" in found
        assert len(found) == 2  # the other NIC asked a DHCP server
        assert (groups, token, zone) == ("alice adm", "HUSH", "../usr/share/zoneinfo/Europe/Berlin")
        assert keys.split() == [
            "/etc/ssh/ssh_host_ed25519_key",
            "/etc/ssh/ssh_host_ed25519_key.pub",
        ]
        assert last == "/var/tmp/last"

    def _killed_while_it_writes(fleet: Fleet, args: dict[str, Any]) -> None:
        argv = [str(PROGRAMS / "ansible"), "-i", str(fleet.ansible.inventory), "hv1", "-b", "-m"]
        argv += ["fleet.virt.virt_seed", "-a", json.dumps(args), "-e", json.dumps(fleet.variables)]
        process = subprocess.Popen(
            argv,
            env=fleet.ansible.environment(ANSIBLE_PIPELINING="false"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            assert fleet.lab.ssh("hv1", _KILLER, timeout=300).stdout == "killed\n"
            process.wait(timeout=120)
        finally:
            kill_tree(process.pid)

    def test_virt_seed_writes_into_the_disk_once(fleet: Fleet, plain: str) -> None:
        """A VM of somebody else's, with auto: there is no cloud-init, so into its disk.

        The first call is killed: nobody can start what it left, and the same call ends it.
        """
        options = {"name": "late", "image": plain, "memory": 512, "start": False, "seed": False}
        assert not fleet.init("hv1", **options)["failed"]
        wanted = {"name": "late", "hostname": "other", "method": "auto"}
        _killed_while_it_writes(fleet, wanted)
        assert metadata(fleet, "hv1", "late")["phase"] == "seeding"
        started = fleet.lab.ssh("hv1", "virsh start late", check=False)
        assert started.returncode != 0
        assert "Cannot access storage file" in started.stderr
        third = {"name": "late", "hostname": "third", "method": "offline"}

        def refused(match: str) -> None:
            harness.refuse(
                fleet.ansible,
                fleet.lab,
                "hv1",
                "fleet.virt.virt_seed",
                third,
                match=match,
                task={"vars": fleet.variables},
            )

        refused("a call that was killed left 'late' half seeded with something else")
        done = harness.verify(
            fleet.ansible,
            fleet.lab,
            "hv1",
            "fleet.virt.virt_seed",
            wanted,
            task={"vars": fleet.variables},
            generated=("host_key",),
        ).real["hv1"]
        assert done["seed"]["method"] == "offline"
        assert done["seed"]["reason"] == "the image has no cloud-init"
        assert done["steps"] == [f"write the seed into {_POOL}/late_system.qcow2"]
        kept = metadata(fleet, "hv1", "late")
        assert (kept["phase"], kept["host_key"]) == (None, done["host_key"])
        refused("'late' was seeded before, in its disk")
        assert "late_system.qcow2" in fleet.host("hv1", "virsh domblklist late")
        assert "fleet-virt-seeding" not in fleet.host("hv1", "virsh dumpxml --inactive late")

    def test_what_cannot_be_seeded_is_refused_and_nothing_is_left(fleet: Fleet, plain: str) -> None:
        fleet.raw_image("blank.raw")
        target = "../../../../../../../../etc/ssh"
        fleet.host("hv1", f"rm -f {_LINKED}")
        fleet.lab.ssh("hv1", _LINK.format(plain, _LINKED, target), timeout=600)
        marks = "find /etc /root -xdev -type f ! -path '*/.ansible/*' -exec sha256sum {} + | sort"
        before = fleet.host("hv1", marks)
        cases = {
            "blank.raw": "no operating system was recognised on ",
            _LINKED: f"the link /etc/ssh -> {target} leads out of the guest",
        }
        for image, words in cases.items():
            options = {"name": "refused", "image": image, "memory": 512, "start": False}
            refused = fleet.init("hv1", **options, seed={"method": "offline"})
            assert refused["failed"], refused
            assert words in refused["msg"], refused["msg"]
            assert fleet.files("hv1") == []
            assert fleet.domains()["hv1"] == []
        after = fleet.host("hv1", marks)
        changed = {line.split()[1] for line in set(before.splitlines()) ^ set(after.splitlines())}
        assert {path for path in changed if "/libvirt/" not in path} == set()

    def test_a_root_on_lvm_and_one_on_btrfs(fleet: Fleet, plain: str) -> None:  # noqa: ARG001
        fleet.lab.ssh("hv1", _LVM_AND_BTRFS.format(_FOLDER), timeout=600)
        for name in ("lvm", "btrfs"):
            options = {"name": name, "image": f"{_FOLDER}/{name}.raw", "memory": 64}
            made = fleet.init("hv1", **options, start=False, seed={"method": "offline"})
            assert not made["failed"], made
            (vm,) = made["vms"]
            assert vm["seed"]["found"]["network"] == "networkd"
        drives = " ".join(f"-a {_POOL}/{name}_system.qcow2" for name in ("lvm", "btrfs"))
        read = (
            f"LIBGUESTFS_BACKEND=direct guestfish --ro {drives} run : mount-ro /dev/vg/root /"
            " : cat /etc/hostname : umount / : mount-ro /dev/sdb1 / : cat /etc/hostname"
        )
        said = fleet.lab.ssh("hv1", read, timeout=600).stdout
        assert said.split() == ["lvm", "btrfs"]
