# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor dies, and its VMs are restarted on the others: only what is off, and each once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import read_cards
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import CardName
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_shared_pools import (
    NOTES_PATH,
)
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.provisioning.conftest import Fleet
from ansible_collections.fleet.virt.tests.integration.support import doctor, killing, tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import (
    SERVERS,
    Ansible,
    Run,
)
from ansible_collections.fleet.virt.tests.integration.support.guests import CHECKOUT, Guests
from ansible_collections.fleet.virt.tests.integration.support.power_switch import (
    PASSWORD,
    PowerSwitch,
    power_switch,
)
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab import fabric, processes
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import SHARED_AT, Movers

# Shown in the guide
RESTART = "ansible-playbook fleet.virt.restart_elsewhere -e virt_host=hv3"
STATED = f"{RESTART} -e virt_fenced=hv3"
BOTH = f"{RESTART},hv2"
REINSTALLED = STATED.replace("hv3", "hv3-old")
COMMANDS = (RESTART, f"{RESTART} --check", STATED, BOTH, REINSTALLED, f"{REINSTALLED} --check")
# Shown as well, and no command of Ansible
_GUIDE = CHECKOUT / "docs/docsite/rst/when_a_hypervisor_dies.rst"
RENAMED = 'for card in *@hv3.fleet.xml; do mv -n "$card" "${card%@*}@hv3-old.fleet.xml"; done'
_HOSTS = ("hv1", "hv2", "hv3")
_POOL = {"pools": [{"name": "shared", "path": SHARED_AT, "shared": True}]}
_DISKS = [{"name": "system", "pool": "shared", "size": 256}]
_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
# Why a controller restarted nothing, where another one did
_LOST = (
    r"another run has taken",
    r"was written by another run meanwhile",
    r"the card of 'web3' names [^;]*",
    r"sees no card of 'web3'",
    r"no card of 'web3' names",
)
# Its disk is hv3's own
_LOCAL = {
    **{"name": "local1", "host": "hv3", "memory": 64, "start": False, "seed": False},
    "disks": [{"name": "system", "size": 8}],
}
# What is left of a hypervisor is what others keep
_REINSTALL = f"""
for name in $(virsh list --all --name); do virsh destroy "$name"; virsh undefine "$name"; done
virsh pool-destroy fleet-notes; virsh pool-undefine fleet-notes
rm -rf {NOTES_PATH} /var/lib/libvirt/images/*
[ -z "$(virsh list --all --name)" ]
"""
_SHORT = ("-e", "virt_fenced_lease=1")


