# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of VMs: base images of their disks, and VMs of these."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import (
    INSTALL_GUEST_TOOLS,
)
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support import offline, tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import Run
from ansible_collections.fleet.virt.tests.integration.support.killing import KILL, begun, meanwhile

from .conftest import Fleet

_CLONE = "ansible-playbook fleet.virt.clone -e vm_name={} -e virt_clone_of=web1"
_TEMPLATE = "ansible-playbook fleet.virt.template -e vm_name=web1 -e virt_template=web-golden"
# As the guide shows them, each with what it must print. A disk that is copied as it is, and was
# before, is the base image that is there: so the one with a name of its own comes first
COMMANDS = {
    f"{_TEMPLATE} --check": r"web1 +hv1 +would be copied +web-golden +shut off",
    _TEMPLATE: r"web1 +hv1 +copied +[0-9a-f]{12}-web-golden\.qcow2 +shut off",
    f"{_CLONE.format('web2')} -e vm_memory=128MiB --check": r"web2 +hv1 +- +would be created",
    f"{_CLONE.format('web2')} -e vm_memory=128MiB": r"web2 +hv1 +- +created",
    f"{_CLONE.format('web3')} -e virt_clone_mode=full": r"web3 +hv1 +- +created",
}
_KEEP = {"virt_identity": "keep"}
_VM: dict[str, Any] = {
    "vm_image": "tiny.qcow2",
    "vm_memory": "96",
    "vm_wait": "false",
    "vm_seed": "false",
    "vm_disks": [{"name": "system", "size": 64}, {"name": "data", "size": 8, "format": "raw"}],
}
_PLACE = 50 << 11  # sector of the disk, behind what the guest boots from
BASE = "/var/lib/libvirt/base"
_IMAGES = "/var/lib/libvirt/images"


def _write(fleet: Fleet, host: str, name: str, word: str) -> None:
    """Have the running guest write a word to both its disks."""
    assert fleet.guests is not None
    text = f"printf '%-512s' {word} >/tmp/word"
    system = f"dd if=/tmp/word of=/dev/vda seek={_PLACE} conv=notrunc,fsync"
    data = "dd if=/tmp/word of=/dev/vdb seek=100 conv=notrunc,fsync"
    fleet.guests.execute(host, name, f"{text} && {system} && {data}")


def _word(fleet: Fleet, host: str, path: str, place: int, kind: str = "qcow2") -> str:
    """The word in an image."""
    read = f"qemu-img dd -U -f {kind} -O raw bs=512 skip={place} count={place + 1} if={path}"
    return fleet.host(host, f"{read} of=/run/word; tr -d '\\0 ' </run/word; rm /run/word")


def _disks(fleet: Fleet, host: str, name: str) -> list[str]:
    listed = fleet.host(host, f"virsh -q domblklist {name} --details").splitlines()
    return [line.split()[-1] for line in listed if line.split()[1] == "disk"]


def _bases(fleet: Fleet, host: str, word: str = "-copy-") -> list[str]:
    return [name for name in fleet.files(host, BASE) if word in name or name.startswith(".")]


def _forget(fleet: Fleet, host: str) -> None:
    """Remove the base images that a test made."""
    for word in ("-copy-", "-golden", "-web-data", "moment"):
        for name in _bases(fleet, host, word):
            fleet.host(host, f"chattr -i {BASE}/{name}; rm {BASE}/{name}")
    fleet.host(host, "virsh -q pool-refresh base || true")


def _intact(fleet: Fleet, host: str) -> None:
    """Base images are what their names say."""
    sums = fleet.host(host, f"cd {BASE} && sha256sum *-*").splitlines()
    assert sums
    for line in sums:
        digest, _space, name = line.partition("  ")
        assert name.startswith(digest), line


def _clone(fleet: Fleet, name: str, *args: str, check: bool = False, **variables: str) -> Run:
    wanted = {**fleet.variables, "vm_name": name, "virt_clone_of": "web1", **_KEEP, **variables}
    return fleet.ansible.playbook("clone", wanted, args, check=check)


