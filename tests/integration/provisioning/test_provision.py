# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""provision_vm: one command from variables to a machine that answers, and never a second one."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Run

from .conftest import Fleet

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_BLANK = {"memory": 64, "seed": False, "start": False}


def _placed(run: Run) -> dict[str, str]:
    """VM to hypervisor, as the placement task returned it."""
    (result,) = run.of("Choose the hypervisors").values()
    return {name: host for host, names in result["shares"].items() for name in names}


def test_one_vm_by_plain_variables_answers_at_the_end(fleet: Fleet) -> None:
    """Every variable is a string, as -e gives it."""
    variables = {
        "vm_name": "centos1",
        "vm_vcpus": "1",
        "vm_memory": "96",
        "vm_image": "tiny.qcow2",
        "vm_disk_profile": "default",
        "vm_nic_profile": "default",
        "vm_overlay": "true",
        "vm_start": "true",
        "vm_autostart": "false",
        "vm_groups": "web,shop",
        "vm_wait": "true",
    }
    run = fleet.provision(**variables).succeeded()
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("centos1 ")][-1:]
    assert re.search(r"198\.1[89]\.\d+\.\d+ +created", line), run.stdout
    (host,) = [name for name, domains in fleet.domains().items() if domains == ["centos1"]]
    fleet = fleet.alone(host)
    again = fleet.provision(**variables).succeeded()
    assert all(not event.result.get("changed") for event in again.events), str(again)
    assert fleet.domains()[host] == ["centos1"]
    _power_is_cut_and_comes_back(fleet, host, variables)


def _power_is_cut_and_comes_back(fleet: Fleet, host: str, variables: dict[str, str]) -> None:
    """Off, the VM is started and waited for as its request says, and told of where it says nothing.

    One more boot of the guest: only it proves that the playbook waits for a VM that it started.
    """

    def last_row(run: Run) -> str:
        return [line for line in run.stdout.splitlines() if line.startswith("centos1 ")][-1]

    fleet.host(host, "virsh -q destroy centos1")
    silent = {key: value for key, value in variables.items() if key != "vm_start"}
    left = fleet.provision(**silent).succeeded()
    assert last_row(left).endswith("unchanged, shut off")
    predicted = fleet.provision(check=True, **variables).succeeded()
    assert last_row(predicted).endswith("would be started")
    assert fleet.host(host, "virsh domstate centos1").strip() == "shut off"
    short = {"vm_name": "centos1", "vm_start": "true"}  # what exists need not be described again
    started = fleet.provision(**short).succeeded()
    assert re.search(r"198\.1[89]\.\d+\.\d+ +started$", last_row(started)), started.stdout


def test_b08_a_batch_is_placed_where_it_fits_and_check_mode_says_where(fleet: Fleet) -> None:
    vms: list[dict[str, Any]] = [
        {"name": "one", **_BLANK, "groups": ["web"], "anti_affinity": ["web"]},
        {"name": "two", **_BLANK, "groups": ["web"], "anti_affinity": ["web"]},
        {"name": "beside", **_BLANK, "affinity": ["third"]},
        {"name": "three", **_BLANK, "host": "hv1", "groups": ["third"]},
    ]
    predicted = fleet.provision(check=True, args=("-v",), virt_vms=vms).succeeded()
    assert fleet.domains() == {"hv1": [], "hv2": []}
    assert "chosen" in predicted.stdout
    assert "the request names hv1" in predicted.stdout
    real = fleet.provision(virt_vms=vms).succeeded()
    assert _placed(predicted) == _placed(real)
    assert _placed(real)["three"] == _placed(real)["beside"] == "hv1"
    assert _placed(real)["one"] != _placed(real)["two"]
    found = fleet.domains()
    assert sorted(found["hv1"] + found["hv2"]) == ["beside", "one", "three", "two"]
    again = fleet.provision(virt_vms=vms).succeeded()
    assert all(not event.result.get("changed") for event in again.events), str(again)


def test_b08_what_fits_nowhere_is_refused_with_each_hosts_reason(fleet: Fleet) -> None:
    vms = [{"name": "small", **_BLANK}, {"name": "huge", **_BLANK, "memory": "40TiB"}]
    run = fleet.provision(virt_vms=vms)
    assert run.returncode != 0
    assert "huge fits nowhere" in run.stdout
    for host in ("hv1", "hv2"):
        assert re.search(rf"{host}: needs \d+ MiB", run.stdout), run.stdout
    assert fleet.domains() == {"hv1": [], "hv2": []}