class Survivors:
    """Three hypervisors with a folder in common, of which hv3 is the one that dies."""

    def __init__(
        self, movers: Movers, folder: Path, switch: PowerSwitch, mounts: contextlib.ExitStack
    ) -> None:
        self.movers = movers
        self.fleet = movers.fleet
        self.folder = folder
        self.switch = switch
        self.mounts = mounts
        self.frozen = ""

    def start(self, host: str) -> None:
        """Switch a hypervisor on again: with the folder, and the agent."""
        lab = self.fleet.lab
        lab.start(host)
        self.frozen = ""
        self.mounts.enter_context(shared_folder(lab, self.folder, SHARED_AT, (host,)))
        self.switch.install(host)
        lab.ssh(host, "virsh -q pool-start shared 2>/dev/null || virsh -q pool-refresh shared")

    def share(self, hosts: str) -> None:
        """Have the folder as a pool that is declared shared, as setting up does."""
        made = self.fleet.ansible.module(hosts, "virt_pool", _POOL)
        assert not [one for one in made.values() if one["failed"]], made

    def at(self, host: str, address: str) -> tuple[str, str]:
        """The words for an inventory beside the laboratory's that has a hypervisor there."""
        path = self.fleet.ansible.home / f"{host}.yml"
        path.write_text(json.dumps({"hypervisors": {"hosts": {host: {"ansible_host": address}}}}))
        return "-i", str(path)

    @contextlib.contextmanager
    def replaced(self, host: str) -> Iterator[None]:
        """Something else has the address of a hypervisor, and refuses connections."""
        record = self.fleet.lab.record
        words = [f"{self.fleet.lab.host(host).address}/32", "dev", "br0"]
        fabric.inside(record, ["ip", "address", "add", *words])
        try:
            yield
        finally:
            fabric.inside(record, ["ip", "address", "del", *words])

    def freeze(self, host: str) -> None:
        """Stop all that runs on a hypervisor, which holds what it has open."""
        lab = self.fleet.lab
        pids = processes.find(Path(lab.record.directory), host)
        assert self.running("web1"), "among them its QEMU"
        processes.send(pids, signal.SIGSTOP)
        self.frozen = host

    def running(self, name: str) -> list[int]:
        """The QEMUs of a VM in the whole laboratory, seen from below."""
        mark, pids = f"\0guest={name},".encode(), []
        for pid in processes.find(Path(self.fleet.lab.record.directory)):
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{pid}/cmdline").read_bytes():
                    pids.append(pid)
        return pids

    def make(self, name: str, **options: Any) -> None:
        """A VM on hv3, with its disk and its card in the folder."""
        self.movers.make(name, "hv3", disks=_DISKS, overlay=False, **options)
        assert (self.folder / CardName(name, ("hv3",)).file).exists()

    def run(
        self, command: str, *words: str, agent: bool = True, ansible: Ansible | None = None
    ) -> Run:
        """A command of the guide; ``agent``: the inventory says which agent switches hypervisors.
        ``ansible`` is another controller."""
        program, *shown = shlex.split(command)
        devices = {"virt_fence": self.switch.device("{{ inventory_hostname }}")}
        given = ("-e", json.dumps(devices)) if agent else ()
        run = (ansible or self.fleet.ansible).run(program, [*shown, *words, *given], limit=300)
        assert PASSWORD not in str(run.events), "the password is in no result"
        return run

    @contextlib.contextmanager
    def lying(self) -> Iterator[None]:
        """The switch says that a host is off whose cable is in again."""
        answer = self.switch.answer

        def heal(verb: str, name: str) -> tuple[int, str]:
            self.fleet.lab.heal(name)
            return answer(verb, name)

        self.switch.lies = True
        self.switch.answer = heal  # type: ignore[method-assign]
        try:
            yield
        finally:
            self.switch.lies = False
            self.switch.answer = answer  # type: ignore[method-assign]

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
            for host in _HOSTS
            if host != self.frozen and self.fleet.lab.host(host).state == "running"
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
            contextlib.ExitStack() as mounts,
            shared_folder(laboratory, folder, SHARED_AT, _HOSTS),
            power_switch(laboratory, "hv1", "hv2") as switch,
        ):
            brought = ansible.module(
                "hv3", "virt_image", {"image": "tiny.qcow2"}, extra=fleet.variables
            )
            assert not brought["hv3"]["failed"], brought
            movers = Movers(fleet, guests, None)  # type: ignore[arg-type]
            survivors = Survivors(movers, folder, switch, mounts)
            survivors.share("hypervisors")
            yield survivors
    finally:
        if not kept:
            laboratory.down()


def test_vms_of_dead_hypervisor_are_restarted_once(survivors: Survivors) -> None:
    """All of it in one test: a fleet is made once, and its guest boots twice."""
    lab, movers, folder = survivors.fleet.lab, survivors.movers, survivors.folder
    survivors.fleet.provision(virt_vms=[_LOCAL]).succeeded()
    survivors.make("web1", autostart=True)
    survivors.make("db1", start=False)
    movers.count("web1", "hv3")
    survivors.refused(RESTART, message="hv3 answers, so it is not down")

    reached = movers.shown("hv3", "web1")
    # what hangs has a kernel that answers; without its cable its QEMU still holds the disk
    survivors.freeze("hv3")
    asked = {"host": "hv3", "addresses": [lab.host("hv3").address], "stated": True, "lease": 0}
    hung = survivors.fleet.ansible.module("hv1", "virt_fence", asked)["hv1"]
    assert hung["failed"]
    assert "hv3 answers on port 22" in hung["msg"]
    lab.cut("hv3")
    locked = survivors.refused(
        STATED, *_SHORT, "-e", "vm_name=web1", message="is locked", agent=False
    )
    assert "nothing here has proven it" in str(locked)
    nowhere = survivors.at("hv3", "no-such-host.invalid")
    survivors.refused(RESTART, *nowhere, message="no hypervisor that answers would hear it")
    with survivors.lying():
        survivors.refused(RESTART, message="although it is said to be off")
    lab.cut("hv3")
    survivors.switch.broken = True
    survivors.refused(RESTART, message="hv3 is not proven off: fence_lab (plug hv3)")
    survivors.switch.broken = False
    before = survivors.state()
    plan = survivors.run(f"{RESTART} --check")
    assert plan.returncode == 0, str(plan)
    assert "would be restarted" in str(plan)
    assert "would be defined" in str(plan)
    stays = r"on hv3 stays, as hv\d noted at [^:]+:\d\d:\d\d UTC: local1; no card names them"
    assert re.search(stays, str(plan)), str(plan)
    assert survivors.state() == before

    _doubted(survivors)
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

    # the example of the module, for a hypervisor that is off
    (example,) = documentation.examples("virt_restart")
    options = {**example.task["fleet.virt.virt_restart"], "addresses": [lab.host("hv3").address]}
    (result,) = survivors.fleet.ansible.module(new, "virt_restart", options).values()
    assert (result["failed"], result["changed"]) == (False, False), result
    _returned(survivors, new)
    _back_again(survivors, new)
    _reinstalled(survivors)


