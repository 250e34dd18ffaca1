# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The card beside the disk of a VM on shared storage, through everything that is done to it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import read_cards
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import (
    Card,
    CardName,
    parse_name,
)
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible

from .conftest import SHARED_AT, Movers

_DISKS = [{"name": "system", "pool": "shared", "size": 256}]
_FORGET = "rm -f /var/lib/libvirt/fleet-notes/pool.*; virsh -q pool-refresh fleet-notes"


@pytest.fixture
def declared(movers: Movers, folder: Path) -> Iterator[Path]:
    """The folder, as a pool that is declared shared."""
    pools = {"pools": [{"name": "shared", "path": SHARED_AT, "shared": True}]}
    made = movers.ansible.module("hypervisors", "virt_pool", pools)
    assert not [answer for answer in made.values() if answer["failed"]], made
    yield folder
    movers.sweep()
    for host in ("hv1", "hv2"):
        movers.lab.ssh(host, _FORGET, check=False)


def _cards(folder: Path) -> list[str]:
    return sorted(at.file for path in folder.iterdir() if (at := parse_name(path.name)))


def _card(folder: Path, name: str, host: str) -> Card:
    assert _cards(folder) == [f"{name}@{host}.fleet.xml"]
    assert (folder / f"{name}@{host}.fleet.xml").stat().st_mode & 0o777 == 0o600
    assert not list(folder.glob(".*")), "nothing unfinished is left"
    return read_cards.require(str(folder), CardName(name, (host,)))


class _Watch:
    """The cards that are there meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.seen: set[tuple[str, ...]] = set()
        self._folder, self._end = folder, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._end.wait(0.01):
            self.seen.add(tuple(_cards(self._folder)))

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        self._thread.join()


def _renamed(movers: Movers, place: Path, old: str, new: str) -> Ansible:
    """A controller whose inventory calls a hypervisor of the laboratory otherwise."""
    folder = place / "inventory"
    folder.mkdir()
    for file in Path(movers.lab.inventory).iterdir():
        text = re.sub(
            rf"^(\s+){re.escape(old)}:", rf"\1{new}:", file.read_text(), flags=re.MULTILINE
        )
        (folder / file.name).write_text(text)
    return Ansible(folder, place)


def test_card_follows_its_vm_until_it_is_purged(
    movers: Movers, declared: Path, tmp_path: Path
) -> None:
    wanted = {"disks": _DISKS, "overlay": False}
    movers.make("carded", **wanted)
    card = _card(declared, "carded", "hv1")
    assert (card.running, card.disks) == (True, (f"{SHARED_AT}/carded_system.qcow2",))
    stopped = {"names": ["carded"], "state": "shutoff", "force": True, "shutdown_timeout": 1}
    done = movers.ansible.module("hv1", "virt_state", stopped)["hv1"]
    assert not done["failed"], done
    assert not _card(declared, "carded", "hv1").running

    snapshot = {"vm_name": "carded", "virt_snapshot": "before"}
    movers.ansible.playbook("snapshot", snapshot).succeeded()
    assert len(_card(declared, "carded", "hv1").snapshots) == 1
    (declared / "carded@hv1.fleet.xml").unlink()
    checked = movers.ansible.playbook("repair_vms", check=True).succeeded()
    assert "carded: its card on shared storage would be written" in checked.stdout
    assert not _cards(declared)
    repaired = movers.ansible.playbook("repair_vms").succeeded()
    assert "carded: its card on shared storage was written" in repaired.stdout
    assert len(_card(declared, "carded", "hv1").snapshots) == 1

    with _Watch(declared) as watch:
        vm = movers.module("carded")
    assert (vm["failed"], vm["flow"]) == (False, "offline"), vm
    both, there = ("carded@hv1+hv2.fleet.xml",), ("carded@hv2.fleet.xml",)
    assert watch.seen <= {("carded@hv1.fleet.xml",), both, there}, "never none, never two"
    assert both in watch.seen
    card = _card(declared, "carded", "hv2")
    assert (card.running, len(card.snapshots)) == (False, 1)

    # the same hypervisor under another name: its only definition is no leftover
    renamed = _renamed(movers, tmp_path, "hv2", "hv2.example.org")
    changed = renamed.playbook("state", {"vm_name": "carded", "vm_autostart": "true"}).succeeded()
    assert "leftover" not in str(changed), str(changed)
    assert _card(declared, "carded", "hv2.example.org").autostart
    checked = movers.ansible.playbook("repair_vms", check=True).succeeded()
    assert "carded: its card on shared storage would be written" in checked.stdout
    movers.ansible.playbook("state", {"vm_name": "carded", "vm_autostart": "false"}).succeeded()
    assert not _card(declared, "carded", "hv2").autostart

    refused = movers.fleet.init("hv1", name="carded", memory=96, seed=False, **wanted)
    assert refused["failed"]
    assert "hv2 has a VM 'carded' with its disks there" in refused["msg"]
    changed = movers.fleet.init(
        "hv2", name="carded", memory=128, image="tiny.qcow2", seed=False, start=False, **wanted
    )
    assert (changed["failed"], changed["changed"]) == (False, True), changed
    assert _card(declared, "carded", "hv2").root.findtext("memory") == str(128 * 1024)

    movers.ansible.playbook("purge_vm", {"vm_name": "carded"}).succeeded()
    assert not _cards(declared)
    assert not list(declared.glob("carded*"))
