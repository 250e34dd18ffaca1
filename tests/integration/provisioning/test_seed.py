# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeding: who a VM is is known before it boots, is nobody else's, and stays when the medium goes.

FLEET_VIRT_TRIALS is the number of kills (default 1).
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from typing import Any
from xml.etree import ElementTree

from ansible_collections.fleet.virt.tests.integration import harness, snapshot
from ansible_collections.fleet.virt.tests.integration.support.killing import (
    killer,
    lifetime,
    meanwhile,
    seconds,
)
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab import images

from .conftest import Fleet

_POOL = "/var/lib/libvirt/images"
_TINY = {"memory": 96, "image": "tiny.qcow2"}
_WORK = "/run/fleet-virt-seed"  # where media are made
_NAMESPACE = "urn:fleet.virt:1"
_NO_PACKAGE = "no-such-package-in-any-archive"
_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261121"))
# Kills the module by its number once it has run for $1 seconds; prints whether there was one


def metadata(fleet: Fleet, host: str, name: str) -> dict[str, Any]:
    (result,) = fleet.ansible.module(host, "virt_query", {"names": [name]}).values()
    (found,) = result["domains"]
    metadata: dict[str, Any] = found["metadata"]
    return metadata


def _media(fleet: Fleet, host: str, name: str) -> list[str | None]:
    """The media in the VM's CD drives, running and in its definition."""
    found: list[str | None] = []
    for which in ("", "--inactive"):
        xml = ElementTree.fromstring(fleet.host(host, f"virsh dumpxml {which} {name}"))
        for disk in xml.findall("devices/disk[@device='cdrom']"):
            source = disk.find("source")
            found.append(None if source is None else source.get("file"))
    return found


