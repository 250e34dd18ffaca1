# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A seed medium in a definition that exists, and what is recorded of the seed."""

from __future__ import annotations

import json

from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import NicConfig, Seed
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import medium as seed_domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import request

XML = """
<domain type='qemu'>
  <name>web1</name>
  <metadata><other xmlns='urn:other'/></metadata>
  <devices>
    <disk type="file"><target dev="vda" bus="virtio"/></disk>
    {disks}
    <interface type='bridge'><mac address='52:00:00:00:00:AA'/></interface>
    <interface type='bridge'><mac address='52:00:00:00:00:bb'/></interface>
  </devices>
</domain>
"""
EMPTY = "<disk type='file' device='cdrom'><target dev='sda' bus='scsi'/><readonly/></disk>"
USED = "<disk type='file' device='cdrom'><source file='/iso'/><target dev='sda' bus='scsi'/></disk>"
IDE = "<disk type='file' device='cdrom'><target dev='hda' bus='ide'/></disk>"
KEPT = Metadata(host_key="ssh-ed25519 AAAA", volumes=(OwnVolume("p", "n", "/n", "seed", "seed"),))
REQUEST = json.dumps(
    {"name": "web1", "nics": [{"name": "lan", "mac": "52:00:00:00:00:aa"}], "seed": None}
)


def media(xml: str) -> dict[str, str | None]:
    """Target to medium of the CD drives."""
    found = {}
    for disk in _lxml.parse(xml, "test").findall("devices/disk"):
        if disk.get("device") == "cdrom":
            source = disk.find("source")
            found[disk.find("target").get("dev")] = None if source is None else source.get("file")
    return found


def put(disks: str, *before: str) -> str:
    root = _lxml.parse(XML.format(disks=disks), "test")
    return seed_domain.with_medium(root, KEPT, "/pool/web1_seed.iso", before)


def test_a_new_drive_and_a_controller_that_cloud_kernels_know() -> None:
    xml = put("")
    assert media(xml) == {"sda": "/pool/web1_seed.iso"}
    (controller,) = _lxml.parse(xml, "test").findall("devices/controller")
    assert dict(controller.attrib) == {"type": "scsi", "index": "0", "model": "virtio-scsi"}
    assert metadata.parse(_lxml.parse(xml, "test")) == KEPT
    assert "urn:other" in xml


def test_the_drives_of_others_stay_as_they_are() -> None:
    assert media(put(USED)) == {"sda": "/iso", "sdb": "/pool/web1_seed.iso"}
    assert media(put(IDE)) == {"hda": None, "sda": "/pool/web1_seed.iso"}


def test_an_empty_drive_and_the_one_of_the_medium_before_are_used_again() -> None:
    assert media(put(EMPTY)) == {"sda": "/pool/web1_seed.iso"}
    assert media(put(USED, "/iso")) == {"sda": "/pool/web1_seed.iso"}
    again = _lxml.parse(put(EMPTY), "test")
    text = seed_domain.with_medium(again, KEPT, "/new", ["/pool/web1_seed.iso"])
    assert media(text) == {"sda": "/new"}
    assert text.count("<fleet:fleet") == 1


def test_nics_have_the_names_of_the_request() -> None:
    root = _lxml.parse(XML.format(disks=""), "test")
    assert seed_domain.nics_of(root, Metadata(request=REQUEST)) == [
        ("lan", "52:00:00:00:00:aa"),
        ("eth1", "52:00:00:00:00:bb"),
    ]
    assert [nic.name for nic in seed_domain.nics_of(root, None)] == ["eth0", "eth1"]
    assert [nic.name for nic in seed_domain.nics_of(root, Metadata(request="{"))] == [
        "eth0",
        "eth1",
    ]


def test_what_is_recorded_is_found_again() -> None:
    seed = Seed(
        "web1",
        "root",
        ("ssh-ed25519 AAAA",),
        commands=("HUSH",),
        network=(NicConfig("eth0", addresses=("192.0.2.1/24",)),),
    )
    for kept in (Metadata(), Metadata(request=REQUEST)):
        assert seed_domain.recorded(kept) is None
        after = seed_domain.with_record(kept, seed, "web1")
        assert (after.user, after.addresses) == ("root", ("192.0.2.1",))
        assert "HUSH" not in repr(after)
        found = seed_domain.recorded(after)
        assert found == seed_domain.as_plain(seed, "web1")
        assert request.compare(found, seed_domain.as_plain(Seed("web1"), "web1"))
        # what is written is what is read
        assert metadata.parse(metadata.to_element(after)) == after
    assert seed_domain.with_record(Metadata(), seed, "web1").request is None
    assert seed_domain.with_record(Metadata(request=REQUEST), seed, "web1").seed is None
    assert seed_domain.recorded(None) is None
