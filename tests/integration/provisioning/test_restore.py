# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs are restored from archives: elsewhere, beside themselves, never over anything."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support import backups
from ansible_collections.fleet.virt.tests.integration.support.ansible import Run
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder

from .conftest import Fleet

RESTORE = "ansible-playbook fleet.virt.restore -e vm_name=web1"
BESIDE = f"{RESTORE} -e vm_new_name=web1-before -e virt_archive=2026-11-28T06:51:18Z"
LOST = "ansible-playbook fleet.virt.restore -e virt_names=web1,db1 -e virt_hypervisors_lost=hv1"
FILE = (
    "ansible-playbook fleet.virt.restore_file -e vm_name=web1 -e virt_path=/etc/fstab"
    " -e virt_restore_to=web1-fstab"
)
DISK = "ansible-playbook fleet.virt.restore_disk -e vm_name=web1 -e virt_disk=data"
DISK_BEFORE = f"{DISK} -e virt_archive=2026-11-28T06:51:18Z"
COMMANDS = (
    *(RESTORE, f"{RESTORE} --check", BESIDE, LOST),
    *(DISK_BEFORE, f"{DISK_BEFORE} --check", FILE),
)
_FIRST, _SECOND, _DAMAGED = (f"2026-11-28T{hour}:51:18Z" for hour in ("06", "07", "08"))
_HOSTS = ("hv1", "hv2")
_DISK = "/var/lib/libvirt/images/web1_system.qcow2"
_DATA = "/var/lib/libvirt/images/web1_data.raw"
_DISKS = [
    {"name": "system", "size": 64},
    {"name": "data", "size": 32, "format": "raw"},
]
_FOUND = "qemu-img compare -f {0} -F {1} {2} {3}"


