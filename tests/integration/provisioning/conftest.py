# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of provisioning share: an image folder, a key, and hypervisors swept clean."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests import setting_classes
from ansible_collections.fleet.virt.tests.integration.support import blank, tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.notes import FORGET
from ansible_collections.fleet.virt.tests.integration.support.process import Process
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab import images
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

# Minutes under emulation, for what is tried elsewhere in seconds: for `make trials`
_FOR_TRIALS = ["test_faults_of_verbs.py", "test_installer.py", "test_two_controllers.py"]
collect_ignore = [] if "FLEET_VIRT_TRIALS" in os.environ else _FOR_TRIALS
_MIB = 1024 * 1024
# Everything a VM of the collection may leave; the base images stay, they cost time to bring
_SWEEP = r"""
for name in $(virsh list --all --name); do
  virsh destroy "$name" >/dev/null 2>&1
  virsh undefine "$name" --nvram --managed-save --snapshots-metadata \
    --checkpoints-metadata >/dev/null
done
rm -rf /var/lib/libvirt/images/*
[ ! -e /etc/libvirt/storage/default.xml ] || virsh pool-refresh default >/dev/null
"""


class Fleet:
    """The laboratory as an administrator has it: variables, and a look at what is there."""

    def __init__(
        self, lab: Laboratory, ansible: Ansible, folder: Path, guests: Guests | None = None
    ) -> None:
        self.lab = lab
        self.guests = guests
        self.ansible = ansible
        self.images = folder / "images"
        self.images.mkdir()
        key = folder / "id_ed25519"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(key)],
            check=True,
        )
        self.key = key
        self.variables: dict[str, Any] = {
            "virt_image_dir": str(self.images),
            "virt_ssh_public_key": str(key.with_suffix(".pub")),
        }
        (self.images / "tiny.qcow2").symlink_to(images.image("tiny"))
        blank.make(self.images / blank.NAME)

    def alone(self, host: str) -> Fleet:
        """The same where that hypervisor is the whole fleet: for tests of one hypervisor's VMs.

        What it has noted of others would be a fleet of which the inventory lacks a part.
        """
        self.host(host, FORGET)
        fleet = copy.copy(self)
        fleet.ansible = self.ansible.alone(host)
        return fleet

    def raw_image(self, name: str, mib: int = 16, byte: bytes = b"") -> Path:
        """A raw image of ``mib`` MiB that begins with ``byte``, in the image folder."""
        path = self.images / name
        with path.open("wb") as file:
            file.write(byte)
            file.truncate(mib * _MIB)
        return path

    def init(self, host: str, check: bool = False, **options: Any) -> dict[str, Any]:
        """``virt_init`` ad hoc on one hypervisor; its result."""
        return self.ansible.module(host, "virt_init", options, extra=self.variables, check=check)[
            host
        ]

    def begin(self, host: str, module: str, options: dict[str, Any]) -> Process:
        """A module ad hoc, which goes on beside the test and can be killed by its name."""
        words = ("-m", f"fleet.virt.{module}", "-a", json.dumps(options))
        variables = ("-e", json.dumps(self.variables))
        return self.ansible.begin(
            "ansible", host, "--become", *words, *variables, ANSIBLE_PIPELINING="false"
        )

    def provision(
        self,
        check: bool = False,
        args: tuple[str, ...] = (),
        limit: float = 180,
        **variables: Any,
    ) -> Any:
        """The playbook ``provision_vm``; the run, which may take ``limit`` seconds."""
        return self.ansible.playbook(
            "provision_vm", {**self.variables, **variables}, args, check=check, limit=limit
        )

    def strict_ping(self, folder: Path, name: str) -> Run:
        """Ansible's ping of a VM, by the inventory plugin alone, with strict host key checking."""
        inventory = self.with_guests(folder)
        words = [name, "-m", "ansible.builtin.ping"]
        # a connection that is kept from before would ask for no key
        alone = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none"}
        return self.ansible.run("ansible", words, inventory=inventory, environment=alone)

    def with_guests(self, folder: Path) -> Path:
        """The folder, with an inventory of the hypervisors and, by the plugin, their guests."""
        folder.mkdir(exist_ok=True)
        shutil.copy(self.lab.inventory / "10-hypervisors.yml", folder)
        plugin = {
            "plugin": "fleet.virt.virt",
            "compose": {"ansible_ssh_private_key_file": f"'{self.key}'"},
        }
        (folder / "20-guests.virt.yml").write_text(json.dumps(plugin), encoding="utf-8")
        return folder

    def host(self, name: str, command: str) -> str:
        """What a command prints on a hypervisor."""
        return self.lab.ssh(name, command).stdout

    def domains(self) -> dict[str, list[str]]:
        """Names of the domains by hypervisor."""
        return {
            host.name: self.host(host.name, "virsh list --all --name").split()
            for host in self.lab.hosts
            if host.state == "running" and not host.bare
        }

    def files(self, host: str, folder: str = "/var/lib/libvirt/images") -> list[str]:
        """Names of the files in a folder of a hypervisor."""
        return sorted(self.host(host, f"ls -A {folder} 2>/dev/null || true").split())

    def network(self, host: str, name: str, bridge: str) -> None:
        """A libvirt network that is an existing bridge, active on a hypervisor."""
        xml = (
            f"<network><name>{name}</name><forward mode='bridge'/>"
            f"<bridge name='{bridge}'/>"
            f"<portgroup name='{setting_classes.PORTGROUP}'/></network>"
        )
        self.lab.ssh(
            host, f"virsh net-info {name} >/dev/null 2>&1 || virsh net-define /dev/stdin", input=xml
        )
        self.host(host, f"virsh net-start {name} 2>/dev/null || true")

    @contextlib.contextmanager
    def cut(self, *names: str) -> Iterator[None]:
        """Without these hypervisors; afterwards they are back as Ansible sees it.

        A connection that was kept open over the cut takes a while until it sends again.
        """
        for name in names:
            self.lab.cut(name)
        try:
            yield
        finally:
            for name in names:
                self.lab.heal(name)
            wait_for(
                lambda: (
                    self.ansible.run(
                        "ansible", [",".join(names), "-b", "-m", "ansible.builtin.ping"]
                    ).returncode
                    == 0
                ),
                120,
                f"answers of {', '.join(names)}",
            )

    def sweep_host(self, name: str) -> None:
        """The same of one hypervisor."""
        self.lab.ssh(name, _SWEEP)

    def sweep(self) -> None:
        """Remove every domain and every file of the disk pool."""
        for host in self.lab.hosts:
            if host.state == "running" and not host.bare:
                self.sweep_host(host.name)
        if self.guests is not None:
            self.guests.forget()


@pytest.fixture(scope="session")
def _fleet(
    lab: Laboratory,
    ansible: Ansible,
    all_guests: Guests,
    tmp_path_factory: pytest.TempPathFactory,
) -> Fleet:
    return Fleet(lab, ansible, tmp_path_factory.mktemp("fleet"), all_guests)


@pytest.fixture(params=[False, True], ids=["strangers", "trusting"])
def trusting(request: pytest.FixtureRequest, _fleet: Fleet) -> Iterator[bool]:
    """Whether the hypervisors trust each other, so that one can ask the others itself."""
    hosts = [host.name for host in _fleet.lab.hosts if host.state == "running" and not host.bare]
    with tls.trusting(_fleet.lab, hosts) if request.param else contextlib.nullcontext():
        yield request.param


@pytest.fixture(scope="module")
def _swept(_fleet: Fleet) -> Fleet:
    """The fleet without what the file before has left; each test sweeps behind itself."""
    _fleet.sweep()
    return _fleet


@pytest.fixture
def fleet(_swept: Fleet) -> Iterator[Fleet]:
    """The fleet without VMs; each test sweeps behind itself."""
    yield _swept
    _swept.sweep()
