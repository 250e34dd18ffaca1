# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's neighbours, from its own files and from files of the same form."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._host import neighbours

TABLE = """\
IP address       HW type     Flags       HW address            Mask     Device
192.0.2.5        0x1         0x2         52:54:00:12:34:56     *        br0
192.0.2.6        0x1         0x0         00:00:00:00:00:00     *        br0
192.0.2.7        0x1         0x6         52:54:00:AB:CD:EF     *        br0
192.0.2.8        0x1
"""


def test_table_has_the_complete_ones(tmp_path: Path) -> None:
    path = tmp_path / "arp"
    path.write_text(TABLE)
    expected = {"192.0.2.5": "52:54:00:12:34:56", "192.0.2.7": "52:54:00:ab:cd:ef"}
    assert neighbours.table(str(path)) == expected


def test_table_of_this_machine_is_readable() -> None:
    for address, mac in neighbours.table().items():
        assert ipaddress.ip_address(address)
        assert len(mac.split(":")) >= 6


def test_no_table_is_an_empty_one(tmp_path: Path) -> None:
    assert neighbours.table(str(tmp_path / "none")) == {}


@pytest.mark.parametrize("name", ["", "lo", "no-such-device", "../lo", ".", ".."])
def test_what_is_on_no_bridge(name: str) -> None:
    assert neighbours.bridge_of(name) is None


def test_a_bridge_that_shows_nothing_may_have_heard_everybody() -> None:
    assert neighbours.has_spoken("no-such-device", "52:54:00:12:34:56")


def test_network_of_loopback() -> None:
    assert neighbours.network_of("lo") == ipaddress.IPv4Interface("127.0.0.1/8")
    assert neighbours.network_of("no-such-device") is None


def test_a_large_network_is_left_alone() -> None:
    assert neighbours.stir("lo") is False