def test_a_silent_hypervisor_may_have_it_and_a_lost_one_does_not_count(fleet: Fleet) -> None:
    vms = [{"name": "careful", **_BLANK}]
    fleet.provision(virt_vms=vms).succeeded()
    (host,) = [name for name, domains in fleet.domains().items() if domains]
    other = {"hv1": "hv2", "hv2": "hv1"}[host]
    with fleet.cut(host):
        refused = fleet.provision(virt_vms=vms)
        assert refused.returncode != 0
        assert host in refused.stdout
        assert "nothing is created" in refused.stdout
        assert fleet.host(other, "virsh list --all --name").split() == []
    again = fleet.provision(virt_vms=vms).succeeded()
    assert all(not event.result.get("changed") for event in again.events), str(again)
    with fleet.cut(other):
        fresh = [{"name": "elsewhere", **_BLANK}]
        lost = fleet.provision(virt_vms=fresh, virt_hypervisors_lost=[other]).succeeded()
        assert _placed(lost) == {"elsewhere": host}


def test_no_hypervisor_reachable(fleet: Fleet) -> None:
    with fleet.cut("hv1", "hv2"):
        run = fleet.provision(virt_vms=[{"name": "nobody", **_BLANK}])
        assert run.returncode != 0
        assert "no hypervisor answered" in run.stdout


def test_a_limit_that_leaves_hypervisors_out_proves_nothing(fleet: Fleet) -> None:
    run = fleet.provision(virt_vms=[{"name": "limited", **_BLANK}], args=("--limit", "hv1"))
    assert run.returncode != 0
    assert "hv2" in run.stdout
    assert "--limit" in run.stdout
    assert fleet.domains() == {"hv1": [], "hv2": []}


@pytest.mark.usefixtures("trusting")
def test_the_same_name_from_two_controllers_is_one_vm(fleet: Fleet) -> None:
    for trial in range(_TRIALS):
        name = f"race{trial}"
        # told apart by where they want it, so that both cannot meet on one hypervisor's lock
        requests = [{"name": name, **_BLANK, "host": host} for host in ("hv1", "hv2")]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = list(pool.map(lambda vm: fleet.provision(virt_vms=[vm]), requests))
        found = fleet.domains()
        places = [host for host, domains in found.items() if name in domains]
        assert len(places) == 1, "\n".join(str(run) for run in runs)
        phase = fleet.host(places[0], f"virsh dumpxml --inactive {name}")
        assert "creating" not in phase


@pytest.mark.usefixtures("trusting")
def test_every_round_of_a_run_is_shown_at_its_end(fleet: Fleet) -> None:
    """Whoever comes second finds the VM that both want made, and tells of its own as well."""
    requests = [[{"name": own, **_BLANK}, {"name": "both", **_BLANK}] for own in ("left", "right")]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda vms: fleet.provision(virt_vms=vms), requests))
    for own, run in zip(("left", "right"), runs):
        run.succeeded()
        shown = re.findall(r"^(\w+) +hv\d +- +(created|unchanged)$", run.stdout, re.MULTILINE)
        assert dict(shown)[own] == "created", str(run)
        assert sorted(name for name, _ in shown) == sorted([own, "both"]), str(run)
    made = [name for domains in fleet.domains().values() for name in domains]
    assert sorted(made) == ["both", "left", "right"]


def test_twice_in_one_site_playbook(fleet: Fleet, tmp_path: Path) -> None:
    site = tmp_path / "site.yml"
    site.write_text(
        "".join(
            "- name: One\n  ansible.builtin.import_playbook: fleet.virt.provision_vm\n"
            f"  vars: {json.dumps({'virt_vms': [{'name': name, **_BLANK}]})}\n"
            for name in ("first", "second")
        )
    )
    fleet.ansible.playbook(str(site), fleet.variables).succeeded()
    made = [name for domains in fleet.domains().values() for name in domains]
    assert sorted(made) == ["first", "second"]


@pytest.mark.usefixtures("trusting")
def test_four_controllers_and_room_for_three(fleet: Fleet) -> None:
    total = fleet.ansible.module("hv1", "virt_host_info")["hv1"]["host"]["memory_mib"]["total"]
    # one hypervisor is full, the other has room for three
    room = 3 * 256 + 128
    variables = {
        "virt_vms": [],
        "virt_memory_reserve": f"{total - room}",
        "virt_hosts": "hypervisors",
    }
    requests = [
        [{"name": f"four{number}", **_BLANK, "memory": 256, "host": "hv1"}] for number in range(4)
    ]
    for _ in range(max(1, _TRIALS // 2)):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            runs = list(
                pool.map(lambda vms: fleet.provision(**{**variables, "virt_vms": vms}), requests)
            )
        made = [name for name in fleet.domains()["hv1"] if name.startswith("four")]
        assert len(made) == 3, "\n".join(str(run) for run in runs)
        failed = [run for run in runs if run.returncode]
        assert len(failed) == 1
        assert "MiB" in failed[0].stdout
        assert fleet.domains()["hv2"] == []
        fleet.sweep()


def test_the_name_of_a_hypervisor_is_refused(fleet: Fleet) -> None:
    """Not only of the first, in whose name it is judged."""
    run = fleet.provision(vm_name="hv2", vm_memory="64", vm_seed="false", vm_start="false")
    assert run.returncode != 0
    assert "name of a hypervisor" in run.stdout
