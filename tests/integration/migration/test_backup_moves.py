# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move and the other verbs that libvirt would refuse win over a backup, which is tried again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Run
from ansible_collections.fleet.virt.tests.integration.support.backup_server import (
    SECRET,
    SLOW,
    BackupServer,
)

from .conftest import Movers

NAME = "backed1"
_DISKS = [
    {"name": "system", "size": 64},
    {"name": "data", "size": 32, "format": "raw"},
]


@pytest.fixture
def other_pool(movers: Movers) -> Iterator[str]:
    define = "virsh -q pool-define-as other dir --target /srv/other; virsh -q pool-start other"
    movers.fleet.host("hv1", f"mkdir -p /srv/other; {define}")
    yield "other"
    movers.sweep()
    movers.fleet.host("hv1", "virsh -q pool-destroy other; virsh -q pool-undefine other")
    movers.fleet.host("hv1", "rm -rf /srv/other")


@pytest.fixture
def server(movers: Movers) -> Iterator[BackupServer]:
    found = BackupServer(movers.guests, movers.ansible, ("hv1", "hv2"))
    found.begin()
    yield found
    found.end()


def _said(done: Run) -> str:
    """Why backups of that run were abandoned."""
    results = [event.result for event in done.events if event.task == "Back up the VMs"]
    return json.dumps([vm.get("msg") for result in results for vm in result.get("vms", [])])


def test_vm_that_is_moved_during_a_backup_is_saved_where_it_is_then(
    movers: Movers, server: BackupServer
) -> None:
    movers.make(NAME, disks=_DISKS)
    movers.count(NAME)
    server.backup(NAME)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.backup, NAME, virt_backup_host_key=SLOW)
        server.wait_begun("hv1", NAME)
        moved = movers.playbook(vm_name=NAME, vm_host="hv2").succeeded()
        assert re.search(rf"{NAME} +.*moved", moved.stdout), moved.stdout
        done = running.result()
    assert "such as a move or a snapshot, which wins" in _said(done), _said(done)
    saved = re.search(rf"{NAME} +hv2 +saved +\S+ +\S+ +\S+ +(\S+)", done.stdout)
    assert saved, done.stdout
    assert float(saved[1]) <= 5, done.stdout
    listed = movers.ansible.playbook("backups", server.variables).succeeded().stdout
    assert [line.split()[-1] for line in listed.splitlines() if line.startswith(NAME)] == [
        "hv1",
        "hv2",
    ]
    assert "2 backups of 1 VMs" in listed, listed
    server.require_nothing_left()
    assert movers.last_number("hv2", NAME)[0] > 0


def test_verbs_that_libvirt_refuses_during_a_backup_win_over_it(
    movers: Movers, server: BackupServer, other_pool: str
) -> None:
    """Growing a disk, moving it to another pool, a template, and saving the memory."""
    movers.make(NAME, disks=_DISKS)
    options = {"name": NAME, "to": server.place, "passphrase": SECRET, "ssh_key": SLOW}
    with ThreadPoolExecutor(1) as pool:
        for verb in (_grow, _move_disk, _template, _save):
            if verb is _save:  # a guest that is off cannot be thawed, which is tried for a while
                server.require_nothing_left()
            running = pool.submit(movers.ansible.module, "hv1", "virt_backup", options)
            server.wait_begun("hv1", NAME)
            verb(movers, other_pool)
            (ended,) = running.result()["hv1"]["vms"]
            assert ended["gave_way"], (verb, ended)
            assert "which wins; try again" in ended["msg"], (verb, ended)


def _grow(movers: Movers, _pool: str) -> None:
    larger = [_DISKS[0], {**_DISKS[1], "size": 48}]
    movers.make(NAME, disks=larger)


def _move_disk(movers: Movers, pool: str) -> None:
    options = {"name": NAME, "disk": "data", "pool": pool}
    done = movers.ansible.module("hv1", "virt_move_disk", options)["hv1"]
    assert not done.get("failed"), done


def _template(movers: Movers, _pool: str) -> None:
    options = {"name": NAME, "image": "backed1-golden", "identity": "keep"}
    done = movers.ansible.module("hv1", "virt_template", options)["hv1"]
    assert not done.get("failed"), done


def _save(movers: Movers, _pool: str) -> None:
    options = {"name": NAME, "state": "saved"}
    done = movers.ansible.module("hv1", "virt_state", options)["hv1"]
    assert not done.get("failed"), done