def _doubted(survivors: Survivors) -> None:
    """A second card of one VM, and a definition of the other that is shut off, with its disk."""
    fleet, folder = survivors.fleet, survivors.folder
    stale = folder / CardName("web0", ("hv3",)).file
    card = folder / CardName("web1", ("hv3",)).file
    stale.write_text(
        card.read_text().replace('name="web1"', 'name="web0"').replace(">web1<", ">web0<")
    )
    off = read_cards.require(str(folder), CardName("db1", ("hv3",)))
    disk = folder / "db1_newer.qcow2"
    disk.touch()
    text = off.definition.replace("db1_system.qcow2", disk.name)
    fleet.lab.ssh(
        "hv1", f"printf %s {shlex.quote(text)} >/tmp/db1.xml; virsh -q define /tmp/db1.xml"
    )
    told = str(survivors.refused(f"{RESTART} --check", message="two cards of its name or its UUID"))
    assert f"{SHARED_AT}/{stale.name}" in told
    assert f"{SHARED_AT}/{card.name}" in told
    assert "hv1 has a VM of the UUID of 'db1', and no leftover of it" in told
    fleet.lab.ssh("hv1", "virsh -q undefine db1")
    disk.unlink()
    stale.unlink()


def _returned(survivors: Survivors, new: str) -> None:
    """The hypervisor is back: what it has of the VM fits no disk."""
    lab = survivors.fleet.lab
    survivors.start("hv3")
    # its storage is there now, unlike when it booted; libvirt starts what it has once a boot
    lab.ssh("hv3", "rm -f /run/libvirt/qemu/autostarted; systemctl restart libvirtd")
    journal = wait_for(
        lambda: [
            line
            for line in lab.ssh("hv3", "journalctl --no-pager -u libvirtd").stdout.splitlines()
            if "Failed to autostart VM 'web1'" in line
        ],
        30,
        "libvirt refuses to start it",
    )
    assert "No such file or directory" in journal[-1]
    assert f"{SHARED_AT}/web1_system.qcow2" in journal[-1]
    assert len(survivors.running("web1")) == 1
    assert survivors.movers.state(new, "web1") == "running"

    # the leftover is no duplicate: the VM can be worked on, and the leftover is named
    named = f"web1 (by its card on {new})"
    state = {"vm_name": "web1", "vm_autostart": "false"}
    done = survivors.fleet.ansible.playbook("state", state).succeeded()
    told = " ".join(done.stderr.split())
    assert f"leftover on hv3: {named}; ansible-playbook fleet.virt.repair_vms clears it" in told
    changed = survivors.fleet.provision(vm_name="web1", vm_title="Restarted", vm_seed="false")
    assert named in " ".join(changed.succeeded().stderr.split()), str(changed)
    kept = {
        host: lab.ssh(host, "virsh desc --title web1 --config; virsh dominfo web1").stdout
        for host in (new, "hv3")
    }
    assert [("Restarted" in text, "disable" in text) for text in kept.values()] == [
        (True, True),
        (False, False),
    ], kept


