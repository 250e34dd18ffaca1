# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a fleet is found at once, mended by the remedies as they are printed, gone.

What one machine cannot have, such as two clocks, is in ``tests/unit/doctor``. No guest is booted.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration.support import doctor
from ansible_collections.fleet.virt.tests.integration.support.notes import FORGET

from .conftest import Fleet

_DOCTOR = "ansible-playbook fleet.virt.doctor"
# As the guide shows them, each with what it must print
COMMANDS = {
    f"{_DOCTOR} -e virt_output=json -e virt_output_file=findings.json": r"changed: \[hv1\]",
    _DOCTOR: r"0 error, \d+ warning, \d+ info",
    f"{_DOCTOR} -e virt_strict=true": r"\[versions_differ\]",  # libvirt 9.0 and 11.3
}
_LOOK, _AGAIN, _STRICT = COMMANDS
_FREE = "virt_min_free=32MiB"
_MAC = "52:54:00:d0:c7:01"
_UUID = "d0c70000-0000-4000-8000-00000000000{}"
_SMALL = "/srv/doctor"
_NIC = f"<interface type='bridge'><mac address='{_MAC}'/><source bridge='br0'/></interface>"
# What is not every NIC's: the remedy keeps it
_E1000 = _NIC.replace("</interface>", "<model type='e1000'/></interface>")
# A removal that was interrupted, and what somebody wrote that no version of ours reads
_HALF = "<fleet xmlns='urn:fleet.virt:1'><phase>purging</phase><request>{}</request></fleet>"
_BROKEN = _HALF.replace("{}", "Infinity").replace("purging", "changing")
_DEFINE = """
virsh -q define /dev/stdin <<END
<domain type='qemu'><name>doctor-{name}</name>{uuid}<memory unit='MiB'>64</memory>
 <metadata>{metadata}</metadata><os><type arch='x86_64' machine='q35'>hvm</type></os>
 <devices>{devices}</devices></domain>
END
"""
_FILL = f"""
mkdir -p {_SMALL} && mount -t tmpfs -o size=64M none {_SMALL}
virsh -q pool-define-as doctor dir --target {_SMALL} && virsh -q pool-start doctor
virsh -q vol-create-as doctor doctor-old.img 48M --format raw
"""
_FORGET = f"""
for name in $(virsh -q list --all --name | grep ^doctor-); do virsh -q undefine $name; done
virsh -q pool-destroy doctor 2>/dev/null; virsh -q pool-undefine doctor 2>/dev/null
umount {_SMALL} 2>/dev/null; rmdir {_SMALL} 2>/dev/null; :
"""
_GONE = "d0c70000-0000-4000-8000-0000000000ff"
_MACHINE = "virsh capabilities | sed -n 's:.*<uuid>\\(.*\\)</uuid>:\\1:p' | head -n 1"
_CONF = "/etc/libvirt/libvirtd.conf"
_UUID_OF = f"""
cp -a {_CONF} /run/doctor.conf
sed -i 's/^host_uuid = .*/host_uuid = "{{uuid}}"/' {_CONF}
systemctl restart libvirtd
"""
# Without its own line it would be another machine after each start of its daemon, for all tests
_OWN_UUID = f"cp -a /run/doctor.conf {_CONF}; systemctl restart libvirtd"
# The pool of notes, where nothing has been noted yet
_NOTES = """
virsh -q pool-info fleet-notes >/dev/null 2>&1 || {
  virsh -q pool-define-as fleet-notes dir --target /var/lib/libvirt/fleet-notes
  for verb in build start autostart; do virsh -q pool-$verb fleet-notes; done
}
"""
_YEAR_2096 = 4_000_000_000_000
_EMPTY = {"vm_memory": 64, "vm_start": "false", "vm_seed": "false", "vm_disks": []}
_OFF = ("-o ConnectTimeout=10", "-o ConnectTimeout=4")  # a cable that is cut is noticed by that
# The id of each fault, a word of its message, and the hypervisor whose remedy is typed
FAULTS = [
    ("name_twice", "'doctor-twin'", "hv2"),
    ("uuid_twice", "'doctor-copy'", "hv2"),
    ("mac_twice", _MAC, "hv2"),
    ("work_unfinished", "'doctor-half'", "hv1"),
    ("metadata_unusable", "'doctor-bad'", "hv2"),
    ("volume_unused", f"{_SMALL}/doctor-old.img", "hv1"),
    ("note_ahead", "hv1 noted what hv2 had at 2096-", "hv1"),
    ("pool_low", "pool doctor", ""),  # it was the unused volume
]


