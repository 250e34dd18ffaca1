# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of README and the guides that change VMs are run as they are shown, in their order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import many
from ansible_collections.fleet.virt.tests.integration.support import blank
from ansible_collections.fleet.virt.tests.lab import images

from .conftest import Fleet

_STATE = "ansible hv1 -b -m fleet.virt.virt_state -a"
_STATES = "ansible-playbook fleet.virt.state"
_PROVISION = "ansible-playbook fleet.virt.provision_vm"
_PURGE = "ansible-playbook fleet.virt.purge_vm"
# Each with what it must print
COMMANDS = {
    f"{_STATE} 'name=web1 state=running'": r"hv1 \| (CHANGED|SUCCESS)",
    f"{_STATES} -e virt_names=web1,db1 -e vm_state=saved": r"db1 +hv1 +saved +changed +save",
    f"{_STATES} -e virt_group=shop -e vm_state=running": r"web1 +hv1 +running +changed +start from",
    f"{_STATES} -e virt_group=shop -e vm_reboot=true": r"db1 +hv1 +running +changed +shut down",
    f"{_STATES} -e vm_name=web1 -e vm_state=running": r"web1 +hv1 +running +unchanged",
    f"{_STATES} -e 'virt_names=web*' -e vm_state=running --check": r"web1 +hv1 +running +unchanged",
    f"{_STATE} 'name=web1,db1 state=shutoff'": r"hv1 \| CHANGED",
    f"{_PURGE} -e vm_name=web1 --check": r"web1_system\.qcow2",
    f"{_PURGE} -e vm_name=web1": r"web1_system\.qcow2",
    f"{_PURGE} -e virt_names=web1,web2 -e vm_force=true": r"web2_system\.qcow2",
}
# After them db1 is the last of its group
REMOVING_A_GROUP = {
    f"{_PURGE} -e virt_group=shop --check": r"db1_system\.qcow2(.*\n)+.* add -e virt_confirm=1",
    f"{_PURGE} -e virt_group=shop -e virt_confirm=1": r"db1_system\.qcow2",
}


_CENTOS = f"{_PROVISION} -e vm_name=centos1 -e vm_vcpus=2 -e vm_memory=512 -e vm_image=centos.img"
CREATING = {
    f"{_CENTOS} --check": r"centos1 +hv\d +- +would be created",
    _CENTOS: r"centos1 +hv\d +198\.\S+ +created",
    f"{_PROVISION} -e vm_name=web1 -e vm_image=debian12.qcow2 -e virt_image_dir=/srv/images": (
        r"web1 +hv\d +198\.\S+ +created"
    ),
    "ansible hv1 -b -m fleet.virt.virt_init -a 'name=centos2 vcpus=2 memory=512"
    " image=/var/lib/libvirt/images/centos.qcow2'": r"hv1 \| CHANGED",
}
CREATING_SEVERAL = f"{_PROVISION} -e @vms.yml"
_GUIDE = Path(__file__).resolve().parents[3] / "docs" / "docsite" / "rst" / "creating.rst"


def _have(fleet: Fleet, *names: str) -> None:
    for name in names:
        path = fleet.images / name
        path.unlink(missing_ok=True)
        path.symlink_to(images.image("tiny"))


def _blocks() -> list[str]:
    """The YAML in the guide."""
    return re.findall(r"code-block:: yaml\n\n((?:    .*\n|\n)+)", _GUIDE.read_text("utf-8"))


def _shown(start: str, names: str = "") -> Any:
    """That which begins so and has these words."""
    return yaml.safe_load(
        next(one for one in _blocks() if one.strip().startswith(start) and names in one)
    )


def test_commands_that_create_vms(fleet: Fleet) -> None:
    fleet = fleet.alone("hv1")
    _have(fleet, "centos.img", "debian12.qcow2")
    copy = "install -m 644 /var/lib/libvirt/base/*-blank.qcow2 /var/lib/libvirt/images/centos.qcow2"
    fleet.init("hv1", name="first", memory=64, image=blank.NAME, start=False)
    for command, pattern in CREATING.items():
        program, *words = shlex.split(command.replace("/srv/images", str(fleet.images)))
        if "/var/lib" in command:
            fleet.host("hv1", copy)
        for name, value in fleet.variables.items():
            words += [] if name in command else ["-e", f"{name}={value}"]
        run = fleet.ansible.run(program, words).succeeded()
        assert re.search(pattern, run.stdout), str(run)


