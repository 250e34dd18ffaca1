# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor dies, and its VMs are restarted on the others: only what is off, and each once."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import read_cards
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import CardName
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.provisioning.conftest import Fleet
from ansible_collections.fleet.virt.tests.integration.support.ansible import (
    SERVERS,
    Ansible,
    Run,
)
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.power_switch import (
    PASSWORD,
    PowerSwitch,
    power_switch,
)
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import SHARED_AT, Movers

# Shown in the guide
RESTART = "ansible-playbook fleet.virt.restart_elsewhere -e virt_host=hv3"
STATED = f"{RESTART} -e virt_fenced=hv3"
COMMANDS = (RESTART, f"{RESTART} --check", STATED)
_HOSTS = ("hv1", "hv2", "hv3")
_POOL = {"pools": [{"name": "shared", "path": SHARED_AT, "shared": True}]}
_DISKS = [{"name": "system", "pool": "shared", "size": 256}]
_SHORT = ("-e", "virt_fenced_lease=1")


class Survivors:
    """Three hypervisors with a folder in common, of which hv3 is the one that dies."""

    def __init__(self, movers: Movers, folder: Path, switch: PowerSwitch) -> None:
        self.movers = movers
        self.fleet = movers.fleet
        self.folder = folder
        self.switch = switch

    def make(self, name: str, **options: Any) -> None:
        """A VM on hv3, with its disk and its card in the folder."""
        self.movers.make(name, "hv3", disks=_DISKS, overlay=False, **options)
        assert (self.folder / CardName(name, ("hv3",)).file).exists()

    def run(self, command: str, *words: str, agent: bool = True) -> Run:
        """A command of the guide; ``agent``: the inventory says which agent switches hv3."""
        program, *shown = shlex.split(command)
        devices = {"virt_fence": self.switch.device("hv3")}
        given = ("-e", json.dumps(devices)) if agent else ()
        run = self.fleet.ansible.run(program, [*shown, *words, *given], limit=300)
        assert PASSWORD not in str(run.events), "the password is in no result"
        return run

    def refused(self, command: str, *words: str, message: str, agent: bool = True) -> Run:
        """The run, which was refused with the message, and has changed nothing."""
        before = self.state()
        run = self.run(command, *words, agent=agent)
        assert run.returncode == 2, str(run)
        assert message in run.stdout + run.stderr, str(run)
        assert self.state() == before, str(run)
        return run

    def state(self) -> tuple[list[tuple[str, int]], list[str]]:
        """The files of the folder with their inodes, and the domains of those that survive."""
        files = sorted((one.name, one.stat().st_ino) for one in self.folder.iterdir())
        domains = [
            f"{name} on {host}"
            for host in ("hv1", "hv2")
            for name in self.fleet.host(host, "virsh list --all --name").split()
        ]
        return files, sorted(domains)

    def where(self, name: str) -> str:
        """The only hypervisor that has the VM; asks those that are on."""
        places = [host for host, names in self.fleet.domains().items() if name in names]
        assert len(places) == 1, places
        return places[0]


@pytest.fixture(scope="module")
def survivors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivors]:
    kept = os.environ.get("FLEET_VIRT_LAB")
    laboratory = Laboratory(kept) if kept else Laboratory(f"r{os.getpid()}", os.getpid())
    laboratory.preloaded = True
    laboratory.up(3)
    laboratory.directly = True
    place = tmp_path_factory.mktemp("survivors")
    folder = place / "shared"
    folder.mkdir(mode=0o711)
    guests = Guests(laboratory)
    try:
        ansible = Ansible(laboratory.inventory, place, SERVERS)
        fleet = Fleet(laboratory, ansible, place, guests)
        with (
            shared_folder(laboratory, folder, SHARED_AT, _HOSTS),
            power_switch(laboratory, "hv1", "hv2") as switch,
        ):
            made = ansible.module("hypervisors", "virt_pool", _POOL)
            assert not [one for one in made.values() if one["failed"]], made
            brought = ansible.module(
                "hv3", "virt_image", {"image": "tiny.qcow2"}, extra=fleet.variables
            )
            assert not brought["hv3"]["failed"], brought
            yield Survivors(Movers(fleet, guests, None), folder, switch)  # type: ignore[arg-type]
    finally:
        if not kept:
            laboratory.down()


def test_vms_of_dead_hypervisor_are_restarted_once(survivors: Survivors) -> None:
    """All of it in one test: a fleet is made once, and its guest boots twice."""
    lab, movers, folder = survivors.fleet.lab, survivors.movers, survivors.folder
    survivors.make("web1", autostart=True)
    survivors.make("db1", start=False)
    movers.count("web1", "hv3")
    survivors.refused(RESTART, message="hv3 answers on port 22")

    lab.cut("hv3")
    # its QEMU still runs, and writes: the storage's lock is the last line
    locked = survivors.refused(
        STATED, *_SHORT, "-e", "vm_name=web1", message="is locked", agent=False
    )
    assert "nothing here has proven it" in str(locked)
    survivors.switch.broken = True
    survivors.refused(RESTART, message="hv3 is not proven off: fence_lab (plug hv3)")
    survivors.switch.broken = False
    before = survivors.state()
    plan = survivors.run(f"{RESTART} --check")
    assert plan.returncode == 0, str(plan)
    assert "would be restarted" in str(plan)
    assert "would be defined" in str(plan)
    assert survivors.state() == before

    reached = movers.shown("hv3", "web1")
    done = survivors.run(RESTART).succeeded()
    assert "hv3 is switched off" in str(done)
    assert lab.host("hv3").leader is None
    new, other = survivors.where("web1"), survivors.where("db1")
    movers.guests.wait_agent(new, "web1")
    assert movers.shown(new, "web1") >= reached, "the guest's disk is the same"
    assert movers.state(other, "db1") == "shut off"
    names = {one.name for one in folder.iterdir()}
    assert {"web1_system.r1.qcow2", "db1_system.r1.qcow2"} <= names
    assert not {"web1_system.qcow2", "db1_system.qcow2"} & names
    card = read_cards.require(str(folder), CardName("web1", (new,)))
    assert (card.counter, card.running, card.autostart) == (1, True, True)
    off = read_cards.require(str(folder), CardName("db1", (other,)))
    assert (off.counter, off.running, off.autostart) == (1, False, False)

    again = survivors.run(STATED, *_SHORT, agent=False).succeeded()
    assert "nothing to do" in str(again)
    _returned(survivors, new)


def _returned(survivors: Survivors, new: str) -> None:
    """The hypervisor is back: what it has of the VM fits no disk."""
    lab = survivors.fleet.lab
    lab.start("hv3")
    with shared_folder(lab, survivors.folder, SHARED_AT, ("hv3",)):
        stale = lab.ssh("hv3", "virsh start web1", check=False)
        assert stale.returncode != 0
        assert "No such file or directory" in stale.stderr
        assert survivors.movers.state(new, "web1") == "running"
        # the example of the module, for a hypervisor that is off again
        (example,) = documentation.examples("virt_restart")
        lab.kill("hv3")
    options = {**example.task["fleet.virt.virt_restart"], "addresses": [lab.host("hv3").address]}
    (result,) = survivors.fleet.ansible.module(new, "virt_restart", options).values()
    assert (result["failed"], result["changed"]) == (False, False), result
    wait_for(lambda: survivors.movers.state(new, "web1") == "running", 5, "it still runs")