def ssh(
    fleet: Fleet, address: str, key: str, *command: str, user: str = "ansible"
) -> subprocess.CompletedProcess[str]:
    """A command in a guest whose host key has to be ``key``."""
    known = fleet.images.parent / "known_hosts"
    known.write_text(f"guest {key}\n")
    options = {
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(known),
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": "guest",
        "BatchMode": "yes",
        "ConnectTimeout": "20",
    }
    words = [f"-o{name}={value}" for name, value in options.items()]
    return subprocess.run(
        ["ssh", "-F", "none", "-i", str(fleet.key), *words, f"{user}@{address}", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def _seed(fleet: Fleet, **options: Any) -> dict[str, Any]:
    """``virt_seed`` ad hoc on hv1."""
    return fleet.ansible.module("hv1", "virt_seed", options, extra=fleet.variables)["hv1"]


def _state(fleet: Fleet) -> dict[str, Any]:
    """What is defined and which files there are on hv1; libvirt indents as it was given."""
    state = harness.state_of(fleet.lab, "hv1", ("/run/small",))
    domains = {
        name: [line.strip() for line in domain["inactive"]]
        for name, domain in state["domains"].items()
    }
    return {"domains": domains, "files": dict.fromkeys(state["files"])}


def _wait(fleet: Fleet, host: str, *names: str, seconds: float = 150) -> dict[str, Any]:
    args = {"names": list(names), "wait_timeout": seconds}
    return fleet.ansible.module(host, "virt_wait", args, limit=seconds + 60)[host]


def test_b26_two_of_one_image_are_known_before_they_boot_and_stay_who_they_are(
    fleet: Fleet,
) -> None:
    fleet = fleet.alone("hv1")
    names = {"one": "one", "two": "two.example.org"}
    vms = [
        {"name": name, **_TINY, "host": "hv1", "seed": {"hostname": full}}
        for name, full in names.items()
    ]
    run = fleet.provision(virt_vms=vms).succeeded()
    waited = run.of("Wait for SSH")["hv1"]
    assert waited["changed"]
    found = {vm["name"]: vm["address"] for vm in waited["vms"]}
    kept = {name: metadata(fleet, "hv1", name) for name in names}
    keys = {name: kept[name]["host_key"] for name in names}
    assert len({key.split()[1] for key in keys.values()}) == 2

    def who(name: str) -> str:
        said = ssh(fleet, found[name], keys[name], "hostname; cat /sys/class/net/eth0/address")
        assert said.returncode == 0, said
        return said.stdout

    said = {name: who(name) for name in names}
    assert [said[name].split()[0] for name in names] == ["one", "two"]
    assert len({said[name].split()[1] for name in names}) == 2
    other = ssh(fleet, found["one"], keys["two"], "hostname")
    assert other.returncode == 255
    assert "Host key verification failed" in other.stderr

    # The medium has gone: the file, from the drives, and from what the VM owns
    assert fleet.files("hv1") == ["one_system.qcow2", "two_system.qcow2"]
    for name in names:
        assert set(_media(fleet, "hv1", name)) == {None}
        assert [volume["role"] for volume in kept[name]["volumes"]] == ["disk"]
    for place in ("/etc/libvirt", "/var/log/libvirt", "/run", "/var/lib/libvirt/qemu"):
        left = fleet.host("hv1", f"grep -rlsI 'PRIVATE KEY' {place} --include=* || true")
        assert [path for path in left.split() if "pki" not in path] == []

    # and nobody misses it
    fleet.host("hv1", "virsh destroy one; virsh start one")
    again = _wait(fleet, "hv1", *names)
    assert not again["failed"], again
    assert not again["changed"]
    assert {vm["name"]: vm["address"] for vm in again["vms"]} == found
    assert {name: who(name) for name in names} == said
    assert {name: metadata(fleet, "hv1", name)["host_key"] for name in names} == keys
    once_more = fleet.provision(virt_vms=vms).succeeded()
    assert all(not event.result.get("changed") for event in once_more.events), str(once_more)
    # what they were made from is what it was
    for line in fleet.host("hv1", "cd /var/lib/libvirt/base; sha256sum *.qcow2").splitlines():
        digest, path = line.split()
        assert path.startswith(f"{digest}-") or path.startswith(digest[:16]), line


def test_a_first_boot_that_fails_is_told_until_it_is_acknowledged(fleet: Fleet) -> None:
    (fleet.images / "debian12.qcow2").unlink(missing_ok=True)
    (fleet.images / "debian12.qcow2").symlink_to(images.image("debian"))
    vm = {"name": "fails", "memory": 512, "image": "debian12.qcow2", "host": "hv1"}
    # an archive that cannot be reached would be asked for minutes, and refuse every package
    empty = {"path": "/etc/apt/sources.list", "content": "# no archive\n"}
    commands = ["false", ["touch", "/var/tmp/after"]]
    vm["seed"] = {"files": [empty], "packages": [_NO_PACKAGE], "commands": commands}
    failure = f"its first boot failed: .*{_NO_PACKAGE}.*scripts.user.*recreate it"
    run = fleet.provision(virt_vms=[vm], virt_wait_timeout=400, limit=500)
    assert run.returncode != 0, run
    assert re.search(f"fails: .*{failure}", " ".join(run.stdout.split())), run
    assert re.search(r"^fails +hv1 +\S+ +created, its first boot failed$", run.stdout, re.M), run
    assert "does not answer" not in run.stdout
    assert fleet.domains()["hv1"] == ["fails"]
    kept = metadata(fleet, "hv1", "fails")
    assert kept["first_boot"].startswith("failed: ")
    (waited,) = _wait(fleet, "hv1", "fails")["vms"]
    assert not waited["answered"]
    assert re.search(failure, waited["msg"])
    # what cloud-init itself says, and that the rest was done
    command = "cloud-init status; ls /var/tmp/after /etc/cloud/cloud-init.disabled"
    said = ssh(fleet, waited["address"], kept["host_key"], command)
    assert said.stdout.split() == ["status:", "error", "/var/tmp/after"], said
    assert fleet.files("hv1") == ["fails_system.qcow2"]
    assert _seed(fleet, name="fails", state="absent")["changed"]
    again = fleet.provision(virt_vms=[vm], virt_wait_timeout=100).succeeded()
    assert all(not event.result.get("changed") for event in again.events), str(again)


def test_what_is_secret_is_on_the_medium_and_nowhere_else(fleet: Fleet) -> None:
    secret = {
        "password_hash": "$6$HUSHHUSH$" + "a" * 86,
        "files": [{"path": "/etc/token", "content": "HUSH-file"}],
        "commands": ["echo HUSH-command"],
        "user_data": "#cloud-config\nHUSH_key: HUSH-data\n",
    }
    options = {"name": "quiet", **_TINY, "start": False, "seed": secret}

    def run(options: dict[str, Any], *words: str) -> Any:
        argv = ["hv1", "-vvv", "--diff", "-b", "-m", "fleet.virt.virt_init", "-a"]
        argv += [json.dumps(options), "-e", json.dumps(fleet.variables), *words]
        return fleet.ansible.run("ansible", argv)

    for words in (["--check"], []):
        done = run(options, *words).succeeded()
        assert "HUSH" not in done.stdout + done.stderr
    assert fleet.host("hv1", f"stat -c %a {_POOL}/quiet_seed.iso").strip() == "600"
    on_medium = fleet.host("hv1", f"grep -aoE 'HUSH[-_A-Za-z]*' {_POOL}/quiet_seed.iso")
    assert {"HUSHHUSH", "HUSH-command", "HUSH_key", "HUSH-data"} <= set(on_medium.split())
    fleet.host("hv1", "journalctl --sync")
    for place in ("/etc/libvirt", "/var/log", "/run", "/tmp", "/root/.ansible"):
        assert fleet.host("hv1", f"grep -rlsa HUSH {place} || true") == ""
    unchanged = fleet.init("hv1", **options)
    assert not unchanged["failed"], unchanged
    assert not unchanged["changed"]
    for key, value in {"commands": ["echo HUSH-other"], "user_data": {"HUSH_key": 2}}.items():
        other = run({**options, "seed": {**secret, key: value}})
        assert other.returncode != 0
        assert "seed.secrets" in other.stdout
        assert "HUSH" not in other.stdout + other.stderr


def test_virt_seed_on_a_vm_of_somebody_elses(fleet: Fleet) -> None:
    """Given, taken away, given anew; then it boots with it. Its disk stays its own."""
    assert not fleet.init("hv1", name="late", **_TINY, start=False, seed=False)["failed"]
    # what is left is a VM as anybody makes it
    fleet.host("hv1", f"virsh metadata late {_NAMESPACE} --remove --config")
    seed = {"name": "late", "hostname": "seeded"}

    def verify(**args: Any) -> dict[str, Any]:
        return harness.verify(
            fleet.ansible,
            fleet.lab,
            "hv1",
            "fleet.virt.virt_seed",
            args,
            task={"vars": fleet.variables},
            generated=("host_key",),
        ).real["hv1"]

    verify(**seed)
    assert fleet.host("hv1", f"stat -c %a {_POOL}/late_seed.iso").strip() == "600"
    removed = _seed(fleet, name="late", state="absent")
    assert removed["changed"], removed
    assert removed["steps"] == ["remove default/late_seed.iso"]
    assert fleet.files("hv1") == ["late_system.qcow2"]
    assert not _seed(fleet, **seed)["failed"]
    changed = _seed(fleet, **{**seed, "hostname": "other"})
    assert fleet.files("hv1") == ["late_seed2.iso", "late_system.qcow2"]
    key = metadata(fleet, "hv1", "late")["host_key"]
    assert key == changed["host_key"]
    harness.refuse(
        fleet.ansible,
        fleet.lab,
        "hv1",
        "fleet.virt.virt_purge",
        {"name": "late", "force": True},
        match=r"'late' was not made by this collection, which only gave it a seed.*state absent",
    )

    # A server with another key is not the VM, and its medium stays
    fleet.host("hv1", "virsh start late")
    wrong = key.replace(key.split()[1], "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8Q")
    edit = f'virsh metadata late {_NAMESPACE} --config --live --key fleet --set "$(virsh'
    edit += f" metadata late {_NAMESPACE} --config | sed 's,{{}},{{}},')\""
    fleet.host("hv1", edit.format(key, wrong))
    said = "presents a different host key than its seed contains"
    impostor: dict[str, Any] = {}

    def refused() -> bool:
        impostor.update(_wait(fleet, "hv1", "late", seconds=6))
        return said in str(impostor.get("msg"))

    wait_for(refused, 120, "a server that is not the VM")
    assert impostor["failed"]
    begun = time.monotonic()
    ended = _wait(fleet, "hv1", "late", seconds=180)
    assert time.monotonic() - begun < 90  # it does not wait for what will not come
    assert said in ended["msg"]
    assert "Recreate it with an image that has cloud-init" in ended["msg"]
    assert f"{_POOL}/late_seed2.iso" in _media(fleet, "hv1", "late")
    fleet.host("hv1", edit.format(wrong, key))
    state = {"names": ["late"], "state": "running"}
    steps = [["remove the seed medium"], ["remove the seed medium"], []]
    for check, expected in zip((True, False, False), steps):
        went = fleet.ansible.module("hv1", "virt_state", state, check=check)["hv1"]
        assert went["vms"][0]["steps"] == expected
        assert went["changed"] is bool(expected)
    (address,) = {vm["address"] for vm in impostor["vms"]}
    named = ssh(fleet, address, key, "hostname")
    assert named.stdout == "other\n", named
    assert fleet.files("hv1") == ["late_system.qcow2"]


def test_every_mistake_of_a_seed_is_told_at_once_and_nothing_is_touched(fleet: Fleet) -> None:
    seed = {
        "hostname": "h" * 64,
        "user_data": "a: [1",
        "network": [{"name": "eth7"}, {"name": "eth0", "addresses": ["192.0.2.1"]}],
        "files": [{"path": "relative", "content": "HUSH"}],
    }
    paths = ("hostname", "user_data", "network[1].addresses[0]", "files[0].path")
    run = fleet.provision(virt_vms=[{"name": "bad", **_TINY, "seed": seed}])
    text = " ".join((run.stdout + run.stderr).split())
    assert run.returncode != 0
    for words in (*(f"vms[0].seed.{path}" for path in paths), "at most 63", "eth7", "line 1"):
        assert words in text, f"without {words!r}:\n{run}"
    assert "HUSH" not in text
    assert fleet.domains() == {"hv1": [], "hv2": []}
    made = fleet.init("hv1", name="there", memory=64, start=False, seed=False)
    assert not made["failed"], made
    everything = "hostname.*files.*user_data.*network"
    for options, words in ((seed, everything), ({"network": [{"name": "eth7"}]}, "known: eth0")):
        harness.refuse(
            fleet.ansible,
            fleet.lab,
            "hv1",
            "fleet.virt.virt_seed",
            {"name": "there", **options},
            match=words,
            task={"vars": fleet.variables},
        )
    # libvirt takes two NICs of one address, a guest could not tell them apart
    nic = "<interface type='bridge'><mac address='{}'/><source bridge='br0'/></interface>"
    mac = fleet.host("hv1", "virsh -q domiflist there").split()[-1]
    fleet.host("hv1", f'echo "{nic.format(mac)}" | virsh attach-device there /dev/stdin --config')
    twins = _seed(fleet, name="there")
    assert twins["failed"]
    assert f"two NICs of the VM have the MAC address {mac}" in twins["msg"]


def test_a_full_disk_leaves_everything_as_it_was_and_then_it_goes_on(fleet: Fleet) -> None:
    assert not fleet.init("hv1", name="there", memory=64, start=False, seed=False)["failed"]
    begin = "mount -t tmpfs -o size=32k tmpfs"
    fleet.host(
        "hv1",
        f"mkdir -p /run/small; {begin} /run/small; virsh pool-define-as small dir --target"
        f" /run/small; virsh pool-start small; mkdir -m 700 {_WORK}; {begin} {_WORK}",
    )
    try:
        before = _state(fleet)
        # where media are made is full, then the pool they are kept in
        new = {"name": "new", "memory": 64, "start": False, "seed": {"hostname": "new"}}
        for failed in (fleet.init("hv1", **new), _seed(fleet, name="there")):
            assert failed["failed"]
            assert "could not create the seed medium" in failed["msg"], failed["msg"]
            assert "exceeds free space" in failed["msg"], failed["msg"]
            assert snapshot.differences(before, _state(fleet)) == []
        fleet.host("hv1", f"umount {_WORK}")
        failed = _seed(fleet, name="there", pool="small")
        assert failed["failed"]
        # libvirt reports a full disk, or closes the medium as if it was whole
        assert re.search("No space left|is incomplete.* 0 KiB are free", failed["msg"]), failed
        assert snapshot.differences(before, _state(fleet)) == []
        assert not fleet.init("hv1", **new)["failed"]
        assert not _seed(fleet, name="there", pool="default")["failed"]
        assert {"there_seed.iso", "new_seed.iso"} <= set(fleet.files("hv1"))
    finally:
        fleet.host(
            "hv1",
            f"umount {_WORK} 2>/dev/null; virsh pool-destroy small; virsh pool-undefine small;"
            f" umount /run/small; rm -rf {_WORK}",
        )


def _meanwhile(fleet: Fleet, args: dict[str, Any], script: str) -> str:
    """What a script says that runs on the hypervisor while virt_seed does."""
    return meanwhile(fleet.begin("hv1", "virt_seed", args), fleet.lab, "hv1", script)


def test_virt_seed_killed_at_random_moments(fleet: Fleet) -> None:
    chance = random.Random(_SEED)  # noqa: S311 (where to kill, no secret)
    assert not fleet.init("hv1", name="killed", **_TINY, start=False, seed=False)["failed"]
    said = _meanwhile(fleet, {"name": "killed", "hostname": "whole"}, lifetime("virt_seed"))
    duration = seconds(said)
    kills = 0
    for trial in range(_TRIALS):
        after = chance.uniform(0.0, 0.95 * duration)
        args = {"name": "killed", "hostname": f"turn{trial}"}
        kills += "killed" in _meanwhile(fleet, args, killer("virt_seed", after))
        where = f"seed {_SEED}, trial {trial}, {after:.2f} s"
        again = _seed(fleet, **args)
        assert not again["failed"], f"{where}: {again}"
        kept = metadata(fleet, "hv1", "killed")
        media = [volume["path"] for volume in kept["volumes"] if volume["role"] == "seed"]
        assert [path for path in _media(fleet, "hv1", "killed")[1:] if path] == media, where
        assert kept["host_key"] == again["host_key"], where
        files = [f"{_POOL}/{name}" for name in fleet.files("hv1") if name.endswith(".iso")]
        assert files == media, where
        fleet.host("hv1", f"grep -aqF turn{trial} {media[0]} && ! test -e /run/fleet-virt-seed")
        once_more = _seed(fleet, **args)
        assert not once_more["changed"], where
    print(f"virt_seed killed {kills} times of {_TRIALS} within {duration:.1f} s (seed {_SEED})")
    assert kills >= _TRIALS // 2