def test_several_and_profiles_as_the_guide_shows_them(fleet: Fleet, tmp_path: Path) -> None:
    """The lists of the guide, smaller: memory, and the VMs are not started."""
    _have(fleet, "debian12.qcow2")
    vms = [
        {**vm, "memory": 64, "start": False}
        for vm in _shown("virt_vms:", "anti_affinity")["virt_vms"]
    ]
    for name in ("service_br", "storage_br"):
        fleet.network("hv1", name, "br0")
    vms[2].update(disk_profile="database", nic_profile="dual")
    profiles = _shown("virt_disk_profiles:")
    assert {"virt_disk_profiles", "virt_nic_profiles"} == set(profiles)
    path = tmp_path / "vms.yml"
    path.write_text(yaml.safe_dump({"virt_vms": vms, **profiles, **fleet.variables}))
    program, *words = shlex.split(CREATING_SEVERAL.replace("vms.yml", str(path)))
    fleet.ansible.run(program, words).succeeded()
    found = fleet.domains()
    assert "db1" in found["hv1"]
    assert [sorted({"web1", "web2"} & set(found[host])) for host in ("hv1", "hv2")] in (
        [["web1"], ["web2"]],
        [["web2"], ["web1"]],
    )
    assert {"db1_system.qcow2", "db1_data.qcow2"} <= set(fleet.files("hv1"))


def test_every_vm_of_the_guide_is_understood() -> None:
    shown = [yaml.safe_load(block) for block in _blocks() if block.strip().startswith("virt_vms:")]
    assert len(shown) >= 5
    for one in shown:
        _domains, problems = many([{"seed": False, **vm} for vm in one["virt_vms"]])
        assert not problems


def test_a_playbook_goes_on_with_the_vm_that_it_made(fleet: Fleet, tmp_path: Path) -> None:
    _have(fleet, "debian12.qcow2")
    path = tmp_path / "site.yml"
    path.write_text(yaml.safe_dump(_shown("- name: Have the VM")), encoding="utf-8")
    inventory = fleet.with_guests(tmp_path / "inventory")
    run = fleet.ansible.playbook(str(path), fleet.variables, inventory=inventory).succeeded()
    assert run.of("Say who it is")["web1"]["stdout"].strip() == "web1"


def test_commands_that_change_vms(fleet: Fleet) -> None:
    vms = [
        {"name": name, "memory": 96, "image": "tiny.qcow2", "host": "hv1", "start": name != "web1"}
        for name in ("web1", "web2", "db1")
    ]
    fleet = fleet.alone("hv1")
    for vm in vms:
        vm["groups"] = ["shop"] if vm["name"] != "web2" else []
    vms[1]["image"] = blank.NAME  # nothing talks to web2
    fleet.provision(virt_vms=[{**vm, "wait": vm["name"] == "db1"} for vm in vms]).succeeded()
    for command, pattern in COMMANDS.items():
        program, *words = shlex.split(command)
        if "state=shutoff" in command or "reboot" in command:  # a guest that boots hears nobody
            waited = fleet.ansible.module("hv1", "virt_wait", {"names": ["web1", "db1"]})
            assert not waited["hv1"]["failed"], waited
        run = fleet.ansible.run(program, words).succeeded()
        assert re.search(pattern, run.stdout), str(run)
    assert fleet.domains()["hv1"] == ["db1"]
    assert fleet.files("hv1") == ["db1_system.qcow2"]  # its seed medium went when it answered
    for command, pattern in REMOVING_A_GROUP.items():
        program, *words = shlex.split(command)
        run = fleet.ansible.run(program, words).succeeded()
        assert re.search(pattern, run.stdout), str(run)
    assert fleet.domains()["hv1"] == []
    assert fleet.files("hv1") == []
