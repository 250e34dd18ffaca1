# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CPU for the fleet: the line of preflight is what VMs are created with, by both libvirts.

The two versions of QEMU here emulate unlike CPUs, so host-model differs too.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import yaml
from ansible_collections.fleet.virt.tests.integration import harness

from .conftest import Fleet

_VM = {"memory": 64, "disk_profile": "none", "nic_profile": "none"}
_REFUSED = "hv1 does not support the CPU Snowridge of virt_cpu"
_UNLIKE = "its CPU is that of hv1 (host-model), so it could not move to hv2 (lacks "


def _cpu(fleet: Fleet, host: str, name: str) -> tuple[str | None, set[tuple[str, str]]]:
    """The model in the definition, and its features with their policies."""
    text = fleet.host(host, f"virsh dumpxml --inactive {name}")
    cpu = ElementTree.fromstring(text).find("cpu")
    assert cpu is not None
    features = cpu.findall("feature")
    return cpu.findtext("model"), {(one.attrib["name"], one.attrib["policy"]) for one in features}


def test_line_of_preflight_is_the_cpu_of_new_vms_on_every_hypervisor(
    fleet: Fleet, tmp_path: Path
) -> None:
    shown = fleet.ansible.playbook("preflight").stdout  # it may find something else
    (line,) = (line for line in shown.splitlines() if line.startswith("virt_cpu: "))
    variables = tmp_path / "hypervisors.yml"
    variables.write_text(line, encoding="utf-8")
    fleet.init("hv1", name="before", **_VM)
    assert "before" in fleet.domains()["hv1"]
    before = fleet.host("hv1", "virsh dumpxml --inactive before")
    vms = [{**_VM, "name": f"on-{host}", "host": host} for host in ("hv1", "hv2")]
    vms.append({**_VM, "name": "before"})
    arguments = ("-e", f"@{variables}")
    for check in (True, False):
        run = fleet.provision(check=check, args=arguments, virt_vms=vms).succeeded()
        word = "would be created" if check else "created"
        assert run.stdout.count(f"{word}, CPU EPYC (") == 2, run.stdout
    cpu = yaml.safe_load(line)["virt_cpu"]
    wanted = {(name, "require") for name in cpu.get("require", ())}
    wanted |= {(name, "disable") for name in cpu.get("disable", ())}
    for host in ("hv1", "hv2"):
        assert _cpu(fleet, host, f"on-{host}") == (cpu["model"], wanted)
        assert fleet.host(host, f"virsh domstate on-{host}").strip() == "running"
    assert fleet.host("hv1", "virsh dumpxml --inactive before") == before
    # neither another value nor none changes what exists
    for other in ("qemu64", None):
        run = fleet.provision(virt_vms=vms, **({"virt_cpu": other} if other else {})).succeeded()
        assert run.stdout.count("unchanged") == 3, run.stdout
    columns = fleet.ansible.playbook("list", {"virt_columns": "cpu_model"}).succeeded().stdout
    assert columns.count(cpu["model"]) == 2


def test_cpu_of_the_fleet_that_a_hypervisor_lacks_is_refused_and_planned_so(fleet: Fleet) -> None:
    options = {"name": "lacks", "fleet_cpu": "Snowridge", **_VM}
    harness.refuse(fleet.ansible, fleet.lab, "hv1", "fleet.virt.virt_init", options, match=_REFUSED)
    vms = [{**_VM, "name": "lacks", "host": "hv1"}]
    given = {**fleet.variables, "virt_vms": vms, "virt_cpu": "Snowridge"}
    assert f"refused: {_REFUSED}" in fleet.ansible.playbook("plan", given).stdout


def test_cpu_of_its_hypervisor_that_others_lack_is_reported_before_creation(fleet: Fleet) -> None:
    vms = [{**_VM, "name": "host-cpu", "host": "hv1", "cpu": "host-model", "start": False}]
    given = {**fleet.variables, "virt_vms": vms}
    assert _UNLIKE in fleet.ansible.playbook("plan", given).succeeded().stdout
    for check in (True, False):
        run = fleet.provision(check=check, virt_vms=vms).succeeded()
        assert _UNLIKE in " ".join(f"{run.stdout} {run.stderr}".split()), str(run)
