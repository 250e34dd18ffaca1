# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools and volumes as facts."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import storage_info

FIXTURES = Path(__file__).parents[1] / "fixtures"
NO_SOURCE: dict[str, t.Any] = {
    "name": None,
    "format": None,
    "dir": None,
    "hosts": [],
    "devices": [],
}

POOLS: dict[str, dict[str, t.Any]] = {
    "dir": {
        "name": "default",
        "uuid": "7c4b0a8e-9f3d-4e2b-8a2e-0c5d6f1b2a3c",
        "type": "dir",
        "path": "/var/lib/libvirt/images",
        "capacity_mib": 102399,  # one byte less than 100 GiB: 102400 MiB are not there
        "allocation_mib": 2,
        "available_mib": 0,
        "source": NO_SOURCE,
    },
    "logical": {
        "name": "vg0",
        "uuid": "2d8e3d0c-5d7a-4a51-9d3a-0f1e2d3c4b5a",
        "type": "logical",
        "path": "/dev/vg0",
        "capacity_mib": 1048576,
        "allocation_mib": 524288,
        "available_mib": 524288,
        "source": {
            **NO_SOURCE,
            "name": "vg0",
            "format": "lvm2",
            "devices": ["/dev/sdb1", "/dev/sdc1"],
        },
    },
    "rbd": {
        "name": "ceph",
        "uuid": "9d1a7f60-1f4e-4a0f-a5b8-6d2f3e4c5b6a",
        "type": "rbd",
        "path": None,
        "capacity_mib": None,
        "allocation_mib": None,
        "available_mib": None,
        "source": {**NO_SOURCE, "name": "rbd", "hosts": ["mon1.example.com", "mon2.example.com"]},
    },
    "netfs": {
        "name": "share",
        "uuid": "e1a2b3c4-d5e6-4f70-8192-a3b4c5d6e7f8",
        "type": "netfs",
        "path": "/srv/vms",
        "capacity_mib": 0,
        "allocation_mib": 0,
        "available_mib": 0,
        "source": {
            **NO_SOURCE,
            "format": "nfs",
            "dir": "/export/vms",
            "hosts": ["nfs.example.com"],
        },
    },
}
VOLUMES: dict[str, dict[str, t.Any]] = {
    "overlay": {
        "name": "web1_system.qcow2",
        "key": "/var/lib/libvirt/images/web1_system.qcow2",
        "type": "file",
        "path": "/var/lib/libvirt/images/web1_system.qcow2",
        "format": "qcow2",
        "capacity_bytes": 8589934593,
        "allocation_bytes": 200704,
        "capacity_mib": 8193,
        "allocation_mib": 1,
        "backing": "/var/lib/libvirt/base/9f86d081-debian12.qcow2",
        "backing_format": "qcow2",
    },
    "block": {
        "name": "zoo",
        "key": "r4xkCv-MQhr-WKIT-R66x-Epn2-e8hG-1Z5gY0",
        "type": "block",
        "path": "/dev/vg0/zoo",
        "format": None,
        "capacity_bytes": 2080374784,
        "allocation_bytes": 2080374784,
        "capacity_mib": 1984,
        "allocation_mib": 1984,
        "backing": None,
        "backing_format": None,
    },
}


@pytest.mark.parametrize("name", POOLS)
def test_pool(name: str) -> None:
    xml = (FIXTURES / "pool" / f"{name}.xml").read_text(encoding="utf-8")
    assert storage_info.pool(xml) == POOLS[name]


@pytest.mark.parametrize("name", VOLUMES)
def test_volume(name: str) -> None:
    xml = (FIXTURES / "volume" / f"{name}.xml").read_text(encoding="utf-8")
    assert storage_info.volume(xml) == VOLUMES[name]


def test_the_test_drivers_own() -> None:
    libvirt = pytest.importorskip("libvirt")
    connection = libvirt.open("test:///default")
    try:
        handle = connection.storagePoolLookupByName("default-pool")
        facts = storage_info.pool(handle.XMLDesc())
        made = handle.createXML(
            "<volume><name>v.qcow2</name><capacity unit='MB'>100</capacity>"
            "<target><format type='qcow2'/></target></volume>"
        )
        volume = storage_info.volume(made.XMLDesc())
        info = made.info()
    finally:
        connection.close()
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["name"], facts["path"]) == ("default-pool", "/default-pool")
    assert (facts["capacity_mib"], facts["available_mib"]) == (102400, 102400)
    assert (volume["path"], volume["format"]) == ("/default-pool/v.qcow2", "qcow2")
    assert (volume["capacity_bytes"], volume["allocation_bytes"]) == (info[1], info[2])
    assert volume["capacity_mib"] == 96  # 100 MB are 95.4 MiB


@pytest.mark.parametrize("value", ["", "-1", "1e9", "9" * 5_000_000, "<a/>"], ids=lambda v: v[:9])
def test_absurd_sizes_are_unknown(value: str) -> None:
    xml = f"<capacity>{value}</capacity><allocation unit='?'>1</allocation>"
    facts = storage_info.volume(f"<volume>{xml}</volume>")
    assert (facts["capacity_mib"], facts["allocation_bytes"]) == (None, None)
    assert storage_info.pool(f"<pool>{xml}</pool>")["capacity_mib"] is None


def test_documents_that_say_nothing_have_every_key() -> None:
    assert list(storage_info.pool("<pool/>")) == list(POOLS["dir"])
    assert list(storage_info.volume("<volume/>")) == list(VOLUMES["block"])


def test_another_document_is_refused() -> None:
    with pytest.raises(XmlError, match="pool p: the document is a <volume>"):
        storage_info.pool("<volume/>", "pool p")
    with pytest.raises(XmlError, match="volume: the document is a <pool>"):
        storage_info.volume("<pool/>")
