# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks that read: all hypervisors in one task, or each by the module, or some of each."""

from __future__ import annotations

import json
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import _tools

_DOCUMENT = """\
<node><domain type='test'>
  <name>{name}</name><uuid>b4b1c5a2-7c0e-4d3b-9f2e-00000000000{number}</uuid>
  <memory unit='MiB'>512</memory><vcpu>1</vcpu><os><type>hvm</type></os>
</domain></node>
"""
PLAYBOOKS = ("host_info", "list", "query")


@dataclass(frozen=True)
class Shown:
    """What ansible-playbook said, by its own lines and by what the playbook printed."""

    status: int
    text: str

    @property
    def hypervisors(self) -> list[dict[str, t.Any]]:
        """What was printed as JSON."""
        start = self.text.index("\n{\n")
        document, _end = json.JSONDecoder().raw_decode(self.text[start + 1 :])
        found: list[dict[str, t.Any]] = document["hypervisors"]
        return found

    @property
    def asked(self) -> list[str]:
        """The hosts on which the task of the module ended."""
        task = self.text.split("TASK [Read ")[1].split("TASK [")[0]
        return [line.split("[")[1].split("]")[0] for line in task.splitlines() if "[" in line[1:]]


@dataclass(frozen=True)
class Fleet:
    """Three hypervisors, each of which is a document with one domain."""

    folder: Path
    programs: _tools.Preloaded

    def uri(self, name: str) -> str:
        return f"test://{self.folder}/{name}.xml"

    def run(self, playbook: str, hosts: dict[str, dict[str, t.Any]], *words: str) -> Shown:
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = {"hypervisors": {"hosts": hosts, "vars": {**local, "virt_become": False}}}
        hosts_file = self.folder / "hosts.yml"
        hosts_file.write_text(json.dumps(inventory), encoding="utf-8")
        words = ("-i", str(hosts_file), f"fleet.virt.{playbook}", *words)
        return Shown(*self.programs.ended("ansible-playbook", *words))


@pytest.fixture
def fleet(tmp_path: Path, programs: _tools.Preloaded) -> Fleet:
    for number in (1, 2, 3):
        document = _DOCUMENT.format(name=f"vm{number}", number=number)
        (tmp_path / f"hv{number}.xml").write_text(document, encoding="utf-8")
    return Fleet(tmp_path, programs)


_JSON = ("-e", "virt_output=json")


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_both_ways_give_the_same(fleet: Fleet, playbook: str) -> None:
    """As data; only the first says how each was reached."""
    names = ("hv1", "hv2", "hv3")
    direct = {name: {"virt_inventory_uri": fleet.uri(name)} for name in names}
    ours = fleet.run(playbook, direct, *_JSON)
    by_module = {name: {**direct[name], "virt_uri": fleet.uri(name)} for name in names}
    theirs = fleet.run(playbook, by_module, *_JSON)
    assert (ours.status, theirs.status) == (0, 0), ours.text + theirs.text
    assert ours.asked == ["hv1"]
    assert sorted(theirs.asked) == [*names]
    assert ours.hypervisors == theirs.hypervisors


def test_some_of_each_and_a_silent_one(fleet: Fleet) -> None:
    hosts = {
        "hv1": {"virt_uri": fleet.uri("hv1")},
        "hv2": {"virt_inventory_uri": fleet.uri("hv2")},
        "hv3": {"virt_inventory_uri": "qemu+tcp://127.0.0.1:1/system"},
    }
    shown = fleet.run("list", hosts)
    assert shown.status == 0, shown.text
    rows = [line.split() for line in shown.text.splitlines()]
    assert rows.index(["hv1", "vm1", "running", "unknown"]) + 1 == rows.index(
        ["hv2", "vm2", "running", "unknown"]
    )
    assert "hv3: no answer: cannot connect to libvirt at qemu+tcp://127.0.0.1:1/" in shown.text
    assert "2 of 3 hypervisors answered; VMs on hv3 are not shown" in shown.text


def test_nobody_answers_and_limit(fleet: Fleet) -> None:
    hosts = {
        "hv1": {"virt_inventory_uri": fleet.uri("hv1")},
        "hv2": {"virt_inventory_uri": "qemu+tcp://127.0.0.1:1/system"},
        "hv3": {"virt_inventory_uri": fleet.uri("hv3")},
    }
    shown = fleet.run("list", hosts, "--limit", "hv2")
    assert shown.status != 0
    assert "no hypervisor answered: hv2: cannot connect" in " ".join(shown.text.split())
    assert "vm1" not in shown.text
    shown = fleet.run("list", hosts, "-e", "virt_hypervisors_lost=hv1,hv2", "--check")
    assert shown.status == 0, shown.text
    assert "hv1: no answer: hv1 is declared lost" in shown.text
    assert "1 of 3 hypervisors answered; VMs on hv1, hv2 are not shown" in shown.text


def test_selectors_and_tags_read_or_refused(fleet: Fleet) -> None:
    """A domain is selected by either variable; what would be ignored is an error."""
    hosts = {"hv1": {"virt_uri": fleet.uri("hv1")}, "hv2": {"virt_inventory_uri": fleet.uri("hv2")}}
    for selector in ("vm_name=vm2", "virt_names=vm2"):
        shown = fleet.run("list", hosts, "-e", selector)
        assert shown.status == 0, shown.text
        assert "vm2" in shown.text
        assert "vm1" not in shown.text
    shown = fleet.run("state", hosts, "-e", "virt_group=shop", "-e", "virt_host=hv1")
    assert shown.status != 0
    assert "did you mean vm_host?" in " ".join(shown.text.split())
    shown = fleet.run("list", hosts, "--tags", "now")
    assert shown.status != 0
    assert "no task of list has it" in " ".join(shown.text.split())