def _domain(name: str, number: int = 0, metadata: str = "", devices: str = "") -> str:
    uuid = f"<uuid>{_UUID.format(number)}</uuid>" if number else ""
    return _DEFINE.format(name=name, uuid=uuid, metadata=metadata, devices=devices)


@pytest.fixture
def ill(fleet: Fleet) -> Iterator[Fleet]:
    """A fleet with all of these faults."""
    made = {
        "hv1": [
            _domain("twin", devices=_NIC),
            _domain("orig", 1),
            _domain("half", metadata=_HALF),
            _FILL,
        ],
        "hv2": [
            _domain("twin"),
            _domain("copy", 1),
            _domain("mac", devices=_E1000),
            _domain("bad", metadata=_BROKEN),
        ],
    }
    try:
        for host, scripts in made.items():
            fleet.lab.ssh(host, "/bin/sh -e", input="".join(scripts))
        machine = fleet.host("hv2", _MACHINE).strip()
        _plant(fleet, "hv1", f"reading.{machine}.{_YEAR_2096}.{'0' * 16}")
        yield fleet
    finally:
        for host in made:
            fleet.lab.ssh(host, "/bin/sh", input=_FORGET, check=False)


def test_faults_are_reported_mended_by_their_remedies_and_gone(ill: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "findings.json"
    program, *words = shlex.split(_LOOK.replace("findings.json", str(file)))
    run = ill.ansible.run(program, [*words, "-e", _FREE])
    assert run.returncode == 2, str(run)
    assert re.search(COMMANDS[_LOOK], run.stdout), str(run)
    told = json.loads(file.read_text(encoding="utf-8"))
    assert told["not_looked_at"] == []
    assert "name_twice: " in run.stdout, "what fails the run is said"

    for kind, word, host in FAULTS:
        named = doctor.the_one(told["findings"], kind, word, host)
        if host:
            doctor.follow(ill.ansible, named["remedy"])
    shown = ill.host("hv2", "virsh dumpxml doctor-mac")
    assert "<model type='e1000'/>" in shown, shown
    assert "<source bridge='br0'/>" in shown, shown

    program, *words = shlex.split(_AGAIN)
    again = ill.ansible.run(program, [*words, "-e", _FREE]).succeeded()
    assert re.search(COMMANDS[_AGAIN], again.stdout), str(again)
    left = [f"[{kind}]" for kind, _word, _host in FAULTS if f"[{kind}]" in again.stdout]
    assert left == [], str(again)

    program, *words = shlex.split(_STRICT)
    strict = ill.ansible.run(program, [*words, "-e", _FREE])
    assert strict.returncode == 2, str(strict)
    assert re.search(COMMANDS[_STRICT], strict.stdout), str(strict)


def _plant(fleet: Fleet, host: str, volume: str) -> None:
    fleet.host(host, f"{_NOTES}\nvirsh -q vol-create-as fleet-notes {volume} 0 --format raw")


@pytest.fixture
def apart(fleet: Fleet) -> Iterator[Fleet]:
    """A fleet of which two controllers had one hypervisor each, and gave a VM the same address."""
    seed = {"network": [{"name": "eth0", "addresses": ["192.0.2.77/24"]}]}
    nics = [{"name": "eth0", "type": "bridge", "source": "br0"}]
    disks = [{"name": "system", "size": 16}]
    for host in ("hv1", "hv2"):
        wanted = {"memory": 64, "start": False, "disks": disks, "nics": nics, "seed": seed}
        made = fleet.alone(host).init(host, name=f"doctor-{host}", **wanted)
        assert not made["failed"], made
    yield fleet
    fleet.sweep()
    for host in ("hv1", "hv2"):
        fleet.host(host, FORGET)


def test_address_and_notes_of_two_controllers_are_mended(apart: Fleet) -> None:
    findings = doctor.look(apart.ansible)
    twice = doctor.the_one(findings, "address_twice", "192.0.2.77", "hv2")
    for host in ("hv1", "hv2"):
        doctor.the_one(findings, "note_differs", f"no other hypervisor has noted what {host} has")
    limited = doctor.look(apart.ansible, "--limit", "hv1", complete=False)
    doctor.the_one(limited, "host_not_asked", "excluded by --limit", "hv2")

    key = ("-e", f"virt_ssh_public_key={apart.variables['virt_ssh_public_key']}")
    doctor.follow(apart.ansible, twice["remedy"], *key)
    # whoever creates a VM writes the notes
    apart.provision(vm_name="doctor-new", **_EMPTY).succeeded()
    kinds = {one["id"] for one in doctor.look(apart.ansible)}
    assert kinds.isdisjoint(("address_twice", "note_differs", "host_not_asked"))


def test_machines_that_are_not_what_the_inventory_says(fleet: Fleet) -> None:
    """One that nobody knows, and two that say that they are the same."""
    fleet.provision(vm_name="doctor-new", **_EMPTY).succeeded()
    uuid = fleet.host("hv1", _MACHINE).strip()
    _plant(fleet, "hv1", f"reading.{_GONE}.5.{'0' * 16}")
    own = fleet.host("hv2", _MACHINE).strip()
    fleet.host("hv2", _UUID_OF.format(uuid=uuid))
    try:
        findings = doctor.look(fleet.ansible, complete=False)
        gone = doctor.the_one(findings, "machine_unlisted", _GONE)
        stated = re.search(r"-e virt_hypervisors_lost=\S+(?=,)", gone["remedy"])
        assert stated is not None, gone
        doctor.the_one(findings, "uuid_duplicate", uuid, "hv2")
    finally:
        fleet.host("hv2", _OWN_UUID)
    try:
        assert fleet.host("hv2", _MACHINE).strip() == own
        mended = doctor.look(fleet.ansible, *shlex.split(stated[0]))
        assert {one["id"] for one in mended}.isdisjoint(("machine_unlisted", "uuid_duplicate"))
    finally:
        for host in ("hv1", "hv2"):
            fleet.host(host, FORGET)


def test_hypervisor_that_is_off_and_comes_back(fleet: Fleet) -> None:
    """First it is silent, then known to be in maintenance."""
    ansible = copy.copy(fleet.ansible)
    ansible.ssh_args = ansible.ssh_args.replace(*_OFF)
    with fleet.cut("hv2"):
        findings = doctor.look(ansible, complete=False)
        doctor.the_one(findings, "host_silent", "no answer", "hv2")
    fleet.ansible.playbook("maintenance", {"virt_host": "hv2"}).succeeded()
    with fleet.cut("hv2"):
        findings = doctor.look(ansible, complete=False)
        off = doctor.the_one(findings, "host_off", "in maintenance since", "hv2")
    doctor.follow(fleet.ansible, off["remedy"])
    kinds = {one["id"] for one in doctor.look(fleet.ansible)}
    assert kinds.isdisjoint(("host_silent", "host_off"))
    listed = fleet.host("hv2", "virsh -q vol-list fleet-notes")
    assert "fleet-virt.maintenance" not in listed