def _back_again(survivors: Survivors, new: str) -> None:
    """The VM comes back to a hypervisor whose old definition still is there."""
    lab, movers, folder = survivors.fleet.lab, survivors.movers, survivors.folder
    assert movers.state("hv3", "web1") == "shut off"
    reached = movers.shown(new, "web1")
    lab.kill(new)
    command, among = RESTART.replace("hv3", new), ("-e", f"virt_hosts=hv3,{new}")
    with survivors.replaced(new):
        survivors.refused(command, *among, message=f"-e virt_signs_ignored={new}")
        done = survivors.run(command, *among, "-e", f"virt_signs_ignored={new}").succeeded()
        assert "which virt_signs_ignored says is not it" in str(done)
    assert movers.state("hv3", "web1") == "running"
    movers.guests.wait_agent("hv3", "web1")
    assert movers.shown("hv3", "web1") >= reached
    assert len(survivors.running("web1")) == 1
    card = read_cards.require(str(folder), CardName("web1", ("hv3",)))
    assert (card.counter, card.disks) == (2, (f"{SHARED_AT}/web1_system.r2.qcow2",))
    assert "nothing to do" in str(survivors.run(command, *among).succeeded())

    survivors.start(new)
    before = sorted((one.name, one.stat().st_ino) for one in folder.glob("*.qcow2"))
    ansible = survivors.fleet.ansible
    left = doctor.the_one(doctor.look(ansible, complete=False), "definition_left", "'web1'", new)
    cleared = doctor.follow(ansible, left["remedy"])
    assert f"{SHARED_AT}/web1_system.r2.qcow2" in str(cleared), "its disks are named"
    repaired = survivors.fleet.ansible.playbook("repair_vms", {}, limit=300).succeeded()
    kinds = {one["id"] for one in doctor.look(ansible, complete=False)}
    assert "definition_left" not in kinds
    assert survivors.where("web1") == "hv3"
    assert survivors.where("db1")
    assert f"{SHARED_AT}/db1_system.r1.qcow2" in str(repaired)
    assert sorted((one.name, one.stat().st_ino) for one in folder.glob("*.qcow2")) == before
    assert len(survivors.running("web1")) == 1


def _reinstalled(survivors: Survivors) -> None:
    """The hypervisor has lost all that it had; its VMs are taken from the one that it was."""
    lab, movers, folder = survivors.fleet.lab, survivors.movers, survivors.folder
    reached, other = movers.shown("hv3", "web1"), survivors.where("db1")
    untouched = [one.stat().st_ino for one in sorted(folder.glob("db1*"))]
    lab.kill("hv3")
    survivors.start("hv3")
    lab.ssh("hv3", _REINSTALL)
    survivors.share("hv3")
    assert "web1" not in {name for names in survivors.fleet.domains().values() for name in names}
    assert RENAMED in _GUIDE.read_text(encoding="utf-8")
    lab.ssh("hv1", f"cd {SHARED_AT}; {RENAMED}")
    assert (folder / CardName("web1", ("hv3-old",)).file).exists()

    words = (*survivors.at("hv3-old", str(lab.network[60])), *_SHORT)  # nobody's address
    before = survivors.state()
    plan = survivors.run(f"{REINSTALLED} --check", *words, agent=False).succeeded()
    assert "would be restarted" in str(plan)
    assert survivors.state() == before
    done = survivors.run(REINSTALLED, *words, agent=False).succeeded()
    new = survivors.where("web1")
    movers.guests.wait_agent(new, "web1")
    assert movers.shown(new, "web1") >= reached, "the guest's disk is the same"
    assert len(survivors.running("web1")) == 1
    cards = [one.name for one in folder.glob("web1@*")]
    assert cards == [CardName("web1", (new,)).file], str(done)
    assert survivors.where("db1") == other
    assert [one.stat().st_ino for one in sorted(folder.glob("db1*"))] == untouched
    assert "nothing to do" in str(survivors.run(REINSTALLED, *words, agent=False).succeeded())