@pytest.fixture
def copies(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet without VMs and copies; swept of both afterwards."""
    for host in ("hv1", "hv2"):
        _forget(fleet, host)
    yield fleet
    fleet.sweep()
    for host in ("hv1", "hv2"):
        _forget(fleet, host)


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_a_guest_that_runs_is_copied_as_it_is_at_that_moment(copies: Fleet, host: str) -> None:
    fleet = copies.alone(host)
    fleet.provision(**_VM, vm_name="web1", vm_host=host).succeeded()
    assert fleet.guests is not None
    fleet.guests.wait_agent(host, "web1")
    _write(fleet, host, "web1", "before")
    off = {"vm_start": "false", "vm_host": host}
    _clone(fleet, "web2", **off).succeeded()
    _write(fleet, host, "web1", "after")
    assert fleet.guests.state(host, "web1").startswith("running")
    system, data = _disks(fleet, host, "web2")
    assert _word(fleet, host, system, _PLACE) == "before"
    assert _word(fleet, host, data, 100) == "before"
    made = _bases(fleet, host)
    assert len(made) == 2
    again = _clone(fleet, "web2", **off).succeeded()
    assert re.search(rf"web2 +{host} +- +unchanged", again.stdout)
    assert not [event for event in again.events if event.result.get("changed")]
    assert _bases(fleet, host) == made, "a second copy was made"
    if host == "hv2":
        _intact(fleet, host)
        return
    done = harness.verify(
        fleet.ansible,
        fleet.lab,
        host,
        "fleet.virt.virt_template",
        {"name": "web1", "image": "moment", "identity": "keep"},
        generated=("digest", "volume", "path", "uuid", "after"),
        predicted_ignore=("diff.*",),
    )
    result = {key: value for key, value in done.real[host].items() if key[0] != "_"}
    assert result["vms"][0]["consistency"] == "quiesced"
    assert documentation.undocumented("virt_template", result) == []

    _clone(fleet, "web3", virt_clone_mode="full", **off).succeeded()
    assert _bases(fleet, host) == made, "those of a full copy are removed"
    system, data = _disks(fleet, host, "web3")
    assert "backing" not in fleet.host(host, f"qemu-img info {system}; qemu-img info {data}")
    assert _word(fleet, host, system, _PLACE) == "after"
    assert _word(fleet, host, data, 100, "raw") == "after"

    fleet.ansible.playbook("purge_vm", {"vm_name": "web1", "vm_force": "true"}).succeeded()
    refused = fleet.ansible.module(host, "virt_image", {"image": made[0], "state": "absent"})[host]
    assert refused["failed"]
    assert "web2" in refused["msg"]
    (linked,) = [one for one in _disks(fleet, host, "web2") if "system" in one or "vda" in one]
    assert _word(fleet, host, linked, _PLACE) == "before"
    fleet.host(host, "virsh -q start web2")
    fleet.guests.wait_agent(host, "web2")
    _intact(fleet, host)


_MARKS = {
    "/etc/machine-id": "0123456789abcdef0123456789abcdef",
    "/etc/ssh/ssh_host_ed25519_key": "secret",
    "/etc/cloud/cloud-init.disabled": "",
    "/var/lib/cloud/instance": "i-1",
    "/var/lib/systemd/random-seed": "0 1 1 0",
    "/etc/motd": "stays",
}


def test_as_documented(copies: Fleet) -> None:
    """The commands of the guide, with the identity kept: resetting it takes libguestfs minutes."""
    fleet = copies.alone("hv1")
    off = {"vm_start": "false", "vm_seed": "false", "vm_host": "hv1", "vm_memory": "96"}
    fleet.provision(**{**_VM, **off}, vm_name="web1").succeeded()
    disks = _disks(fleet, "hv1", "web1")
    before = fleet.host("hv1", f"sha256sum {' '.join(disks)}")
    for command, printed in COMMANDS.items():
        _program, playbook, *words = shlex.split(command)
        run = fleet.ansible.playbook(playbook, {**fleet.variables, **_KEEP}, words).succeeded()
        assert re.search(printed, run.stdout), f"{command}\n{run}"
    tasks = [example.task for example in documentation.examples("virt_template")]
    examples = fleet.ansible.play(tasks, "hv1", become=True).succeeded()
    # by now both disks are base images, but none is called web-data
    assert [event.result["changed"] for event in examples.events] == [False, True]
    assert examples.events[1].result["image"]["target"] == "vdb"
    (data,) = _bases(fleet, "hv1", "-web-data")
    assert len([name for name in fleet.files("hv1", BASE) if name.startswith(data[:64])]) == 2
    assert fleet.host("hv1", f"sha256sum {' '.join(disks)}") == before
    _intact(fleet, "hv1")
    # without libguestfs nothing is copied, unless it is asked for
    wanted = {"vm_name": "web1", "virt_template": "another"}
    refused = fleet.ansible.playbook("template", wanted)
    assert refused.returncode
    assert "python3-guestfs" in refused.stdout
    assert _bases(fleet, "hv1", "-another") == []
    wanted = {**fleet.variables, "vm_name": "web9", "virt_clone_of": "web1"}
    for check in (True, False):
        refused = fleet.ansible.playbook("clone", wanted, check=check)
        assert refused.returncode
        assert INSTALL_GUEST_TOOLS in refused.stdout
    assert _bases(fleet, "hv1", "-web9") == []
    assert "web9" not in fleet.domains()["hv1"]


if "FLEET_VIRT_TRIALS" in os.environ:

    def test_another_identity(copies: Fleet) -> None:
        fleet = copies
        made = [
            *("mkdir-p /etc/cloud", "mkdir-p /var/lib/cloud", "mkdir-p /var/lib/systemd"),
            *(f"write {path} {shlex.quote(text)}" for path, text in _MARKS.items()),
        ]
        with offline.libguestfs(fleet.lab):
            offline.build(fleet.lab, {"small": made})
            image = f"{offline.FOLDER}/small.raw"
            off = {"vm_start": "false", "vm_seed": "false", "vm_host": "hv1", "vm_memory": "96"}
            fleet.provision(vm_name="web1", vm_image=image, **off).succeeded()
            (disk,) = _disks(fleet, "hv1", "web1")
            before = fleet.host("hv1", f"sha256sum {disk}")
            wanted = {"vm_name": "web1", "virt_template": "web-golden"}
            fleet.ansible.playbook("template", wanted, limit=600).succeeded()
            assert fleet.host("hv1", f"sha256sum {disk}") == before
            (golden,) = _bases(fleet, "hv1", "-golden")
            drives = f"--ro --format=qcow2 -a {BASE}/{golden}"
            looks = [line for path in _MARKS for line in (f"echo {path}", f"-cat {path}")]
            said = offline.guestfish(fleet.lab, drives, "mount-ro /dev/sda /", *looks)
        for path, text in _MARKS.items():
            assert (f"{text}\n" in said) is (path == "/etc/motd") or not text, (path, said)
        _intact(fleet, "hv1")


_TIMER = "systemctl list-units --all --plain --no-legend 'fleet-virt-thaw-*.timer'"
_FROZEN = f"""
for try in $(seq 400); do
  [ -n "$({_TIMER})" ] && break
  kill -0 $pid || exit 1
  sleep 0.01
done
{KILL}
"""


def test_what_dies_while_it_copies_is_ended_by_the_next(copies: Fleet) -> None:
    """The VM goes on running and loses nothing: after a kill, and on a full disk."""
    fleet, guests = copies.alone("hv1"), copies.guests
    assert guests is not None
    disks = [{"name": "system", "size": 64}, {"name": "data", "size": 256, "format": "raw"}]
    fleet.provision(**{**_VM, "vm_disks": disks}, vm_name="web1", vm_host="hv1").succeeded()
    data = _disks(fleet, "hv1", "web1")[1]
    fleet.host("hv1", f"yes | head -c 200M | dd of={data} conv=notrunc status=none")
    guests.wait_agent("hv1", "web1")
    _write(fleet, "hv1", "web1", "before")
    options = {"name": "web1", "image": "moment", "identity": "keep", "disk": "vdb"}

    running = fleet.begin("hv1", "virt_template", options)
    script = begun("virt_template", _FROZEN)
    assert meanwhile(running, fleet.lab, "hv1", script).strip() == "killed"
    assert fleet.host("hv1", _TIMER).strip(), "nobody thaws the guest"
    left = [name for name in fleet.files("hv1", BASE) if name.startswith(".")]
    assert len(left) == 1

    pool = {"base_pool": "full", "base_path": "/srv/full"}
    fleet.host("hv1", "mkdir -p /srv/full && mount -t tmpfs -o size=32M full /srv/full")
    try:
        full = fleet.ansible.module("hv1", "virt_template", {**options, **pool})["hv1"]
        assert full["failed"], full
        assert "The VM keeps running" in full["msg"]
        assert fleet.files("hv1", "/srv/full") == []
    finally:
        fleet.host(
            "hv1", "virsh -q pool-destroy full; virsh -q pool-undefine full; umount /srv/full"
        )
    assert guests.agent("hv1", "web1", "guest-fsfreeze-status") == "thawed"

    predicted = fleet.ansible.module("hv1", "virt_template", options, check=True)["hv1"]
    done = fleet.ansible.module("hv1", "virt_template", options)["hv1"]
    assert not done["failed"], done
    assert done["vms"][0]["steps"] == predicted["vms"][0]["steps"]
    assert done["vms"][0]["steps"][0] == f"remove {left[0]}, left by an interrupted run"
    assert [name for name in fleet.files("hv1", BASE) if name.startswith(".")] == []
    assert fleet.host("hv1", _TIMER).strip() == ""
    assert guests.agent("hv1", "web1", "guest-fsfreeze-status") == "thawed"
    assert _word(fleet, "hv1", done["image"]["path"], 100) == "before"
    assert guests.state("hv1", "web1").startswith("running")


def test_a_copy_goes_to_another_hypervisor_whole_or_linked(copies: Fleet) -> None:
    fleet = copies
    off = {"vm_start": "false"}
    fleet.provision(**_VM, **off, vm_name="web1", vm_host="hv1").succeeded()
    before = [fleet.files(host, BASE) for host in ("hv1", "hv2")]
    refused = _clone(fleet, "web2", **off, vm_memory="900GiB")
    assert refused.returncode == 2, str(refused)
    assert "web2 fits nowhere" in refused.stdout, str(refused)
    assert [fleet.files(host, BASE) for host in ("hv1", "hv2")] == before  # nothing was copied
    with tls.trusting(fleet.lab, ["hv1", "hv2"]):
        _clone(fleet, "web2", **off, vm_host="hv2", virt_clone_mode="full").succeeded()
        assert [fleet.files(host, BASE) for host in ("hv1", "hv2")] == before
        _clone(fleet, "web3", **off, vm_host="hv2").succeeded()
    assert sorted(fleet.domains()["hv2"]) == ["web2", "web3"]
    assert _bases(fleet, "hv1") == _bases(fleet, "hv2")
    _intact(fleet, "hv2")
    fleet.host("hv2", "virsh -q start web3")