class Backups:
    """A fleet with a place of backups, which the controller has too."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet, self.folder = fleet, folder

    def run(self, command: str, *words: str, **variables: Any) -> Run:
        program, *shown = shlex.split(command)
        given = {
            "virt_backup_to": backups.AT,
            "virt_backup_read_from": str(self.folder),
            "virt_backup_passphrase": backups.PASSPHRASE,
            **variables,
        }
        run = self.fleet.ansible.run(program, [*shown, *words, "-e", json.dumps(given)], limit=300)
        assert backups.PASSPHRASE not in str(run.events), "the passphrase is in no result"
        return run

    def refused(self, command: str, *words: str, message: str, **variables: Any) -> None:
        before = self.state()
        run = self.run(command, *words, **variables)
        assert run.returncode == 2, str(run)
        assert message in run.stdout + run.stderr, str(run)
        assert self.state() == before, str(run)

    def state(self) -> tuple[dict[str, list[str]], list[list[str]]]:
        domains = self.fleet.domains()
        return domains, [self.fleet.files(host) for host in domains]

    def write(self, host: str, text: str) -> None:
        """The letter at a place in each of the disks of web1, which is off."""
        for path, kind in ((_DISK, "qcow2"), (_DATA, "raw")):
            write = f"write -P {ord(text)} 1M 192k"
            self.fleet.host(host, f"qemu-io -f {kind} -c '{write}' {path} >/dev/null")

    def holds(self, host: str, text: str, disk: str, data: str) -> bool:
        reads = [(disk, "qcow2"), (data, "raw")]
        commands = [
            f"qemu-io -f {kind} -c 'read -P {ord(text)} 1M 192k' -c 'read -P 0 2M 8M' {path}"
            for path, kind in reads
        ]
        said = [self.fleet.host(host, command) for command in commands]
        return not any("verification failed" in one for one in said)


@pytest.fixture
def saved(fleet: Fleet, tmp_path: Path) -> Iterator[Backups]:
    folder = tmp_path / "backup"
    folder.mkdir()
    with shared_folder(fleet.lab, folder, backups.AT, _HOSTS):
        yield Backups(fleet, folder)


def test_vm_is_restored_elsewhere_and_beside_itself(saved: Backups) -> None:
    fleet = saved.fleet
    for name, disks in (("web1", _DISKS), ("db1", _DISKS[:1])):
        made = fleet.init("hv1", vms=[{"name": name, "disks": disks, "start": False}])
        assert not made["failed"], made
    backups.save(fleet.lab, "hv1", "db1", _FIRST)
    saved.write("hv1", "a")
    uuid = backups.save(fleet.lab, "hv1", "web1", _FIRST)
    saved.write("hv1", "b")
    assert backups.save(fleet.lab, "hv1", "web1", _SECOND) == uuid
    before = fleet.host("hv1", "virsh dumpxml --inactive web1")
    saved.refused(RESTORE, message="has the VM that was saved, called 'web1'")
    saved.refused(f"{RESTORE} --check", message="has the VM that was saved, called 'web1'")

    beside = saved.run(BESIDE, vm_host="hv2").succeeded()
    assert "restored, shut off" in str(beside)
    names = [f"/var/lib/libvirt/images/web1-before_{name}" for name in ("system.qcow2", "data.raw")]
    assert saved.holds("hv2", "a", *names), "what it was at that moment"
    assert fleet.host("hv2", "virsh domuuid web1-before").strip() != uuid
    assert "restored before" in str(saved.run(BESIDE).succeeded())

    _disk_beside(saved)

    # a hypervisor lost for good: its VMs are restored on others without it
    fleet.lab.kill("hv1")
    try:
        saved.refused(RESTORE, message="1 of 2 hypervisors answered; more than half must")
        check = saved.run(f"{LOST} --check").succeeded()
        assert str(check).count("would be restored") == 2
        assert fleet.host("hv2", "virsh list --all --name").split() == ["web1-before"]
        done = saved.run(LOST).succeeded()
        assert str(done).count("restored, shut off") == 2
    finally:
        fleet.lab.start("hv1")
        fleet.sweep_host("hv1")
    assert saved.holds("hv2", "b", _DISK, _DATA)
    after = fleet.host("hv2", "virsh dumpxml --inactive web1")
    assert fleet.host("hv2", "virsh domuuid web1").strip() == uuid
    assert _macs(after) == _macs(before)
    allocated = int(fleet.host("hv2", f"du -k {_DATA}").split()[0])
    assert allocated < 2048, "holes stay holes"

    backups.save(fleet.lab, "hv2", "web1", _DAMAGED, damaged=True)
    differs = f"{uuid}::{_DAMAGED}: disks/vdb.raw has"
    saved.refused(f"{RESTORE} -e vm_new_name=web2", message=differs)
    _examples(saved)


def _disk_beside(saved: Backups) -> None:
    """A disk of the VM, which runs and is not touched, in a volume of its own."""
    fleet, path = saved.fleet, "/var/lib/libvirt/images/web1_data-2026-11-28T065118Z.raw"
    saved.refused(f"{DISK} -e virt_archive={_FIRST} -e virt_disk=vdz", message="has no disk 'vdz'")
    fleet.host("hv1", "virsh -q start web1")
    before = fleet.host("hv1", "virsh dumpxml web1")
    state = saved.state()
    check = saved.run(f"{DISK_BEFORE} --check").succeeded()
    assert f"would be restored  {_FIRST}  {path}" in str(check)
    assert saved.state() == state
    done = saved.run(DISK_BEFORE).succeeded()
    assert f"restored  {_FIRST}  {path}" in str(done)
    assert "exists already" in str(saved.run(DISK_BEFORE).succeeded())
    assert fleet.host("hv1", "virsh dumpxml web1") == before
    name = path.rpartition("/")[2]
    assert fleet.host("hv1", f"virsh vol-path {name} --pool default").strip() == path
    fleet.host("hv1", "virsh -q destroy web1")
    assert saved.holds("hv1", "b", _DISK, _DATA)
    read = f"qemu-io -r -f raw -c 'read -P 97 1M 192k' -c 'read -P 0 2M 8M' {path}"
    assert "verification failed" not in fleet.host("hv1", read)
    saved.fleet.host("hv1", f"rm {path}; virsh -q pool-refresh default")


def _examples(saved: Backups) -> None:
    """The module's own, on a hypervisor of its own: it has none of the VMs."""
    alone = saved.fleet.alone("hv2")
    saved.fleet.sweep_host("hv2")
    first, second = (example.task for example in documentation.examples("virt_restore"))
    (disk,) = (example.task for example in documentation.examples("virt_restore_disk"))
    (file,) = (example.task for example in documentation.examples("virt_restore_file"))
    first["fleet.virt.virt_restore"]["archive"] = _SECOND  # the newest is damaged
    variables = {"virt_backup_passphrase": backups.PASSPHRASE}
    lacking = "guestfish is not installed; install the package libguestfs-tools"
    saved.refused(FILE, message=f"hv2: {lacking}")
    refused = alone.ansible.play([file], "hv2", become=True, vars=variables)
    assert refused.returncode == 2, str(refused)
    assert lacking in str(refused)
    names = [f"/var/lib/libvirt/images/web1-before_{name}" for name in ("system.qcow2", "data.raw")]
    # libvirt lists a volume whose file was removed by hand
    alone.host("hv2", f"touch {names[0]}; virsh -q pool-refresh default; rm {names[0]}")
    for _run in range(2):
        alone.ansible.play([second, first, disk], "hv2", become=True, vars=variables).succeeded()
    assert saved.holds("hv2", "a", *names)
    assert saved.holds("hv2", "b", _DISK, _DATA)
    # the folder of proofs stays, empty, once a backup was proven there
    left = "ls -d /run/fleet-virt-* | grep -vx /run/fleet-virt-proofs; pgrep -a 'qemu-nbd|borg'; :"
    assert alone.host("hv2", left) == ""


def _macs(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "<mac " in line]