@pytest.mark.trials
def test_vm_of_interrupted_move_is_restarted_once_both_hypervisors_are_off(
    survivors: Survivors,
) -> None:
    """The source dies in the middle, and then the destination."""
    lab, movers, folder = survivors.fleet.lab, survivors.movers, survivors.folder
    tls.trust(lab, ("hv2", "hv3"), qemu=True)
    survivors.make("web2")
    movers.count("web2", "hv3")
    reached = movers.shown("hv3", "web2")
    words = ("-e", "vm_name=web2", "-e", "vm_host=hv2", "-e", "virt_bandwidth=1")
    play = survivors.fleet.ansible.begin(
        "ansible-playbook", "fleet.virt.migrate_vm", *words, heard=True
    )
    both = folder / CardName("web2", ("hv3", "hv2")).file
    wait_for(
        lambda: (both.exists() and len(survivors.running("web2")) == 2) or play.poll() is not None,
        60,
        "the move begins",
    )
    lab.kill("hv3")
    lab.kill("hv2")
    text = play.communicate(timeout=300)[0]
    assert play.returncode != 0, text
    assert both.exists(), text
    assert not survivors.running("web2")
    survivors.refused(RESTART, message="does not answer, but may have it")

    survivors.switch.calls.clear()
    survivors.run(BOTH).succeeded()
    assert {"status hv2", "status hv3"} <= {*survivors.switch.calls}
    movers.guests.wait_agent("hv1", "web2")
    assert movers.shown("hv1", "web2") >= reached
    card = read_cards.require(str(folder), CardName("web2", ("hv1",)))
    assert (card.counter, card.running) == (1, True)
    assert len(survivors.running("web2")) == 1
    for host in ("hv2", "hv3"):
        survivors.start(host)
        lab.ssh(host, tls.LISTEN)
    marked = lab.ssh("hv3", "virsh dumpxml --inactive web2").stdout
    assert "<fleet:phase>migrating</fleet:phase>" in marked
    state = {"vm_name": "web2", "vm_autostart": "true"}
    survivors.fleet.ansible.playbook("state", state).succeeded()
    before = sorted((one.name, one.stat().st_ino) for one in folder.glob("web2*.qcow2"))
    repaired = survivors.fleet.ansible.playbook("repair_vms", {}, limit=300).succeeded()
    assert f"{SHARED_AT}/web2_system.r1.qcow2" in str(repaired), "its disks are named"
    assert survivors.where("web2") == "hv1"
    for host in ("hv2", "hv3"):
        assert "web2" not in lab.ssh(host, "virsh list --all --name").stdout, "nor a claim"
    assert sorted((one.name, one.stat().st_ino) for one in folder.glob("web2*.qcow2")) == before
    assert len(survivors.running("web2")) == 1
    again = survivors.fleet.ansible.playbook("repair_vms", {}, limit=300).succeeded()
    assert "changed=1" not in again.stdout, str(again)


class _Sampler(threading.Thread):
    """Counts the QEMUs of a VM from below, until it is left."""

    def __init__(self, survivors: Survivors, name: str) -> None:
        super().__init__()
        self.survivors, self.vm = survivors, name
        self.most = self.samples = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.05):
            self.most = max(self.most, len(self.survivors.running(self.vm)))
            self.samples += 1

    def __enter__(self) -> _Sampler:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self.join()


@pytest.mark.trials
def test_two_controllers_at_once_restart_a_vm_once(survivors: Survivors, tmp_path: Path) -> None:
    """Each sees the dead hypervisor and another one, or both see all. In each trial that dies
    where the VM came to in the one before."""
    lab, movers, folder, at = survivors.fleet.lab, survivors.movers, survivors.folder, "hv3"
    controllers = [Ansible(lab.inventory, tmp_path / f"controller{number}") for number in (1, 2)]
    for controller in controllers:
        controller.home.mkdir()
    survivors.make("web3")
    movers.count("web3", at)
    for trial in range(_TRIALS):
        reached = movers.shown(at, "web3")
        others = [host for host in _HOSTS if host != at]
        apart = trial % 2 == 0
        views = [f"{at},{host}" if apart else "hypervisors" for host in others]
        waits = random.sample([0.0, random.uniform(0, 4)], 2)  # noqa: S311
        lab.kill(at)

        def restart(number: int) -> Run:
            time.sleep(waits[number])  # noqa: B023
            words = ("-e", "vm_name=web3", "-e", f"virt_hosts={views[number]}")  # noqa: B023
            command = RESTART.replace("hv3", at)  # noqa: B023
            return survivors.run(command, *words, ansible=controllers[number])

        with _Sampler(survivors, "web3") as sampler, ThreadPoolExecutor(2) as both:
            runs = list(both.map(restart, range(2)))
        codes = [run.returncode for run in runs]
        both_said = f"{runs[0]}\n{runs[1]}"
        places = [host for host in others if movers.state(host, "web3") == "running"]
        assert len(places) == 1, f"trial {trial}: {places}\n{both_said}"
        new = places[0]
        print(
            f"trial {trial}: {at} to {new}, {views}, apart by {waits[1] - waits[0]:.1f} s: {codes},"
            f" at most {sampler.most} QEMU in {sampler.samples} samples"
        )
        assert sampler.most == len(survivors.running("web3")) == 1, both_said
        assert 0 in codes, both_said
        for run in runs:
            text = str(run)
            if run.returncode:
                told = [match[0] for reason in _LOST if (match := re.search(reason, text))]
                assert told, text
                print(f"  {told[0]}")
        cards = [one.name for one in folder.glob("web3@*")]
        assert cards == [CardName("web3", (new,)).file], both_said
        disks = [one.name for one in folder.glob("web3*.qcow2")]
        assert disks == [f"web3_system.r{trial + 1}.qcow2"], both_said
        movers.guests.wait_agent(new, "web3")
        assert movers.shown(new, "web3") >= reached
        movers.guests.execute(new, "web3", "count start")
        survivors.start(at)
        at = new


