# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of migration share: hypervisors with keys that trust each other, and a guest that
counts and writes each number to its disk before the next."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.keys.conftest import LISTEN, Keys
from ansible_collections.fleet.virt.tests.integration.provisioning.conftest import Fleet
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.images import digest
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.errors import LabError
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

# Chance alone decides what it tries: for `make trials`
collect_ignore = [] if "FLEET_VIRT_TRIALS" in os.environ else ["test_killed_anywhere.py"]
IMAGES = "/var/lib/libvirt/images"
MODULE = "fleet.virt.virt_migrate"
# Ends the module that moves {name} as a power cut would; the VM's metadata say which process it is
KILL = (
    "kill -9 $(virsh -q dumpxml --inactive {name} | grep ':owner ' | grep -o ' pid=.[0-9]*'"
    " | tr -dc 0-9)"
)
CONSOLE = "/var/log/libvirt/qemu/{name}-console.log"
_END_UNITS = (
    "for unit in $(systemctl list-units --all --plain --no-legend 'fleet-virt-mi*'"
    " | cut -d' ' -f1); do systemctl stop $unit; systemctl reset-failed $unit; done;"
    " rm -rf /run/fleet-virt"
)
_CRASH = re.compile("kernel BUG|Oops:|Kernel panic|end trace")
_OTHER = {"hv1": "hv2", "hv2": "hv1"}


class Movers:
    """VMs that are moved between two hypervisors."""

    def __init__(self, fleet: Fleet, guests: Guests, keys: Keys) -> None:
        self.fleet = fleet
        self.keys = keys
        self.guests = guests
        self.lab = fleet.lab
        self.ansible = fleet.ansible

    def listen(self, host: str) -> None:
        """Have a hypervisor that was started again listen with TLS."""
        self.lab.ssh(host, LISTEN)

    def make(self, name: str, host: str = "hv1", **options: Any) -> None:
        """A VM of the collection, without a seed, that runs unless asked otherwise."""
        wanted = {"memory": 96, "image": "tiny.qcow2", "seed": False, **options}
        wanted.setdefault("nics", [{"name": "eth0", "type": "bridge", "source": "br0"}])
        done = self.fleet.init(host, name=name, **wanted)
        assert not done["failed"], done["msg"]

    def count(self, name: str, host: str = "hv1") -> None:
        """Have the guest count."""
        self.guests.wait_agent(host, name)
        self.guests.execute(host, name, "count start")
        wait_for(lambda: self.shown(host, name) > 0, 20, f"{name} counts")

    def last_number(self, host: str, name: str, limit: float = 90) -> tuple[int, bool]:
        """The last number that the guest wrote where it has come to, and whether it went on there.

        It has stopped counting and has flushed then. If its kernel crashed, it is booted anew, and
        the number is what it finds on its disk.

        QEMU's emulation, unlike KVM, now and then misses that a page was written while memory is
        being copied, and the guest goes on with an old one: before 9.0, collecting the pages that
        were written (cpu_physical_memory_sync_dirty_bitmap) leaves the guest's TLB as it is, and
        through it the guest then writes unnoticed. ``count`` is made so that this hardly happens.
        The old page is found when it is next used: at once, or when the guest stops counting.
        Only an emulated guest whose kernel says that it crashed is excused so; whoever asks has a
        limit for how many of them.

        :raises AssertionError: it does not answer, and nothing tells that this is why.
        :raises LabError: likewise, once it had answered.
        """
        try:
            self.guests.wait_agent(host, name, limit)
            self.guests.execute(host, name, "count stop; sync")
            return self.shown(host, name), True
        except (AssertionError, LabError):
            console = self.lab.ssh(host, f"cat {CONSOLE.format(name=name)}", check=False).stdout
            print(f"the console of {name} on {host}:\n{console[-4000:]}")
            print(self.lab.ssh(host, f"virsh domstate {name} --reason", check=False).stdout)
            if self.lab.record.kvm or not _CRASH.search(console):
                raise
        self.fleet.host(host, f"virsh -q destroy {name}; virsh -q start {name}")
        self.guests.wait_agent(host, name)
        return self.shown(host, name), False

    def shown(self, host: str, name: str) -> int:
        """The last number that the guest wrote."""
        command = {"path": "/bin/sh", "arg": ["-c", "count show"], "capture-output": True}
        pid = self.guests.agent(host, name, "guest-exec", **command)["pid"]
        status = wait_for(
            lambda: (
                (found := self.guests.agent(host, name, "guest-exec-status", pid=pid))["exited"]
                and found
            ),
            20,
            f"{name} says how far it has counted",
        )
        text = base64.b64decode(status.get("out-data", "")).decode().strip()
        return int(text or 0)

    def args(self, name: str, host: str = "hv1", **options: Any) -> dict[str, Any]:
        """The module's options for moving a VM away from ``host``."""
        to = {"name": _OTHER[host]}
        return {"vms": [{"name": name, "destination": to}], "source": host, **options}

    def module(self, name: str, host: str = "hv1", **options: Any) -> dict[str, Any]:
        """The module, ad hoc, on the source; the VM's entry, or the whole result without one."""
        answer = self.ansible.module(host, "virt_migrate", self.args(name, host, **options))[host]
        return dict(answer["vms"][0]) if answer.get("vms") else answer

    def playbook(self, check: bool = False, **variables: Any) -> Run:
        """The playbook ``migrate_vm``."""
        return self.ansible.playbook("migrate_vm", variables, check=check, limit=300)

    def state(self, host: str, name: str) -> str:
        """The VM's state there, empty if it is not there."""
        done = self.lab.ssh(host, f"virsh -q domstate {name} 2>/dev/null", check=False)
        return done.stdout.strip()

    def metadata(self, host: str, name: str) -> str:
        """Our metadata in the VM's lasting and its live definition."""
        return self.fleet.host(host, f"virsh dumpxml --inactive {name}; virsh dumpxml {name}")

    def clean(self, host: str, *names: str) -> None:
        """Assert that a hypervisor has nothing of the VMs, not even a claim or a unit."""
        domains = self.fleet.domains()[host]
        files = self.fleet.files(host)
        for name in names:
            assert not [one for one in domains if one.split(".")[0] == name], domains
            assert not [one for one in files if one.startswith(f"{name}_")], files
        units = self.fleet.host(host, "systemctl list-units --all --no-legend 'fleet-virt-mi*'")
        assert not units.strip(), units

    def listed(self, host: str, name: str) -> dict[str, Any]:
        """What ``virt_query`` says of the VM."""
        found = self.ansible.module(host, "virt_query", {"names": [name]})[host]
        return dict(found["domains"][0])

    def sweep(self) -> None:
        """No VMs, no files of theirs, and no units that move them."""
        self.fleet.sweep()
        for host in self.lab.hosts:
            if host.state == "running" and not host.bare:
                self.lab.ssh(host.name, _END_UNITS, check=False)

    def qemu_check(self, host: str, name: str) -> None:
        """Assert that the disk of a VM that is shut off is an image without errors."""
        text = self.fleet.host(host, f"qemu-img check --output=json {IMAGES}/{name}_system.qcow2")
        found: Mapping[str, Any] = json.loads(text)
        assert not [key for key in ("corruptions", "check-errors") if found.get(key)], found


