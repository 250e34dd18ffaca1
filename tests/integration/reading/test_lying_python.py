# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor whose Python answers every module as it likes, through every playbook.

It is hv1, the first of each play: Ansible runs what runs once in its name, with its variables.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import answers
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.snapshot import (
    DomainEntry,
    Domains,
    FirmwareEntry,
    MetadataEntry,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._variables import PLAYBOOKS
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support.ansible import (
    SERVERS,
    Ansible,
    Run,
)
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_ANSWER = "/root/answer.json"
_PYTHON = "/root/lying-python"
_SHAPELESS = "its response is not what a module of this collection returns"
# Playbook with its words, and what has to be said of the liar ("": its word is taken as data)
RUNS = {
    "list": _SHAPELESS,
    "query": _SHAPELESS,
    "host_info": _SHAPELESS,
    "images": _SHAPELESS,
    "preflight": _SHAPELESS,
    "purge_vm -e vm_name=nobody": _SHAPELESS,
    "purge_vm -e virt_names=no* -e virt_confirm=1": _SHAPELESS,
    "migrate_vm -e virt_group=web": _SHAPELESS,
    "plan -e vm_name=nobody": _SHAPELESS,
    "capacity -e virt_require=0": _SHAPELESS,
    "doctor": _SHAPELESS,
    "what_if -e virt_lose=hv2": _SHAPELESS,
    "rolling -e virt_host=hv1 -e virt_tasks=/dev/null": _SHAPELESS,
    "state -e vm_name=nobody -e vm_state=running": _SHAPELESS,
    "provision_vm -e vm_name=new1 -e vm_memory=64MiB": _SHAPELESS,
    "migrate_vm -e vm_name=nobody": _SHAPELESS,
    "evacuate -e virt_host=hv1": _SHAPELESS,
    "return_vms -e virt_host=hv1": _SHAPELESS,
    "restart_elsewhere -e virt_host=hv1": _SHAPELESS,
    # no VM was ever saved there, which the controller finds out before it asks anybody
    "restore -e vm_name=nobody -e virt_backup_to=/tmp -e virt_backup_passphrase=x": "",
    "verify_backups -e virt_backup_to=/tmp -e virt_backup_passphrase=x": "",
    "restore_file -e vm_name=nobody -e virt_path=/etc/fstab -e virt_restore_to=/tmp/fstab"
    " -e virt_backup_to=/tmp -e virt_backup_passphrase=x": "",
    "restore_disk -e vm_name=nobody -e virt_disk=data -e virt_backup_to=/tmp"
    " -e virt_backup_passphrase=x": "",
    "repair_vms": "",
    "maintenance -e virt_host=hv1": "",
    "renew_keys": f"hv1: {_SHAPELESS}",
    "setup_hypervisors --limit hv1": f"hv1: {_SHAPELESS}",
    "adopt -e vm_name=nobody": _SHAPELESS,
    "rename -e vm_name=nobody -e vm_new_name=new1": _SHAPELESS,
    "clone -e vm_name=new1 -e virt_clone_of=nobody": _SHAPELESS,
    "import_vm -e vm_name=new1 -e virt_import=~/disk.raw": _SHAPELESS,
    "template -e vm_name=nobody -e virt_template=new1": _SHAPELESS,
    "snapshot -e vm_name=nobody -e virt_snapshot=new1": _SHAPELESS,
    "move_disk -e vm_name=nobody -e virt_disk=vda -e virt_to_pool=fast": _SHAPELESS,
    "snapshots": _SHAPELESS,
    "backup -e vm_name=nobody -e virt_backup_to=/mnt/backup": _SHAPELESS,
    "console -e vm_name=nobody": _SHAPELESS,
    "console_log -e vm_name=nobody": _SHAPELESS,
    "screenshot": _SHAPELESS,
}


@dataclass(frozen=True)
class Liar:
    """``home`` is the controller's user's, with files that are nobody else's business."""

    ansible: Ansible
    lab: Laboratory
    inventory: Path
    home: Path

    def answers(self, **more: Any) -> None:
        """Have it answer with this, and with facts that are variables of the collection."""
        home = str(self.home)
        facts = {
            "virt_output": "json",
            "virt_output_file": f"{home}/.profile",
            "virt_image": "secret.qcow2",
            "virt_image_dir": home,
            "vm_image": "secret.qcow2",
            "virt_inventory_uri": f"qemu+ext:///system?command={home}/start",
            "virt_uri": f"qemu+ext:///system?command={home}/start",
            "virt_ssh_public_key": "ssh-ed25519 AAAA evil",
            "virt_hypervisors_lost": ["hv2"],
            "virt_screenshots": home,
            "libvirt_keys_dir": f"{home}/keys",
            "libvirt_keys_revoke": ["hv2"],
            "libvirt_keys_names": ["evil.example"],
            "images_present": [{"image": "secret.qcow2"}],
            "images_dir": home,
            # what the roles ask for
            "ansible_architecture": "x86_64",
            "ansible_distribution": "../../Debian",
            "ansible_distribution_major_version": "12",
            "ansible_os_family": "Debian",
            "ansible_pkg_mgr": "apt",
            "packages": {},
        }
        answer = {"changed": False, "ansible_facts": facts, "add_host": {"host_name": "evil"}}
        # no mapping, which of a module of Ansible's own ends the play for all
        answer.update(results=[{"failed": True}], ansible_stats=5)
        answer.update(more)
        text = base64.b64encode(json.dumps(answer).encode()).decode()
        self.lab.ssh("hv1", f"base64 -d > {_ANSWER}", input=text)

    def python(self, script: str) -> None:
        """Have its Python be this script of the shell's."""
        text = f"#!/bin/sh\n{script}\n"
        self.lab.ssh("hv1", f"cat > {_PYTHON}; chmod 755 {_PYTHON}", input=text)

    def run(self, command: str) -> Run:
        name, *words = command.split()
        environment = {"HOME": str(self.home)}
        return self.ansible.playbook(
            name, args=words, inventory=self.inventory, environment=environment
        )


def _files(folder: Path) -> dict[str, str]:
    """What is there, without what Ansible keeps for itself, and the lock of the keys' folder."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".ansible" not in path.parts and path.name != "lock"
    }


@pytest.fixture(scope="module")
def liar(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Liar]:
    top = tmp_path_factory.mktemp("liar")
    home, inventory = top / "home", top / "inventory"
    home.mkdir()
    (home / ".profile").write_text("umask 077\n", encoding="utf-8")
    (home / "secret.qcow2").write_text("secret", encoding="utf-8")
    (home / "disk.raw").write_text("\0" * 512, encoding="utf-8")
    (home / "start").write_text(f"#!/bin/sh\ntouch {home}/started\n", encoding="utf-8")
    (home / "start").chmod(0o755)
    (inventory / "host_vars").mkdir(parents=True)
    shutil.copy(lab.inventory / "10-hypervisors.yml", inventory)
    settings = {"ansible_python_interpreter": _PYTHON}
    (inventory / "host_vars" / "hv1.yml").write_text(json.dumps(settings), encoding="utf-8")
    made = Liar(Ansible(inventory, top / "ansible", SERVERS), lab, inventory, home)
    made.python(f"[ $# -gt 0 ] || cat > /dev/null\nexec cat {_ANSWER}")
    try:
        yield made
    finally:
        lab.ssh("hv1", f"rm -f {_PYTHON} {_ANSWER}", check=False)


@pytest.mark.parametrize("command", RUNS)
def test_nothing_on_the_controller_is_governed_by_it(liar: Liar, command: str) -> None:
    liar.answers(
        domains=[{"name": "x"}],
        host={"vms": [{"name": "x"}]},
        images=[{"name": "x"}],
        vms=[{"name": "nobody"}],
        facts={"x": 1},
        kinds={"control": {}},
        maintenance=True,
        tool="openssl",
        pool_ids=["x"],
        users=[{}],
        defined=[{"name": "nobody"}],
        consoles=[{"name": "nobody"}],
        screens=[{"name": "nobody"}],
    )
    before = _files(liar.home)
    run = liar.run(command)
    said = run.stdout + run.stderr
    assert _files(liar.home) == before, said
    assert RUNS[command] in " ".join(said.split()), said
    assert "Traceback" not in said
    hosts = {event.host for event in run.events}
    assert "hv1" in hosts
    assert hosts <= {"hv1", "hv2"}


def test_every_playbook_is_among_them() -> None:
    asking = set(PLAYBOOKS) - documentation.WITHOUT_HYPERVISORS
    assert {command.split()[0] for command in RUNS} == asking


def test_a_sound_answer_is_shown_and_no_more(liar: Liar) -> None:
    """It is shown on the screen as a table, whatever its facts say."""
    domain: dict[str, Any] = dict.fromkeys(answers.keys(DomainEntry))
    domain.update(name="lie1", uuid="u", state="running", reason="booted", vcpus=1, memory_mib=1)
    lists = ("graphics", "disks", "nics", "consoles", "hostdevs", "snapshots", "hugepages")
    domain.update({key: [] for key in lists})
    domain["firmware"] = dict.fromkeys(answers.keys(FirmwareEntry))
    domain["metadata"] = {
        **dict.fromkeys(answers.keys(MetadataEntry)),
        **{key: [] for key in ("groups", "affinity", "anti_affinity", "tags", "volumes")},
        "addresses": [],
        **{"managed": False, "ha": False, "evacuated_from": []},
    }
    assert answers.problem({"domains": [domain]}, Domains) is None
    liar.answers(domains=[domain])
    before = _files(liar.home)
    run = liar.run("list").succeeded()
    assert ["hv1", "lie1", "running", "booted"] in [
        line.split() for line in run.stdout.splitlines()
    ]
    assert _files(liar.home) == before


_PLATFORM = {
    "ansible_architecture": "x86_64",
    "ansible_distribution": "Debian",
    "ansible_distribution_major_version": "12",
    "ansible_os_family": "Debian",
    "ansible_pkg_mgr": "apt",
}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({**_PLATFORM, "packages": {}}, "would install 11 packages: dnsmasq-base"),
        (_PLATFORM, "hv1: its answer is not what ansible.builtin.package_facts returns"),
        ({"packages": {}}, "hv1: its answer is not what ansible.builtin.setup returns"),
    ],
)
def test_another_hypervisor_is_set_up_all_the_same(
    liar: Liar, facts: dict[str, Any], said: str
) -> None:
    """Whatever it answers to modules of Ansible's own, which learn what machine it is.

    Without keys: no CA begins while one of the fleet is silent.
    """
    liar.answers(ansible_facts={**facts, "virt_output_file": "/x"})
    before = _files(liar.home)
    run = liar.run("setup_hypervisors --check -e hypervisor_keys=false")
    text = run.stdout + run.stderr
    assert said in " ".join(text.split()), text
    assert "Traceback" not in text
    assert _files(liar.home) == before
    ended = {event.task for event in run.events if event.host == "hv2" and event.status == "ok"}
    assert any(task.endswith("Check which packages are missing") for task in ended), text
    assert any("irewall" in task for task in ended), text


def test_an_answer_without_end_is_given_up(liar: Liar) -> None:
    """Also over SSH, and the others are listed."""
    liar.python("[ $# -gt 0 ] || cat > /dev/null\nexec yes 'no end'")
    run = liar.run("list -e virt_timeout=900").succeeded()
    said = " ".join((run.stdout + run.stderr).split())
    too_long = (
        "hv1: no answer: its response exceeds the limit of 67108864 characters and was aborted"
    )
    assert too_long in said, said
    assert "1 of 2 hypervisors answered" in said, said
