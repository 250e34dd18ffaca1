# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a row writes into libvirt's XML is what it reads there, and libvirt's schema allows it.

Values come from the rows themselves, so one that is added is tested without a word here, unless
its values cannot be told from its type.
"""

from __future__ import annotations

import dataclasses
import random
import typing as t
from collections.abc import Iterator

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.settings import (
    Boolean,
    Choice,
    Group,
    Integer,
    Setting,
    Size,
    Words,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import domain_xml, settings
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.devices_xml import VolumeRef
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options
from ansible_collections.fleet.virt.tests.unit._xml import assert_valid

_UUID = "6f0f7c2e-58f4-4a0e-9d0b-0d9c1b4f6a11"
_COMBINATIONS = 2000
# Values of rows whose type does not tell them
_VALUES: dict[str, list[t.Any]] = {
    "arch": ["x86_64", "aarch64"],
    "cmdline": ["console=ttyS0 a='<b>'"],
    "cpu.disable": [["svm"], ["vmx", "svm"]],
    "cpu.require": [["pcid"]],
    "cputune.emulatorpin": ["0-1"],
    "cputune.vcpupin": [["0:0-1"]],
    "cpuset": ["0-3,^2", "5"],
    "filter": ["clean-traffic"],
    "filesystems.source": ["/srv/a & b"],
    "filesystems.target": ["tag"],
    "host": ["127.0.0.1"],
    "hyperv.vendor_id": ["a<b"],
    "initrd": ["/boot/initrd"],
    "kernel": ["/boot/vm linuz"],
    "keymap": ["de", "en-us"],
    "logical_block_size": [512, 4096],
    "name": ["org.example.0"],
    "os": ["http://debian.org/debian/12", "http://microsoft.com/win/10"],
    "nodeset": ["0"],
    "numa.cpus": ["0"],
    "numa.memory": [1024],
    "path": ["/run/a <b>"],
    "memory_backing.source": ["anonymous", "memfd", "file"],
    "pci": ["0000:3b:00.1"],
    "physical_block_size": [4096],
    "timezone": ["Europe/Berlin"],
    "usb": ["046d:c52b"],
    "wwn": ["5000c50015ea71ac"],
    "volume": ["data & 1.qcow2"],
    "dev": ["/dev/vg0/a<b"],
    "source_name": ["pool/image"],
    "hosts": [["10.0.0.1:3300", "[fd00::1]:6789", "mon1"]],
    "auth_user": ["libvirt"],
    "auth_secret": ["client.libvirt secret"],
    "encryption_secret": ["6b1a4a1e-7d0c-4a43-9d6b-0c2e7f1b5a90", "disks of a fleet & more"],
    "bridge": ["br0", "br-1"],
    "cpu.model": ["EPYC"],
    "description": ["first\nsecond <line>", "x"],
    "listen": ["127.0.0.2", "::1"],
    "mac": ["52:54:00:12:34:56"],
    "machine": ["pc", "q35", "pc-q35-7.2"],
    "network": ["default", "a b"],
    "password": ["s3cret&<"],
    "portgroup": ["lan", "VLAN_7:a/b.c-d"],
    "serial": ["A.b_1"],
    "source": ["br7"],
    "title": ["One & <two>"],
}
_TCP = {"type": "tcp", "host": "127.0.0.1", "port": 5000, "mode": "bind"}
_NETWORK = {
    "size": None,
    "protocol": "rbd",
    "source_name": "pool/image",
    "hosts": ["mon1"],
    "auth_user": "libvirt",
    "auth_secret": "client.libvirt secret",
}
# What a value needs beside it; None is any value
_WITH: dict[tuple[str, t.Any], dict[str, t.Any]] = {
    ("cpu.mode", "custom"): {"model": "EPYC"},
    ("disks.device", "cdrom"): {"size": None},
    ("disks.device", "floppy"): {"size": None},
    ("disks.bus", "fdc"): {"device": "floppy", "size": None},
    ("disks.wwn", None): {"bus": "scsi"},
    ("nics.mode", None): {"type": "direct"},
    ("nics.portgroup", None): {"source": None, "network": "default"},
    ("disks.volume", None): {"size": None},
    ("disks.dev", None): {"size": None},
    ("disks.protocol", "nbd"): {"size": None, "hosts": ["127.0.0.1:10809"]},
    ("disks.protocol", "rbd"): {**_NETWORK, "protocol": "rbd"},
    ("disks.protocol", "iscsi"): {**_NETWORK, "protocol": "iscsi"},
    **{
        (f"disks.{key}", None): {name: one for name, one in _NETWORK.items() if name != key}
        for key in ("source_name", "hosts", "auth_user", "auth_secret")
    },
    ("disks.physical_block_size", None): {"logical_block_size": 512},
    ("disks.logical_block_size", 4096): {"physical_block_size": 4096},
    ("nics.inbound_peak", None): {"inbound_average": 1},
    ("nics.inbound_burst", None): {"inbound_average": 1},
    ("nics.outbound_peak", None): {"outbound_average": 1},
    ("nics.outbound_burst", None): {"outbound_average": 1},
    ("clock.offset", "timezone"): {"timezone": "Europe/Berlin"},
    ("hyperv.synic", True): {"vpindex": True},
    ("hyperv.stimer", True): {"vpindex": True, "synic": True},
    ("filesystems.accessmode", "mapped"): {"driver": "path"},
    ("serials.type", "file"): {"path": "/a"},
    ("serials.type", "dev"): {"path": "/dev/ttyS5"},
    ("serials.type", "unix"): {"path": "/a", "mode": "bind"},
    ("serials.type", "tcp"): _TCP,
    ("serials.path", None): {"type": "file"},
    ("serials.mode", "connect"): {**_TCP, "mode": "connect"},
    ("serials.mode", "bind"): _TCP,
    ("serials.host", None): {**_TCP, "host": "127.0.0.1"},
    ("serials.port", None): {"type": "tcp", "host": "::1", "mode": "bind"},
    ("serials.protocol", None): _TCP,
    ("initrd", "/boot/initrd"): {"kernel": "/k"},
    ("cmdline", "console=ttyS0 a='<b>'"): {"kernel": "/k"},
    ("on_reboot", "destroy"): {"on_poweroff": "destroy"},
    ("secure_boot", True): {"firmware": "uefi"},
}
# What every element of a list has to have, and what the VM
_BESIDE: dict[str, dict[str, t.Any]] = {
    "numa": {"cpus": "0", "memory": 1024},
    "numatune": {"nodeset": "0"},
    "filesystems": {"source": "/srv", "target": "srv"},
    "channels": {"name": "org.example.0"},
}
_VM: dict[str, dict[str, t.Any]] = {
    "hostdevs": {"host": "hv1"},
    "channels": {"console": {"type": "spice"}},
}
# The libvirt whose schema is the first to have a value
_SINCE = {("watchdog.model", "itco"): 9_001_000, ("panic.model", "pvpanic"): 9_001_000}
_PARTS = ("sockets", "dies", "cores", "threads")  # as many vCPUs
_NO_DEVICE = [("console.type", "none")]


def _key(value: t.Any) -> t.Any:
    return tuple(value) if isinstance(value, list) else value


def _samples(path: str, row: Setting[object]) -> list[t.Any]:
    version = libvirt.getVersion()
    return [one for one in _all(path, row) if _SINCE.get((path, _key(one)), 0) <= version]


def _all(path: str, row: Setting[object]) -> list[t.Any]:
    given = _VALUES.get(path) or _VALUES.get(row.name)
    if given:
        return given
    if isinstance(row, Choice):
        return list(row.choices)
    if isinstance(row, Boolean):
        return [True, False]
    assert not isinstance(row, Words), f"{path}: give it values in _VALUES"
    if isinstance(row, Size):
        return [1024, 1024] if row.high <= 1024 else [1024, 4096]
    assert isinstance(row, Integer), f"{path}: give it values in _VALUES"
    return [row.low, row.high]


def _rows() -> Iterator[tuple[str, Setting[object]]]:
    for row in settings.VM:
        if isinstance(row, Group):
            inner = row.settings if row.xml else ()
            yield from ((f"{row.name}.{one.name}", one) for one in inner if one.xml)
        elif row.xml:
            yield row.name, row


ROWS = dict(_rows())
CASES = [
    (path, value)
    for path, row in ROWS.items()
    for value in _samples(path, row)
    if (path, value) not in _NO_DEVICE
]


def _options(path: str, value: t.Any) -> dict[str, t.Any]:
    device, dot, name = path.partition(".")
    if not dot:
        return {device: value, **_WITH.get((path, _key(value)), {})}
    given: dict[str, t.Any] = {**_BESIDE.get(device, {}), name: value}
    if device == "disks":
        given = {"size": 8, **given}
    elif device == "nics" and name not in ("bridge", "network"):
        given = {"source": "br7", **given}
    elif path == "console.listen":
        given = {"type": "vnc", **given}
    given.update(_WITH.get((path, _key(value)), {}))
    given.update(_WITH.get((path, None), {}))
    more = {"vcpus": value} if name in _PARTS else _VM.get(device, {})
    if device in ("disks", "nics"):
        return {device: [{"name": "a", **given}]}
    listed = next(row for row in settings.VM if row.name == device).argument()["type"] == "list"
    return {**more, device: [given] if listed else given}


def _domain(options: t.Any) -> Domain | None:
    plain = {"name": "v", "disk_profile": "none", "nic_profile": "none", **options}
    domain, problems = from_options(plain)
    assert (domain is None) == bool(problems)
    return domain


def _render(domain: Domain) -> str:
    return domain_xml.render(
        domain,
        uuid=_UUID,
        domain_type=domain.domain_type or "qemu",
        machine=domain.machine or "pc-q35-7.2",
        arch=domain.arch or "x86_64",
        volumes={
            disk.name: VolumeRef(f"/{disk.name}", disk.format)
            for disk in domain.disks
            if not disk.exists
        },
    )


def _read_back(domain: Domain, xml: str) -> Iterator[tuple[str, Setting[object], object, object]]:
    """Path, row, what was asked and what stands there, of every row that asks for anything."""
    root = _lxml.parse(xml, "the domain")
    for row in settings.VM:
        if not isinstance(row, Group):
            yield from _of(row.name, row, domain, root)
            continue
        if not row.xml:
            continue
        asked = getattr(domain, row.name)
        wholes = asked if isinstance(asked, tuple) else [asked]
        elements = root.findall(str(row.xml))[-len(wholes) :] if wholes else []
        for whole, element in zip(wholes, elements):
            if whole is None:
                continue
            for inner in row.settings:
                yield from _of(f"{row.name}.{inner.name}", inner, whole, element)


def _of(
    path: str, row: Setting[object], whole: object, element: t.Any
) -> Iterator[tuple[str, Setting[object], object, object]]:
    if row.xml and row.applies(whole):
        asked = getattr(whole, row.name)
        if asked not in (None, ()):
            yield path, row, asked, row.found(element)


@pytest.mark.parametrize(("path", "value"), CASES)
def test_what_is_written_is_read(path: str, value: t.Any) -> None:
    domain = _domain(_options(path, value))
    assert domain is not None
    xml = _render(domain)
    assert_valid(xml, "domain")
    found = {at: (row, asked, real) for at, row, asked, real in _read_back(domain, xml)}
    row, asked, real = found[path]
    assert asked == (tuple(value) if isinstance(value, list) else value)
    assert row.same(asked, real), (asked, real)


def _random_options(source: random.Random) -> dict[str, t.Any]:
    """Some cases, each with what it needs, put together; they may contradict each other."""
    found: dict[str, t.Any] = {}
    for path, value in source.sample(CASES, source.randint(1, 14)):
        for key, one in _options(path, value).items():
            if isinstance(one, list) and one and isinstance(one[0], dict):
                there = found.setdefault(key, [])
                marked = {"name": f"a{len(there)}"} if key in ("disks", "nics") else {}
                if key == "disks" and there and source.random() < 0.5:
                    there[-1].update({**one[0], "name": there[-1]["name"]})
                else:
                    there.append({**one[0], **marked})
            elif isinstance(one, dict):
                found.setdefault(key, {}).update(one)
            else:
                found.setdefault(key, one)
    return found


def test_random_specifications_are_valid_and_read_back() -> None:
    """As many as are not refused; each value of each row is in at least one of them."""
    source = random.Random(18)  # noqa: S311 - the same ones in every run
    missing = {
        (path, str(value)) for path, value in CASES if isinstance(ROWS[path], (Choice, Boolean))
    }
    done = 0
    while done < _COMBINATIONS or missing:
        assert done < 10 * _COMBINATIONS, sorted(missing)
        domain = _domain(_random_options(source))
        if domain is None:
            continue
        done += 1
        xml = _render(domain)
        assert_valid(xml, "domain")
        for path, row, asked, real in _read_back(domain, xml):
            assert row.same(asked, real), (path, asked, real, xml)
            missing.discard((path, str(asked)))


def test_a_row_alone_is_a_field() -> None:
    """A setting that nothing else looks at is declared nowhere but in its table."""
    domain = _domain({"disks": [{"name": "a", "size": 8, "serial": "x"}]})
    assert domain is not None
    assert dataclasses.asdict(domain.disks[0])["serial"] == "x"
