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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support import offline
from ansible_collections.fleet.virt.tests.integration.support.killing import meanwhile
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet
from .test_seed import metadata, ssh

_PLAIN, _LINKED = f"{offline.FOLDER}/plain.qcow2", f"{offline.FOLDER}/linked.qcow2"
_POOL = "/var/lib/libvirt/images"
# No trace of cloud-init, nor of the network's configuration that came for it
_STRIP = (
    "export LIBGUESTFS_BACKEND=direct; virt-customize -q --no-network -a {0}"
    " --run-command 'dpkg --purge cloud-init' --delete /etc/cloud --delete /var/lib/cloud"
    " --delete /etc/netplan"
)
# The least that is taken for a system, once on LVM and once on btrfs
_LVM = (
    *("part-disk /dev/sda mbr", "pvcreate /dev/sda1", "vgcreate vg /dev/sda1"),
    *("lvcreate root vg 200", "mkfs ext4 /dev/vg/root", "mount /dev/vg/root /", *offline.SYSTEM),
    *("write /etc/fstab '/dev/vg/root / ext4 defaults 0 1'", "umount /"),
)
_BTRFS = (
    *("part-disk /dev/sdb mbr", "mkfs btrfs /dev/sdb1 label:root", "mount /dev/sdb1 /"),
    *(*offline.SYSTEM, "write /etc/fstab 'LABEL=root / btrfs defaults 0 1'"),
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
_NO_PACKAGE = "no-such-package-in-any-archive"
_FAILED = (
    f"these packages were not installed: {_NO_PACKAGE}; a command failed; the journal of the unit"
    " has its output"
)
_HASH = "$6$HUSHHUSH$" + "a" * 86


def _digest(fleet: Fleet, path: str) -> str:
    return fleet.host("hv1", f"sha256sum {path}").split()[0]


def test_without_libguestfs_it_is_asked_for_and_auto_goes_on(fleet: Fleet) -> None:
    offline.remove(fleet.lab)
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
    assert "libguestfs is not installed on the hypervisor" in vm["seed"]["reason"]
    assert fleet.files("hv1") == ["small_seed.iso", "small_system.qcow2"]
    again = fleet.init("hv1", **options, seed={"method": "auto"})
    assert not again["changed"]


if "FLEET_VIRT_TRIALS" in os.environ:

    @pytest.fixture(scope="module")
    def plain(lab: Laboratory) -> Iterator[str]:
        """A Debian without cloud-init on hv1, which has libguestfs."""
        with offline.libguestfs(lab):
            offline.bring_debian(lab, _PLAIN)
            lab.ssh("hv1", _STRIP.format(_PLAIN), timeout=600)
            yield _PLAIN

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
            "packages": [_NO_PACKAGE],
            "commands": ["false", ["touch", "/var/tmp/last"]],
        }
        nics = [{"name": name, "bridge": "br0"} for name in ("eth0", "eth1")]
        vm = {"name": "plain1", "vcpus": 2, "memory": 512, "image": plain, "host": "hv1"}
        vm.update(nics=nics, seed=seed)
        run = fleet.provision(virt_vms=[vm], virt_wait_timeout=600, limit=900, args=("-vvv",))
        assert run.returncode != 0, run
        assert "HUSH" not in run.stdout + run.stderr
        (waited,) = run.of("Wait for SSH")["hv1"]["vms"]
        assert (waited["address"], waited["source"]) == (address, "static")
        assert not waited["answered"]
        assert waited["msg"].startswith(f"its first boot failed: {_FAILED}. The VM is left as"), (
            waited["msg"]
        )
        assert f"plain1: {waited['msg']}" in " ".join(run.stdout.split())
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

        ping = fleet.strict_ping(tmp_path / "inventory", "plain1").succeeded()
        assert '"ping": "pong"' in ping.stdout
        wait_for(lambda: said("ls /var/lib/fleet-virt || echo gone") == "gone\n", 300, "first boot")
        first = said(_WHO).splitlines()
        _check(first, address)
        # where the message sends to, there it is
        journal = said("sudo journalctl --no-pager -o cat -u fleet-virt-first-boot")
        assert "fleet.virt: command 1 ended with 1" in journal, journal
        assert _NO_PACKAGE in journal
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

        mended = {"name": "plain1", "state": "absent"}
        acknowledged = fleet.ansible.module("hv1", "virt_seed", mended)["hv1"]
        assert acknowledged["steps"] == ["clear the outcome of its first boot"], acknowledged
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
        fleet.strict_ping(tmp_path / "inventory", "plain1").succeeded()
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
        run = fleet.begin("hv1", "virt_seed", args)
        assert meanwhile(run, fleet.lab, "hv1", _KILLER) == "killed\n"

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

        refused("an interrupted run left 'late' partially seeded with another seed")
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
        refused("'late' was already seeded on its disk")
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
            "blank.raw": "no operating system was detected on ",
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
        paths = [f"{offline.FOLDER}/{name}.raw" for name in ("lvm", "btrfs")]
        fleet.host("hv1", f"truncate -s 256M {' '.join(paths)}")
        drives = " ".join(f"--format=raw -a {path}" for path in paths)
        offline.guestfish(fleet.lab, drives, *_LVM, *_BTRFS)
        for name in ("lvm", "btrfs"):
            options = {"name": name, "image": f"{offline.FOLDER}/{name}.raw", "memory": 64}
            made = fleet.init("hv1", **options, start=False, seed={"method": "offline"})
            assert not made["failed"], made
            (vm,) = made["vms"]
            assert vm["seed"]["found"]["network"] == "networkd"
        drives = " ".join(f"-a {_POOL}/{name}_system.qcow2" for name in ("lvm", "btrfs"))
        said = offline.guestfish(
            fleet.lab,
            f"--ro {drives}",
            *("mount-ro /dev/vg/root /", "cat /etc/hostname", "umount /"),
            *("mount-ro /dev/sdb1 /", "cat /etc/hostname"),
        )
        assert said.split() == ["lvm", "btrfs"]
