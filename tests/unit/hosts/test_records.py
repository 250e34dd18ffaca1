# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CSV: what it holds, and what it never does to a spreadsheet or a terminal."""

from __future__ import annotations

import csv
import io
import sys

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import columns
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.tables import csv_text
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import domain_entry, records
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.domain_info import parse
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import fleet_plan

SILENT = {"name": "hv9", "answered": False, "error": "no route", "host": None, "images": None}
DOMAIN = """<domain><name>x</name><title>=cmd|'/c calc'!A1</title><vcpu>2</vcpu>
  <memory unit='MiB'>64</memory><devices>
  <disk type='file' device='disk'><source file='/p/a'/><target dev='vda'/></disk>
  <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/></interface>
  <graphics type='vnc' port='5900'/></devices></domain>"""


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("view", ["list", "query"])
def test_domains(view: str) -> None:
    entry = domain_entry.from_info(parse(DOMAIN, "domain"), "web1", "u")
    hypervisor = {"name": "hv1", "answered": True, "error": None, "domains": [entry]}
    silent = {**SILENT, "domains": []}
    first, second = read(records.text(view, [hypervisor, silent], predicted=False))
    assert (first["hypervisor"], first["name"], first["vcpus"]) == ("hv1", "web1", "2")
    assert (first["memory_mib"], first["managed"], first["error"]) == ("64", "false", "")
    assert first["title"] == "'=cmd|'/c calc'!A1"
    assert (second["hypervisor"], second["name"]) == ("hv9", "")
    assert second["error"] == "no answer: no route"
    if view == "query":
        assert (first["disks"], first["graphics"]) == ("vda=/p/a", "vnc=5900")
        assert (first["nics"], first["addresses"]) == ("52:54:00:00:00:01=br0", "")


@pytest.mark.skipif(sys.version_info < (3, 10), reason="3.9 cannot evaluate X | None")
@pytest.mark.parametrize("view", ["list", "query"])
def test_requested_columns_are_added_once(view: str) -> None:
    entry = domain_entry.from_info(parse(DOMAIN, "domain"), "web1", "u")
    entry.update(state="running", snapshots=[{}, {}])
    hypervisor = {"name": "hv1", "answered": True, "error": None, "domains": [entry]}
    requested = columns.named(["snapshots", "groups", "start_order"])
    text = records.text(
        view, [hypervisor, {**SILENT, "domains": []}], (), requested, predicted=False
    )
    heads = text.splitlines()[0].split(",")
    assert (heads.count("groups"), heads[-3:]) == (1, ["snapshots", "start_order", "error"])
    first, second = read(text)
    assert (first["snapshots"], first["start_order"], second["snapshots"]) == ("2", "", "")


def test_hypervisors() -> None:
    counts = {"total": 4, "running": 2, "defined": 3, "free": None}
    host = {
        **{"name": "node", "arch": "x86_64", "domain_types": ["kvm", "qemu"], "cpu": counts},
        **{"memory_mib": counts, "domains": {"running": 2, "shutoff": 5, "paused": 1}},
        **{"maintenance": None, "libvirt_version": "9.0.0", "errors": ["odd"]},
        "cell": {"name": "rack1", "quorate": True, "unclean": ["hv3"]},
        "pools": [
            {"name": "base", "state": "running", "available_mib": 2048},
            {"name": "cold", "state": "inactive", "available_mib": 0},
        ],
    }
    answered = {"name": "hv1", "answered": True, "error": None, "host": host}
    first, second = read(records.text("host_info", [answered, SILENT], predicted=False))
    assert first == {
        **{"hypervisor": "hv1", "state": "", "types": "kvm;qemu", "arch": "x86_64"},
        **{"libvirt_version": "9.0.0", "cpus": "4", "vcpus_running": "2", "vcpus_defined": "3"},
        **{"memory_mib": "4", "memory_free_mib": "", "memory_running_mib": "2"},
        **{"memory_defined_mib": "3", "domains_active": "3", "domains_shutoff": "5"},
        **{"pools": "base=2048", "error": ""},
        **{"cell": "rack1", "quorate": "true", "unclean": "hv3"},
    }
    assert second["error"] == "no answer: no route"


def test_images_marks_vms_and_plans() -> None:
    image = {
        **{"name": "a.qcow2", "digest": "d" * 64, "format": "qcow2", "size_mib": 1, "path": "/a"},
        **{"allocated_mib": 1, "intact": False, "users": ["domain 'a'", "domain 'b'"]},
    }
    there = {"name": "hv1", "answered": True, "error": None, "images": [image]}
    first, second = read(records.text("images", [there, SILENT], predicted=False))
    assert (first["intact"], first["users"]) == ("false", "domain 'a';domain 'b'")
    assert second["hypervisor"] == "hv9"
    marks = records.text("maintenance", [{"name": "hv1", "maintenance": True}], predicted=False)
    assert read(marks) == [{"hypervisor": "hv1", "maintenance": "true"}]
    vm = {"name": "a", "address": None, "changed": True, "msg": None, "answered": True}
    (made,) = read(records.text("vms", [{"name": "hv1", "vms": [vm]}], predicted=True))
    assert (made["changed"], made["predicted"], made["failed"]) == ("true", "true", "false")
    entries = [
        fleet_plan.PlannedVm(
            "a", "change", "hv1", ("memory: requested 1, is 2", "vcpus: requested 1")
        )
    ]
    one, other = read(fleet_plan.records(entries, {"hv9": "no route"}))
    assert one["details"] == "memory: requested 1, is 2;vcpus: requested 1"
    assert (other["hypervisor"], other["action"], other["details"]) == (
        "hv9",
        "no answer",
        "no route",
    )


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("  =1", "  '=1"),
        ("\uff1d1", "'\uff1d1"),
        ("x;=1", "x;'=1"),
        ('x", =1', "x\", '=1"),
        (["a", "-b"], "a;'-b"),
        ("\t=1", "\\t=1"),
        ("\r\n=1", "\\r\\n=1"),
        ("\x1b[2J", "\\x1b[2J"),
        ("web-1 = a", "web-1 = a"),
        (-1, "-1"),
        (None, ""),
        (True, "true"),
    ],
)
def test_no_cell_is_a_formula_or_moves_a_cursor(value: object, cell: str) -> None:
    text = csv_text(["head", "last"], [[value, None]])
    assert read(text) == [{"head": cell, "last": ""}]
    assert text.count("\n") == 2


def test_csv_cells_with_separators_are_quoted() -> None:
    text = csv_text(["head", "last"], [['a "b", c', ["x", "y"]], ["", None]])
    assert text == 'head,last\n"a ""b"", c",x;y\n,\n'
