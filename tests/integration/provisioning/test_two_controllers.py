# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers create a VM of one name at once; each sees three of five hypervisors."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.tests.integration.support import tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.notes import FORGET
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet

_HOSTS = tuple(f"hv{number}" for number in range(1, 6))
_SEEN = (_HOSTS[:3], _HOSTS[2:])  # hv3 is of both
_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_VM = {"name": "web9", "memory": 64, "seed": False, "start": False}
# Why a controller made none; the others are of what came before it read
_REASONS = (
    r"claimed meanwhile by another run",
    r"'web9' exists on hv\d",
    r"the fleet also has (?:hv\d|machine)",
    r"web9 .*(?:is on|was claimed on) hv\d",
)


@pytest.fixture(scope="module")
def five() -> Iterator[Laboratory]:
    """Five hypervisors that trust one another."""
    laboratory = Laboratory(f"c{os.getpid()}", os.getpid())
    laboratory.preloaded = True
    laboratory.up(5)
    try:
        tls.trust(laboratory, _HOSTS)
        yield laboratory
    finally:
        laboratory.down()


def _controllers(lab: Laboratory, folder: Path) -> list[Ansible]:
    source = Path(str(lab.inventory), "10-hypervisors.yml").read_text(encoding="utf-8")
    hosts = yaml.safe_load(source)["hypervisors"]["hosts"]
    made = []
    for number, names in enumerate(_SEEN):
        home = folder / f"controller{number}"
        home.mkdir()
        inventory = home / "hosts.yml"
        own = {name: hosts[name] for name in names}
        inventory.write_text(json.dumps({"hypervisors": {"hosts": own}}), encoding="utf-8")
        made.append(Ansible(inventory, home))
    return made


def _create(ansible: Ansible, host: str, wait: float) -> Run:
    time.sleep(wait)
    return ansible.playbook("fleet.virt.provision_vm", {"virt_vms": [{**_VM, "host": host}]})


def test_two_controllers_at_once_create_at_most_a_single_vm(
    five: Laboratory, tmp_path: Path
) -> None:
    """Whoever has none is told why, and goes on once it is told what it does not know."""
    every = Fleet(five, Ansible(five.inventory, tmp_path), tmp_path)
    controllers = _controllers(five, tmp_path)
    for trial in range(_TRIALS):
        every.sweep()
        for host in _HOSTS:
            five.ssh(host, FORGET)
        waits = (0.0, random.uniform(0, 3))  # noqa: S311
        places = [random.choice(names) for names in (_SEEN[0][:2], _SEEN[1][1:])]  # noqa: S311
        with ThreadPoolExecutor(2) as both:
            runs = list(both.map(_create, controllers, places, random.sample(waits, 2)))
        have = [
            host for host in _HOSTS if "web9" in five.ssh(host, "virsh list --all --name").stdout
        ]
        made = [run.returncode == 0 for run in runs]
        said = f"trial {trial}, apart by {waits[1]:.1f} s: {made}, on {have}"
        print(said)
        assert len(have) <= 1, f"{said}\n{runs[0]}\n{runs[1]}"
        for run, is_made in zip(runs, made, strict=True):
            text = run.stdout + run.stderr
            if is_made:
                assert have, f"{said}\n{run}"
            else:
                told = [match[0] for reason in _REASONS if (match := re.search(reason, text))]
                assert told, f"{said}\n{run}"
                print(f"  {told[0]}")