@pytest.fixture(scope="package")
def _keys(
    lab: Laboratory, ansible: Ansible, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Keys]:
    """Keys for all files of moves that are run one after the other; none are left by them."""
    keys = Keys(lab, ansible, tmp_path_factory.mktemp("migration-keys"))
    yield keys
    if "FLEET_VIRT_LAB" not in os.environ:
        keys.forget()


@pytest.fixture(scope="module")
def _movers(
    lab: Laboratory,
    ansible: Ansible,
    all_guests: Guests,
    _keys: Keys,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Movers]:
    """Both hypervisors with keys, listening with TLS, and the tiny image among their bases."""
    keys = _keys
    ready = all(keys.virsh(_OTHER[host], source=host).returncode == 0 for host in _OTHER)
    if not ready:  # the file before, or a laboratory that is kept, may have left them
        keys.run().succeeded()
        keys.listen()
        keys.assert_all_connect()
    fleet = Fleet(lab, ansible, tmp_path_factory.mktemp("migration"), all_guests)
    movers = Movers(fleet, all_guests, keys)
    bring(fleet)
    yield movers
    fleet.sweep()


def bring(fleet: Fleet, image: str = "tiny.qcow2") -> None:
    """An image and the pools on both hypervisors."""
    volume = f"{digest(fleet.images / image)}-"
    # the file before has mostly left it
    there = f"ls /var/lib/libvirt/base/{volume}* && virsh -q vol-list base | grep {volume}"
    hosts = [one for one in _OTHER if fleet.lab.ssh(one, there, check=False).returncode]
    if hosts:
        brought = fleet.ansible.module(
            ",".join(hosts), "virt_image", {"image": image}, extra=fleet.variables
        )
        assert not [one for one in brought.values() if one["failed"]], brought
    for host in ("hv1", "hv2"):
        fleet.host(
            host,
            f"virsh -q pool-info default >/dev/null 2>&1 || {{ mkdir -p {IMAGES};"
            f" virsh -q pool-define-as default dir --target {IMAGES};"
            " virsh -q pool-start default; }",
        )


@pytest.fixture
def movers(_movers: Movers) -> Iterator[Movers]:
    """The same without VMs, and swept again afterwards."""
    _movers.sweep()
    yield _movers
    _movers.sweep()


def elapsed(since: float) -> str:
    """Seconds since a moment, for what tests print."""
    return f"{time.monotonic() - since:.1f} s"


__all__ = ["CONSOLE", "IMAGES", "KILL", "MODULE", "Movers", "Path", "elapsed"]


SHARED_AT = "/srv/shared"
_SHARED_POOL = [{"name": "shared", "path": SHARED_AT}]


@pytest.fixture
def folder(movers: Movers, tmp_path: Path) -> Iterator[Path]:
    """A pool ``shared`` on both, one folder, with the id that the role gives it."""
    place = tmp_path / "shared"
    place.mkdir(mode=0o711)
    with shared_folder(movers.lab, place, SHARED_AT, ("hv1", "hv2")):
        made = movers.ansible.module("hypervisors", "virt_pool", {"pools": _SHARED_POOL})
        assert not [one for one in made.values() if one["failed"]], made
        yield place
        movers.sweep()
        for host in ("hv1", "hv2"):
            ends = "virsh -q pool-destroy shared; virsh -q pool-undefine shared"
            movers.lab.ssh(host, ends, check=False)
