# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a test leaves in libvirt's test driver is gone before the next (``tests/conftest.py``)."""

from __future__ import annotations

from collections.abc import Iterator

import libvirt
import pytest

_DOMAIN = (
    "<domain type='test'><name>{}</name><memory>1024</memory><os><type>hvm</type></os></domain>"
)
_POOL = "<pool type='dir'><name>left</name><target><path>/left</path></target></pool>"
_NETWORK = "<network><name>left</name><forward mode='bridge'/><bridge name='br0'/></network>"


@pytest.fixture(scope="module")
def driver() -> Iterator[libvirt.virConnect]:
    """One that lasts: what is left in it lasts as well."""
    connection = libvirt.open("test:///default")
    yield connection
    connection.close()


@pytest.mark.parametrize("turn", [1, 2])
def test_driver_has_nothing_of_test_before(driver: libvirt.virConnect, turn: int) -> None:
    for listed, name in (
        (driver.listAllDomains(0), "test"),
        (driver.listAllStoragePools(0), "default-pool"),
        (driver.listAllNetworks(0), "default"),
    ):
        assert [one.name() for one in listed] == [name], turn
        assert listed[0].isActive(), turn
    driver.createXML(_DOMAIN.format("transient"), 0)
    driver.defineXML(_DOMAIN.format("running")).create()
    driver.storagePoolDefineXML(_POOL, 0).create(0)
    driver.networkDefineXML(_NETWORK)
    driver.lookupByName("test").destroy()
