# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook plan: what it says of a fleet is what is there, and it changes nothing."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from ansible_collections.fleet.virt.tests.integration.support.ansible import Run

from .conftest import Fleet

_PLAN = "ansible-playbook fleet.virt.plan -e @vms.yml"
_FILE = "-e virt_output=json -e virt_output_file=plan.json"
# As the guide shows them, each with what it must print or write
COMMANDS = {
    _PLAN: "1 unchanged",
    f"{_PLAN} -e virt_strict=true {_FILE}": '"empty": true',
}
# libvirt itself asks QEMU what it can do in folders qmp-*, and writes leases whenever it likes
_NOT_OURS = "-name 'qmp-*' -o -name dnsmasq"
_FILES = rf"find /var/lib/libvirt \( {_NOT_OURS} \) -prune -o -type f -printf '%p %s %T@\n'"
_THERE = f"virsh list --all; {_FILES} | sort"
_VM = {"memory": 64, "image": "tiny.qcow2", "start": False}


def _plan(fleet: Fleet, vms: list[dict[str, Any]], *args: str, **variables: Any) -> Run:
    given = {**fleet.variables, "virt_vms": vms, **variables}
    return fleet.ansible.playbook("plan", given, args)


def _read(fleet: Fleet, vms: list[dict[str, Any]], **variables: Any) -> dict[str, list[Any]]:
    """Action, hypervisor and details of each VM, by the JSON for programs."""
    run = _plan(fleet, vms, virt_output="json", **variables).succeeded()
    result = run.of("Show the plan")["hv1"]
    assert json.loads(result["output"])["vms"] == result["vms"]
    return {vm["name"]: [vm["action"], vm["hypervisor"], vm["details"]] for vm in result["vms"]}


def test_a_plan_tells_what_is_there(fleet: Fleet) -> None:
    vms = [{**_VM, "name": name, "host": "hv1"} for name in ("same", "drifts", "differs", "gone")]
    fleet.provision(virt_vms=vms).succeeded()
    assert fleet.guests is not None
    fleet.guests.define("hv2", "foreign")
    strict = {"virt_strict": True}
    assert _plan(fleet, vms, **strict).succeeded().of("Show the plan")["hv1"]["empty"]

    fleet.host("hv1", "virsh -q setvcpus drifts 2 --maximum --config")
    fleet.host("hv1", "virsh -q setvcpus drifts 2 --config")
    asked = [dict(vm, vcpus=1) for vm in vms[:3]]
    asked[2]["memory"] = 96
    asked.append({**_VM, "name": "new", "host": "hv2"})
    before = [fleet.host(host, _THERE) for host in ("hv1", "hv2")]
    assert _read(fleet, asked) == {
        "new": ["create", "hv2", []],
        "differs": ["change", "hv1", ["memory 64 MiB -> 96 MiB"]],
        "drifts": ["drift", "hv1", ["vcpus 2 -> 1"]],
        "gone": ["surplus", "hv1", []],
        "foreign": ["unmanaged", "hv2", []],
        "same": ["unchanged", "hv1", []],
    }
    run = _plan(fleet, asked, **strict)
    assert run.returncode != 0
    counts = "1 to create, 1 differs, 1 drifted, 1 surplus, 1 unmanaged, 1 unchanged"
    assert f"the fleet does not match the request: {counts}" in run.stdout
    after = [fleet.host(host, _THERE) for host in ("hv1", "hv2")]
    assert after == before


def test_the_commands_of_the_guide(fleet: Fleet, tmp_path: Path) -> None:
    vms = [{**_VM, "name": "listed", "host": "hv1"}]
    fleet.provision(virt_vms=vms).succeeded()
    (tmp_path / "vms.yml").write_text(json.dumps({"virt_vms": vms, **fleet.variables}))
    for command, expected in COMMANDS.items():
        program, *words = shlex.split(command.replace("vms.yml", str(tmp_path / "vms.yml")))
        words = [word.replace("plan.json", str(tmp_path / "plan.json")) for word in words]
        shown = fleet.ansible.run(program, words).succeeded().stdout
        if "plan.json" in command:
            shown = (tmp_path / "plan.json").read_text(encoding="utf-8")
        assert expected in shown


def test_what_a_silent_hypervisor_may_have_is_not_guessed_at(fleet: Fleet) -> None:
    vms = [{**_VM, "name": "known", "host": "hv1"}]
    fleet.provision(virt_vms=vms).succeeded()
    run = _plan(fleet, vms, "--limit", "hv1").succeeded()
    assert "not all hypervisors answered: hv2: excluded by --limit" in run.stdout
    run = _plan(fleet, vms, "--limit", "hv1", virt_strict=True)
    assert run.returncode != 0
    assert "not all hypervisors answered: hv2: excluded by --limit" in run.stdout
    run = _plan(fleet, [*vms, {**_VM, "name": "new"}], "--limit", "hv1")
    assert run.returncode != 0
    assert "new: a hypervisor that does not respond may be running a VM of that name" in run.stdout
    assert "hv2: excluded by --limit (1 of 2 hypervisors answered" in run.stdout
    run = _plan(fleet, [{**_VM, "name": "new", "memory": "3TiB"}])
    assert run.returncode != 0
    assert "new: fits nowhere" in run.stdout
    assert _plan(fleet, []).succeeded().of("Show the plan")["hv1"]["vms"][0]["action"] == "surplus"
