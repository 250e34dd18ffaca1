# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What placement is told of a hypervisor: libvirt's test driver answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_facts as placement_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse, tostring

_NETWORKS = {
    "ovs": "<forward mode='bridge'/><bridge name='ovs0'/><virtualport type='openvswitch'/>",
    "plain": "<forward mode='bridge'/><bridge name='br0'/>",
    "device": "<forward mode='passthrough'><interface dev='eth0'/></forward>",
}


def test_networks_that_carry_vlan_tags_and_what_the_driver_does_not_tell() -> None:
    with connect("test:///default", 5) as connection:
        made = [
            connection.conn.networkDefineXML(f"<network><name>{name}</name>{text}</network>")
            for name, text in _NETWORKS.items()
        ]
        try:
            host = placement_facts.read(connection, "base", "")
        finally:
            for network in made:
                network.undefine()
    assert host["tagging_networks"] == ["device", "ovs"]
    assert host["tagging_bridges"] == []
    assert host["firmwares"] is None
    assert host["tpms"] is None


def test_files_that_are_asked_for_are_absent_unless_they_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "local", True)
    present, absent = tmp_path / "a.qcow2", tmp_path / "b.qcow2"
    present.write_bytes(b"image")
    asked = [str(present), str(absent), str(tmp_path)]
    with connect("test:///default", 5) as connection:
        host = placement_facts.read(connection, "base", "", asked)
    assert host["offers"]["absent_files"] == [str(absent), str(tmp_path)]


_DISKS = """<domain type='test'><name>disks</name><memory>1024</memory><os><type>hvm</type></os>
<devices>
<disk type='file' device='disk'><source file='/pool/system'/><target dev='vda' bus='virtio'/></disk>
<disk type='file' device='disk'><source file='/pool/other'/><target dev='vdb' bus='virtio'/></disk>
<disk type='block' device='disk'><source dev='/dev/sdz'/><target dev='vdc' bus='virtio'/></disk>
<disk type='file' device='cdrom'><source file='/pool/iso'/><target dev='sda' bus='scsi'/></disk>
</devices></domain>"""
_SYSTEM = metadata.OwnVolume("pool", "system", "/pool/system", "system", "disk")


@pytest.mark.parametrize(
    ("stored", "disks", "targets"),
    [
        (metadata.Metadata(request="{}", volumes=(_SYSTEM,)), ["system"], ["vdb"]),
        (metadata.Metadata(request="{}", phase="creating", volumes=(_SYSTEM,)), [], []),
        (metadata.Metadata(request="{}", adopted="yes"), ["vda", "vdb", "vdc"], []),
        (None, [], ["vda", "vdb"]),
    ],
    ids=["created", "being created", "adopted", "foreign"],
)
def test_disks_of_a_definition_are_named_as_requests_name_them(
    stored: metadata.Metadata | None, disks: list[str], targets: list[str]
) -> None:
    root = parse(_DISKS, "domain")
    if stored is not None:
        metadata.put(root, stored)
    with connect("test:///default", 5) as connection:
        domain = connection.conn.defineXML(tostring(root))
        try:
            host = placement_facts.read(connection, "base", "")
        finally:
            domain.undefine()
    entry = next(vm for vm in host["vms"] if vm["name"] == "disks")
    assert (entry["disks"], entry["targets"]) == (disks, targets)
