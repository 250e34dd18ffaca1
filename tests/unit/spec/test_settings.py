# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every row of a VM's settings is read; what it says to Ansible is what it takes."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import Reader
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.places import Pair
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.settings import (
    Boolean,
    Choice,
    Group,
    Integer,
    Size,
    Table,
    Words,
    argument_spec,
    names,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    settings as seed_settings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import (
    settings,
    settings_devices,
    settings_peripherals,
    settings_tuning,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options


def test_what_is_documented_is_what_is_taken() -> None:
    """One that is in no row is unknown, with the one that was meant."""
    options = {
        "name": "v",
        "memroy": 512,
        "disks": [{"name": "system", "cahce": "none"}],
        "nics": [{"name": "eth0", "modell": "virtio"}],
        "console": {"lisen": "::1"},
        "cpu": {"modl": "EPYC"},
        "watchdog": {"acton": "reset"},
        "placement": {"hsot": "hv1"},
        "seed": {"hostnme": "v"},
    }
    _domain, problems = from_options(options, path="vms[0]")
    found = {one.path: one.message for one in problems if one.message.startswith("unknown option")}
    meant = {
        "vms[0].memroy": "memory",
        "vms[0].disks[0].cahce": "cache",
        "vms[0].nics[0].modell": "model",
        "vms[0].console.lisen": "listen",
        "vms[0].cpu.modl": "model",
        "vms[0].watchdog.acton": "action",
        "vms[0].placement.hsot": "host",
        "vms[0].seed.hostnme": "hostname",
    }
    assert set(found) == set(meant)
    for path, name in meant.items():
        assert f"(did you mean {name}?)" in found[path]


@pytest.mark.parametrize(
    "table",
    [
        settings.VM,
        settings_devices.DISK,
        settings_devices.NIC,
        settings_devices.CONSOLE,
        settings_devices.CPU,
        settings_peripherals.WATCHDOGS.settings,
        settings_peripherals.TPMS.settings,
        seed_settings.SEED,
    ],
)
def test_no_name_stands_twice(table: Table) -> None:
    assert len(set(names(table))) == len(names(table))


def test_every_row_is_of_the_specification() -> None:
    """A row that nothing reads would be documented and ignored."""
    fields = set(Domain.__dataclass_fields__)
    elsewhere = {"image", "overlay", "host", "zone", "tags", "affinity", "anti_affinity"}
    assert {row.name for row in settings.VM} - fields == elsewhere


# What decides how it is made, or where, and a name are no settings of a VM that exists
_NOT_CHANGED = ("name", "disk_profile", "nic_profile", "start", "wait", "placement", "state")


def test_every_row_says_how_it_is_changed() -> None:
    """A VM that exists is converged: a row that is silent would be compared and never mended."""
    tables = [settings.VM]
    tables += [row.settings for row in settings.VM if isinstance(row, Group) and row.xml]
    rows = [row for table in tables for row in table if row.name not in _NOT_CHANGED]
    silent = [row.name for row in rows if row.change is None]
    assert silent == []
    for row in rows:
        assert row.change is not None
        assert (row.change.when == "never") == bool(row.change.reason), row.name
        if isinstance(row.xml, Pair) and row.change.when != "never":
            assert row.xml.places, f"{row.name}: what is to be cleared before it is written anew"


def test_a_row_is_written_instead_of_what_stands_there() -> None:
    element = _lxml.parse("<disk><driver cache='none' io='native'/><serial>a</serial></disk>", "x")
    disk = types.SimpleNamespace(cache="writeback", io=None, serial="b")
    for row in (
        settings_devices.DiskSettings.cache,
        settings_devices.DiskSettings.io,
        settings_tuning.DiskTuning.serial,
    ):
        row.rewrite(element, disk)
    expected = '<disk><driver cache="writeback"/><serial>b</serial></disk>'
    assert _lxml.tostring(element).replace("\n", "").replace("  ", "") == expected
    nic = _lxml.parse("<interface><link state='down'/></interface>", "x")
    settings_tuning.NicTuning.link.rewrite(nic, types.SimpleNamespace(link=True))
    assert len(nic) == 0, "an element that holds nothing any more is gone"


def _read(row: t.Any, value: object) -> tuple[object, list[str]]:
    problems: list[Problem] = []
    return row.read(Reader({row.name: value}, "", problems)), [one.message for one in problems]


CASES = [
    (Integer("n", "", default=3, low=1, high=9), "4", 4, []),
    (Integer("n", "", default=3, low=1, high=9), None, 3, []),
    (
        Integer("n", "", default=3, low=1, high=9),
        10,
        3,
        ["10 is out of range; it must be 1 to 9"],
    ),
    (Size("n", "", default=None, high=4096), "1GiB", 1024, []),
    (Size("n", "", default=16, high=4096), None, 16, []),
    (Boolean("n", "", default=None), None, None, []),
    (Boolean("n", "", default=True), "no", False, []),
    (Words("n", "", pattern="[a-z]+", rule="letters"), "a, b", ("a", "b"), []),
    (
        Choice("n", "", default="a", choices=("a", "b")),
        "c",
        "a",
        ["'c' is not one of a, b; choose one"],
    ),
    (Choice("n", "", default=None, choices=("off", "on")), True, "on", []),
    (Choice("n", "", default=None, choices=("off", "on")), "off", "off", []),
    (
        Choice("n", "", default=None, choices=("on", "auto")),
        False,
        None,
        ["False is not one of on, auto; choose one"],
    ),
]


@pytest.mark.parametrize(("row", "value", "read", "problems"), CASES)
def test_a_row_reads_its_type(row: object, value: object, read: object, problems: object) -> None:
    assert _read(row, value) == (read, problems)


def test_a_row_says_the_same_to_ansible() -> None:
    inner = Choice("a", "", default="x", aliases=("b",), choices=("x", "y"))
    table = (
        Size("size", "", default=1024, high=4096),
        Group("devices", "", settings=(inner,), of="list"),
    )
    assert argument_spec(table) == {
        "size": {"type": "str", "default": "1024"},
        "devices": {
            "type": "list",
            "elements": "dict",
            "options": {
                "a": {"type": "str", "choices": ["x", "y"], "default": "x", "aliases": ["b"]}
            },
        },
    }