@pytest.mark.trials
def test_taker_that_is_killed_after_it_has_the_card_is_finished_by_the_next_run(
    survivors: Survivors, tmp_path: Path
) -> None:
    """Before each effect after it took the card, in turn, while another controller restarts the VM
    on the third hypervisor. Then both run once more."""
    lab, movers, folder, at = survivors.fleet.lab, survivors.movers, survivors.folder, "hv3"
    controllers = [Ansible(lab.inventory, tmp_path / f"taker{number}") for number in (1, 2)]
    for controller in controllers:
        controller.home.mkdir()
    survivors.make("web4")
    movers.count("web4", at)
    number, hits = 2, 0
    for trial in range(_TRIALS):
        reached = movers.shown(at, "web4")
        taker, other = random.sample([host for host in _HOSTS if host != at], 2)
        counter = read_cards.require(str(folder), CardName("web4", (at,))).counter
        lab.kill(at)
        taking = r"^os\.rename \S+/web4@\S+ \S+/web4@"
        dying = killing.Mortal(lab, taker, "virt_restart", taking, number)
        taken = folder / CardName("web4", (at, taker)).file

        def restart(who: int, host: str) -> Run:
            words = ["-e", "vm_name=web4", "-e", f"virt_hosts={at},{host}"]  # noqa: B023
            words += ["-e", f"ansible_python_interpreter={dying.interpreter}"] if who == 0 else []  # noqa: B023
            if who:  # mostly once the first has the card, else at once, which mostly wins then
                end = time.monotonic() + (60 if trial % 3 else 0)  # noqa: B023
                while not taken.exists() and time.monotonic() < end:  # noqa: B023
                    time.sleep(0.02)
            command = RESTART.replace("hv3", at)  # noqa: B023
            return survivors.run(command, *words, ansible=controllers[who])

        with _Sampler(survivors, "web4") as sampler, ThreadPoolExecutor(2) as both:
            runs = list(both.map(restart, range(2), (taker, other)))
            effects = dying.effects()
            killed = dying.killed
            hits += killed
            text = f"{runs[0]}\n{runs[1]}\n{effects}"
            assert not killed or runs[0].returncode, text
            again = survivors.run(RESTART.replace("hv3", at))
        text += str(again)
        assert again.returncode == 0, text
        places = [host for host in (taker, other) if movers.state(host, "web4") == "running"]
        assert len(places) == 1, f"trial {trial}: {places}\n{text}"
        new = places[0]
        codes = [run.returncode for run in runs]
        print(
            f"trial {trial}: {at} to {taker if killed else new}, then {new}, killed {killed} at"
            f" effect {number} of {len(effects)} ({effects[-1:]}), {codes},"
            f" most {sampler.most} QEMU in {sampler.samples} samples, {hits} hits"
        )
        assert sampler.most == len(survivors.running("web4")) == 1, text
        assert [one.name for one in folder.glob("web4@*")] == [CardName("web4", (new,)).file], text
        after = read_cards.require(str(folder), CardName("web4", (new,)))
        assert after.counter > counter, text
        disks = [one.name for one in folder.glob("web4*.qcow2")]
        assert disks == [f"web4_system.r{after.counter}.qcow2"], text
        movers.guests.wait_agent(new, "web4")
        assert movers.shown(new, "web4") >= reached
        movers.guests.execute(new, "web4", "count start")
        # the next effect where this one was there to be hit; the first again after the last
        number = number + 1 if killed else 2 if effects else number
        survivors.start(at)
        at = new
    assert 2 * hits >= _TRIALS, f"too few were hit: {hits} of {_TRIALS}"
