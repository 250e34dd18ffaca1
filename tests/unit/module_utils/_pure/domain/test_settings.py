# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every row of a VM's settings is read, and stands in the XML where the row says."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem
from ansible_collections.fleet.virt.plugins.module_utils._pure.base.options import Reader
from ansible_collections.fleet.virt.plugins.module_utils._pure.base.settings import (
    Boolean,
    Choice,
    Group,
    Integer,
    Setting,
    Size,
    Table,
    Words,
    argument_spec,
    names,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.domain import (
    domain_xml,
    settings,
    settings_devices,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.domain.devices_xml import VolumeRef
from ansible_collections.fleet.virt.plugins.module_utils._pure.domain.domain import (
    Domain,
    from_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.seed import settings as seed_settings

_UUID = "6f0f7c2e-58f4-4a0e-9d0b-0d9c1b4f6a11"
# A value for each row that its type does not tell, and what goes with it
_VALUES = {
    "mac": "52:54:00:12:34:56",
    "listen": "127.0.0.2",
    "source": "br7",
    "arch": "aarch64",
    "machine": "pc-q35-7.2",
}
_WITH = {
    "cpu.mode": {"cpu": {"model": "EPYC"}},
    "disks.bus": {"machine": "pc"},
    "nics.network": {"nics": [{"name": "eth0"}]},
    "console.listen": {"console": {"type": "vnc"}},
}


def _value(row: Setting[object]) -> t.Any:
    if isinstance(row, Choice):
        return row.choices[-1]
    if isinstance(row, Integer):
        return row.low + 1
    return _VALUES.get(row.name, "br7")


def _xml(options: t.Mapping[str, t.Any]) -> t.Any:
    domain, problems = from_options({"name": "v", "nic_profile": "none", **options})
    assert domain is not None, problems
    text = domain_xml.render(
        domain,
        uuid=_UUID,
        domain_type=domain.domain_type or "qemu",
        machine=domain.machine or "pc-q35-7.2",
        arch=domain.arch or "x86_64",
        volumes={disk.name: VolumeRef(f"/{disk.name}", disk.format) for disk in domain.disks},
    )
    return _lxml.parse(text, "the domain")


def _rows() -> t.Iterator[tuple[str, Setting[object]]]:
    for row in settings.VM:
        yield row.name, row
        for inner in row.settings if isinstance(row, Group) else ():
            yield f"{row.name}.{inner.name}", inner


_WITH_XML = {path: row for path, row in _rows() if row.xml}


@pytest.mark.parametrize("path", _WITH_XML)
def test_the_value_stands_where_the_row_says(path: str) -> None:
    row = _WITH_XML[path]
    value = _value(row)
    device, dot, name = path.partition(".")
    options: dict[str, t.Any] = {}
    if not dot:
        options = {device: value}
    elif device == "disks":
        more = {} if value == "cdrom" else {"size": 8}
        options = {"disk_profile": "none", device: [{"name": "a", **more, name: value}]}
    elif device == "nics":
        place = {} if name in ("bridge", "network") else {"source": "br7"}
        options = {device: [{"name": "eth0", **place, name: value}]}
    else:
        options = {device: {**_WITH.get(path, {}).get(device, {}), name: value}}
    element, _at, attribute = row.xml.partition("@")
    found = _xml(options).find(element.rstrip("/") or ".")
    assert found is not None
    assert (found.get(attribute) if attribute else found.text) == str(value)


def test_what_is_documented_is_what_is_taken() -> None:
    """One that is in no row is unknown, with the one that was meant."""
    options = {
        "name": "v",
        "memroy": 512,
        "disks": [{"name": "system", "cahce": "none"}],
        "nics": [{"name": "eth0", "modle": "virtio"}],
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
        "vms[0].nics[0].modle": "model",
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
        settings_devices.WATCHDOG,
        seed_settings.SEED,
    ],
)
def test_no_name_stands_twice(table: Table) -> None:
    assert len(set(names(table))) == len(names(table))


def test_every_row_is_of_the_specification() -> None:
    """A row that nothing reads would be documented and ignored."""
    fields = set(Domain.__dataclass_fields__)
    elsewhere = {"image", "overlay", "host", "zone", "tags", "anti_affinity"}
    assert {row.name for row in settings.VM} - fields == elsewhere


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
