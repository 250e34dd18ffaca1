# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet of four goes on while one is down, by what the others noted of it."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support import tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import SERVERS, Ansible
from ansible_collections.fleet.virt.tests.lab import images
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet

_HOSTS = ("hv1", "hv2", "hv3", "hv4")
_NOTES = "ls /var/lib/libvirt/fleet-notes"
_TWIN = """
<domain type='qemu'><name>new9</name><memory>65536</memory><os><type>hvm</type></os></domain>
"""
_MAC = "52:54:00:5a:5a:5a"
_BLANK = {"memory": 64, "seed": False, "start": False}
# As the guide shows it
OF_UNASKED = (
    "ansible-playbook fleet.virt.provision_vm -e vm_name=web9 -e vm_image=debian12.qcow2"
    " -e virt_unasked=hv3"
)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Four hypervisors that trust one another."""
    laboratory = Laboratory(f"n{os.getpid()}", os.getpid())
    laboratory.preloaded = True
    laboratory.up(4)
    try:
        authority = tls.trust(laboratory, _HOSTS)
        for host in ("hv1", "hv3"):
            _give_qemu_keys(laboratory, host, authority)
        folder = tmp_path_factory.mktemp("noted")
        yield Fleet(laboratory, Ansible(laboratory.inventory, folder, SERVERS), folder)
    finally:
        laboratory.down()


def _give_qemu_keys(laboratory: Laboratory, host: str, authority: tls.Authority) -> None:
    """Those with which QEMU encrypts the disks of a move."""
    certificate, key = authority.issue(host, [laboratory.host(host).address])
    files = {"ca-cert.pem": authority.certificate}
    for side in ("server", "client"):
        files |= {f"{side}-cert.pem": certificate, f"{side}-key.pem": key}
    for name, text in files.items():
        command = (
            "install -d -m 0750 -g libvirt-qemu /etc/pki/qemu; umask 027;"
            f" cat > /etc/pki/qemu/{name}; chgrp libvirt-qemu /etc/pki/qemu/{name}"
        )
        laboratory.ssh(host, command, input=text)


def _vms(*names: str, groups: Sequence[str] = (), **places: str) -> list[dict[str, Any]]:
    more = {"groups": [*groups]} if groups else {}
    return [
        {"name": name, **_BLANK, **more, **({"host": places[name]} if name in places else {})}
        for name in names
    ]


def _with_nic(name: str, mac: str) -> dict[str, Any]:
    """A VM that exists, with one NIC more."""
    return {"name": name, "nics": [{"name": "more", "bridge": "br0", "mac": mac}]}


def _domains(fleet: Fleet, *hosts: str) -> list[str]:
    return sorted(
        name for host in hosts for name in fleet.host(host, "virsh list --all --name").split()
    )


def _read_silent_host(fleet: Fleet) -> None:
    """hv3 is down, and was read with gone1; what came to it since was claimed."""
    run = fleet.ansible.playbook("list", {"virt_columns": "groups"}).succeeded()
    rows = [line.split() for line in run.stdout.splitlines() if line.startswith("hv3 ")]
    shown = {row[1]: " ".join(row[2:]) for row in rows if row[1] != ":"}
    assert {"gone1", "gone3", "old1"} <= shown.keys()
    assert all(text.startswith("unknown") for text in shown.values())
    assert "shut off at " in shown["gone1"]
    assert "claimed at " in shown["old1"], "it came by a move"
    assert shown["old1"].endswith("web"), "with its groups"
    assert re.search(r"hv3: no answer: .*; as hv\d noted at .* UTC it had \d VMs?\b", run.stdout)
    assert "3 of 4 hypervisors answered; VMs on hv3 are shown as others noted" in run.stdout
    for playbook in ("query", "host_info"):
        file = fleet.images.parent / f"{playbook}.json"
        output = {"virt_output": "json", "virt_output_file": str(file)}
        fleet.ansible.playbook(playbook, output).succeeded()
        told = json.loads(file.read_text(encoding="utf-8"))
        (down,) = [entry for entry in told["hypervisors"] if entry["name"] == "hv3"]
        assert "gone1" in down["noted"]["vms"]
    without = fleet.ansible.playbook("list", {"virt_show_noted": False}).succeeded()
    assert "gone1" not in without.stdout
    assert "VMs on hv3 are not shown" in without.stdout

    inventory = fleet.with_guests(fleet.images.parent / "guests")
    ping = ["web:virt_unknown", "-m", "ansible.builtin.ping"]
    found = fleet.ansible.run("ansible", ping, inventory=inventory)
    assert found.returncode == 4, str(found)
    for name in ("gone1", "old1"):
        assert re.search(rf"{name} \| UNREACHABLE!", found.stdout), str(found)
    assert "it is on hv3, which does not answer" in found.stdout
    plugin = inventory / "20-guests.virt.yml"
    given = json.loads(plugin.read_text(encoding="utf-8"))
    plugin.write_text(json.dumps({**given, "noted": False}), encoding="utf-8")
    hidden = fleet.ansible.run("ansible", ["all", "--list-hosts"], inventory=inventory).succeeded()
    assert "gone1" not in hidden.stdout
    assert "the VMs on hv3 are not in the inventory" in hidden.stderr + hidden.stdout


def _verify_added_nics(fleet: Fleet) -> None:
    """hv3 is down: a MAC address that appears elsewhere is claimed on the others first."""
    (host,) = [host for host in ("hv1", "hv2", "hv4") if "new1" in _domains(fleet, host)]
    for check in (True, False):
        refused = fleet.provision(virt_vms=[_with_nic("new1", _MAC)], check=check)
        assert refused.returncode == 2, str(refused)
        assert f"MAC address {_MAC}" in refused.stdout + refused.stderr
        assert "hv3, which does not answer" in refused.stdout + refused.stderr
        assert _MAC not in fleet.host(host, "virsh dumpxml --inactive new1")
    free = _MAC[:-1] + "b"
    fleet.provision(virt_vms=[_with_nic("new1", free)]).succeeded()
    assert free in fleet.host(host, "virsh dumpxml --inactive new1")
    for other in ("hv1", "hv2", "hv4"):
        assert f".mac.{free.replace(':', '-')}" in fleet.host(other, _NOTES), other


def _verify_duplicate_is_named(fleet: Fleet) -> None:
    """hv3 is back, with a VM of the name of one that was created meanwhile."""
    (other,) = [host for host in ("hv1", "hv2") if "new9" in _domains(fleet, host)]
    run = fleet.ansible.playbook("list").succeeded()
    shown = [line.split()[:3] for line in run.stdout.splitlines() if " new9 " in line]
    assert sorted(shown) == [[other, "new9", "shutoff"], ["hv3", "new9", "shutoff"]]
    inventory = fleet.with_guests(fleet.images.parent / "guests")
    plugin = {"plugin": "fleet.virt.virt", "unmanaged": True}
    (inventory / "20-guests.virt.yml").write_text(json.dumps(plugin), encoding="utf-8")
    listed = fleet.ansible.run("ansible", ["new9", "--list-hosts"], inventory=inventory)
    assert "hypervisor hv3: domain 'new9' is left out" in listed.stderr + listed.stdout
    assert f"hypervisor {other} has one of that name" in listed.stderr + listed.stdout
    wanted = {"vm_name": "new9", "vm_state": "shutoff"}
    refused = fleet.ansible.playbook("state", wanted)
    assert refused.returncode == 2, str(refused)
    assert f"-e vm_host={other}" in refused.stdout + refused.stderr
    told = fleet.ansible.playbook("state", {**wanted, "vm_host": "hv3"}).succeeded()
    assert told.of("Bring the VMs to the state").keys() >= {"hv3"}
    twice = fleet.ansible.playbook("purge_vm", {"vm_name": "new9"})
    assert twice.returncode == 2, str(twice)
    assert f"-e vm_host={other}" in twice.stdout + twice.stderr
    fleet.ansible.playbook("purge_vm", {"vm_name": "new9", "vm_host": other}).succeeded()
    assert "new9" not in _domains(fleet, other)
    assert "new9" in _domains(fleet, "hv3")


def test_fleet_with_hypervisor_down_goes_on(four: Fleet) -> None:
    """All of it in one test: a fleet is made once, and dies bit by bit."""
    made = four.provision(
        virt_vms=_vms("old1", "gone1", old1="hv1", gone1="hv3", groups=["web"])
    ).succeeded()
    assert made.of("Create the claimed VMs and withdraw the other claims")["hv3"]["changed"]
    alone = four.provision(
        virt_vms=[*_vms("gone2", gone2="hv3"), _with_nic("gone1", _MAC)]
    ).succeeded()
    # it noted the claims itself, over TLS, so that nobody had to be asked again
    assert alone.of("Claim names and capacity for the VMs")["hv3"]["finished"]
    for host in ("hv1", "hv2", "hv4"):
        noted = four.host(host, _NOTES)
        assert ".name.gone2" in noted
        assert f".mac.{_MAC.replace(':', '-')}" in noted
    moved = {"vm_name": "old1", "vm_host": "hv3"}
    four.ansible.playbook("migrate_vm", moved).succeeded()
    assert ".name.old1" in four.host("hv1", _NOTES), "where it went, if its destination dies"
    renamed = {"vm_name": "gone2", "vm_new_name": "gone3"}
    four.ansible.playbook("rename", renamed).succeeded()

    before = four.ansible.playbook("list", {"virt_output": "json"}).succeeded()
    assert "Read what was noted" not in str(before.events), "all answer"
    four.lab.kill("hv3")
    _read_silent_host(four)
    given = {**four.variables, "virt_vms": _vms("new1", "gone1")}
    planned = four.ansible.playbook("plan", given)
    assert planned.returncode == 2, str(planned)
    shown = planned.of("Show the plan")["hv1"]["vms"]
    actions = {vm["name"]: vm["action"] for vm in shown}
    assert actions == {"new1": "create", "gone1": "unknown"}, "as the run does"
    created = four.provision(virt_vms=_vms("new1")).succeeded()
    assert "hv3 does not answer; as hv" in created.stderr + created.stdout
    assert "none named new1" in created.stderr + created.stdout
    changed = [{**vm, "memory": 80} for vm in _vms("new1")]
    again = four.provision(virt_vms=changed).succeeded()
    assert "Read every hypervisor again" not in str(again.events), "it asks its hypervisor only"

    _verify_added_nics(four)
    for check in (True, False):
        # created there, claimed there, moved there, renamed there
        refused = four.provision(virt_vms=_vms("gone1", "gone2", "old1", "gone3"), check=check)
        assert refused.returncode == 2, str(refused)
        for name in ("gone1", "gone2", "old1", "gone3"):
            assert f"{name}: " in refused.stdout + refused.stderr, name
        for remedy in ("bring hv3 back", "choose another name", "-e virt_unasked=hv3"):
            assert remedy in refused.stdout + refused.stderr
    mixed = four.provision(virt_vms=[*changed, *_vms("gone1", "new2")])
    assert mixed.returncode == 2, str(mixed)
    assert "new1" in mixed.stdout
    assert "unchanged" in mixed.stdout
    assert "new2: not tried" in mixed.stdout
    assert _domains(four, "hv1", "hv2", "hv4") == ["new1"]
    taken = four.ansible.playbook("rename", {"vm_name": "new1", "vm_new_name": "gone3"})
    assert taken.returncode == 2, str(taken)
    assert "-e virt_unasked=hv3" in taken.stdout + taken.stderr
    free = four.ansible.playbook("rename", {"vm_name": "new1", "vm_new_name": "new9"}).succeeded()
    assert "none named new9" in free.stdout + free.stderr
    assert _domains(four, "hv1", "hv2", "hv4") == ["new9"]

    four.host("hv1", "rm /var/lib/libvirt/fleet-notes/*; virsh pool-refresh fleet-notes")
    for host in ("hv2", "hv4"):
        four.host(host, "rm /var/lib/libvirt/fleet-notes/*; virsh pool-refresh fleet-notes")
    unknown = four.provision(virt_vms=_vms("new3"))
    assert unknown.returncode == 2, str(unknown)
    assert "nothing is known of what hv3 had" in unknown.stdout + unknown.stderr
    (four.images / "debian12.qcow2").symlink_to(images.image("tiny"))
    options = {f"vm_{name}": value for name, value in _BLANK.items()}
    more = {**four.variables, **options, "vm_host": "hv1"}
    program, *words = shlex.split(OF_UNASKED)
    four.ansible.run(program, [*words, "-e", json.dumps(more)]).succeeded()

    four.lab.kill("hv4")
    half = four.provision(virt_vms=_vms("new3"))
    assert half.returncode == 2, str(half)
    assert "2 of 4 hypervisors answered; more than half must" in half.stdout + half.stderr
    stated = four.provision(virt_vms=_vms("new3"), args=("-e", "virt_unasked=hv3,hv4"))
    stated.succeeded()
    assert _domains(four, "hv1", "hv2") == ["new3", "new9", "web9"]

    four.lab.start("hv3")
    four.lab.ssh("hv3", "virsh -q define /dev/stdin", input=_TWIN)
    _verify_duplicate_is_named(four)
