# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volume and pool XML: libvirt's schemas, and the storage driver of test:///default."""

from __future__ import annotations

import typing as t

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    pool_xml,
    storage_info,
    volume_xml,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.nfs_options import NfsSource
from ansible_collections.fleet.virt.tests.unit._xml import assert_valid, assert_xml_equal
from lxml import etree

MIB = 1024 * 1024
BASE = "/var/lib/libvirt/base/0a1b-centos & co.qcow2"
VOLUMES: list[tuple[tuple[t.Any, ...], str]] = [
    (
        ("v_system.qcow2", 8192 * MIB, "qcow2", volume_xml.Backing(BASE, "qcow2")),
        """<volume type="file"><name>v_system.qcow2</name>
        <allocation unit="bytes">0</allocation><capacity unit="bytes">8589934592</capacity>
        <target><format type="qcow2"/><compat>1.1</compat></target>
        <backingStore><path>/var/lib/libvirt/base/0a1b-centos &amp; co.qcow2</path>
        <format type="qcow2"/></backingStore></volume>""",
    ),
    (
        ("v_data.raw", MIB, "raw"),
        """<volume type="file"><name>v_data.raw</name>
        <allocation unit="bytes">0</allocation><capacity unit="bytes">1048576</capacity>
        <target><format type="raw"/></target></volume>""",
    ),
    (
        ("v_seed.iso", 4096, "raw", None, volume_xml.Permissions("0600", 0, 0)),
        """<volume type="file"><name>v_seed.iso</name>
        <allocation unit="bytes">0</allocation><capacity unit="bytes">4096</capacity>
        <target><format type="raw"/>
        <permissions><mode>0600</mode><owner>0</owner><group>0</group></permissions>
        </target></volume>""",
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), VOLUMES, ids=["overlay", "raw", "seed"])
def test_volume(arguments: tuple[t.Any, ...], expected: str) -> None:
    xml = volume_xml.render(*arguments)
    assert_xml_equal(xml, expected)
    assert_valid(xml, "storagevol")


def test_pool() -> None:
    path = "/var/lib/libvirt/base & more"
    identity = pool_xml.uuid_of("base <1>", path)
    assert identity == pool_xml.uuid_of("base <1>", f"{path}/") != pool_xml.uuid_of("base", path)
    assert_xml_equal(
        pool_xml.render("base <1>", path),
        f"""<pool type="dir"><name>base &lt;1&gt;</name><uuid>{identity}</uuid>
        <target><path>/var/lib/libvirt/base &amp; more</path></target></pool>""",
    )
    assert_valid(pool_xml.render("base", "/var/lib/libvirt/base"), "storagepool")


def test_nfs_pool_has_its_mount_options() -> None:
    xml = pool_xml.render("vms", "/srv/vms", NfsSource("nas1", "/export/vms", "4.1", ("sec=sys",)))
    assert_xml_equal(
        xml,
        """<pool type="netfs" xmlns:fs="http://libvirt.org/schemas/storagepool/fs/1.0">
        <name>vms</name><source><host name="nas1"/><dir path="/export/vms"/><format type="nfs"/>
        <protocol ver="4.1"/></source><target><path>/srv/vms</path></target><fs:mount_opts>
        <fs:option name="hard"/><fs:option name="lookupcache=none"/><fs:option name="sec=sys"/>
        </fs:mount_opts></pool>""",
    )
    assert_valid(xml, "storagepool")
    expected = ["nfsvers=4.1", "hard", "lookupcache=none", "sec=sys"]
    assert storage_info.nfs_options(xml) == expected
    connection = libvirt.open("test:///default")
    pool = connection.storagePoolDefineXML(xml)
    try:
        kept = etree.fromstring(pool.XMLDesc())
        assert kept.get("type") == "netfs"
        assert kept.find("source/protocol").get("ver") == "4.1"
    finally:
        pool.undefine()
        connection.close()


def test_pool_that_is_no_nfs_has_no_options_of_it() -> None:
    assert storage_info.nfs_options(pool_xml.render("base", "/srv/base")) is None
    other = "<pool type='netfs'><source><format type='{}'/></source></pool>"
    assert storage_info.nfs_options(other.format("cifs")) is None
    assert storage_info.nfs_options(other.format("auto")) == []


def test_libvirt_takes_pool_and_volumes() -> None:
    connection = libvirt.open("test:///default")
    pool = connection.storagePoolDefineXML(pool_xml.render("fleet-unit", "/fleet-unit"))
    try:
        pool.create()
        for arguments, _ in VOLUMES:
            volume = pool.createXML(volume_xml.render(*arguments))
            kept = etree.fromstring(volume.XMLDesc())
            assert kept.findtext("name") == arguments[0]
            assert int(kept.findtext("capacity")) == arguments[1]
            assert kept.find("target/format").get("type") == arguments[2]
            backing = arguments[3] if len(arguments) > 3 else None
            assert kept.findtext("backingStore/path") == (backing and backing.path)
            volume.delete()
    finally:
        pool.destroy()
        pool.undefine()
        connection.close()
