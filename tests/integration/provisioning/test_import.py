# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VM that another system exported boots on the fleet, and a second import changes nothing."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.lab import images
from ansible_collections.fleet.virt.tests.unit.importing import packages

from .conftest import Fleet

_NETWORKS = {"VM Network": {"bridge": "br0"}}
_IMPORT = "ansible-playbook fleet.virt.import_vm -e virt_import=/srv/exports"
_NAMED = f"{_IMPORT}/web.ova -e '{json.dumps({'virt_import_networks': _NETWORKS})}' --check"
_CONVERTED = f"{_IMPORT}/web-sda -e vm_name=web -e vm_os=win2k22"
# As the guide shows them, with what each must print
COMMANDS = {
    _NAMED: r"it boots from disk1 \('web-disk001.vmdk'\)(.|\n)*web +hv1 +- +would be created",
    _CONVERTED: r"web +hv1 +- +would be created",
}
_BASE = "/var/lib/libvirt/base"


def _ova(folder: Path) -> Path:
    """The laboratory's guest as VirtualBox exports it."""
    disk = folder / "web-disk001.vmdk"
    words = ["qemu-img", "convert", "-f", "qcow2", "-O", "vmdk", "-o", "subformat=streamOptimized"]
    subprocess.run([*words, str(images.image("tiny")), str(disk)], check=True)
    packages.footed(disk)
    text = packages.virtualbox().replace('"EFI"', '"BIOS"').replace(">1024<", ">96<")
    return packages.ova(folder / "web.ova", text.replace("NAT", "VM Network"), disk)


def _imported(fleet: Fleet) -> list[str]:
    return [name for name in fleet.files("hv1", _BASE) if "-import-" in name or name[0] == "."]


def test_exported_vm_boots_and_second_import_changes_nothing(fleet: Fleet, tmp_path: Path) -> None:
    fleet = fleet.alone("hv1")
    assert fleet.guests is not None
    variables = {
        **fleet.variables,
        "virt_import": str(_ova(tmp_path)),
        "virt_import_networks": _NETWORKS,
        "virt_import_bus": "virtio",  # what the laboratory's guest has a driver for
        "vm_vcpus": "1",
    }
    (tmp_path / "web-sda").symlink_to(images.image("tiny"))
    for command, printed in COMMANDS.items():
        program, *words = shlex.split(command.replace("/srv/exports", str(tmp_path)))
        more = ["-e", json.dumps(fleet.variables), "--check"]
        run = fleet.ansible.run(program, [*words, *more], limit=120).succeeded()
        assert re.search(printed, run.stdout), str(run)

    predicted = fleet.ansible.playbook("import_vm", variables, check=True).succeeded()
    assert re.search(r"web +hv1 +- +would be created", predicted.stdout)
    assert "  memory: 96" in predicted.stdout
    assert "besides, from variables: vm_vcpus" in predicted.stdout
    assert fleet.host("hv1", "virsh -q list --all --name").strip() == ""
    assert not _imported(fleet)

    run = fleet.ansible.playbook("import_vm", variables).succeeded()
    assert re.search(r"web +hv1 +- +created", run.stdout)
    fleet.guests.wait_agent("hv1", "web")
    assert not _imported(fleet), "the VM has full copies"
    described = fleet.host(
        "hv1",
        "virsh dumpxml web; qemu-img info -U --backing-chain"
        " $(virsh -q domblklist web | awk '{print $2; exit}')",
    )
    assert "<vcpu placement='static'>1<" in described
    assert "backing file" not in described

    again = fleet.ansible.playbook("import_vm", variables).succeeded()
    assert re.search(r"web +hv1 +- +unchanged", again.stdout)
    assert not [event for event in again.events if event.result.get("changed")]

    convert, show = [example.task for example in documentation.examples("virt_import")]
    convert["fleet.virt.virt_import"].update(src=variables["virt_import"], networks=_NETWORKS)
    done = fleet.ansible.play([convert, show], "hv1", become=True).succeeded()
    result = {key: value for key, value in done.events[0].result.items() if key[0] != "_"}
    assert documentation.undocumented("virt_import", result) == []
    (entry,) = result["images"]
    # unless another test has brought the same content, which is no second image then
    if not entry["volume"].endswith("-tiny.qcow2"):
        assert entry["volume"].endswith("-web-import-disk1.qcow2")
        fleet.host("hv1", f"cd {_BASE} && chattr -i {entry['volume']}; rm {entry['volume']}")
