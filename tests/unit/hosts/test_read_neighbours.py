# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's neighbours, from its own files and from files of the same form."""

from __future__ import annotations

import ipaddress
import socket
import time
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_neighbours as neighbours,
)

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
    assert neighbours.trigger_arp("lo") is False


_FIB = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
        +-- 192.0.2.0/24 2 0 2
           |-- 192.0.2.0
              /24 link UNICAST
           |-- 192.0.2.7
              /32 host LOCAL
           |-- 192.0.2.255
              /32 link BROADCAST
Local:
           |-- 192.0.2.7
              /32 host LOCAL
           |-- 198.51.100.7
              /32 host LOCAL
"""
_IF6 = """\
20010db8000000000000000000000007 02 40 00 80     eth0
fe8000000000000050540afffe123456 02 40 20 80     eth0
nonsense
"""


def test_own_addresses(tmp_path: Path) -> None:
    for name, text in (("fib", _FIB), ("if6", _IF6)):
        (tmp_path / name).write_text(text)
    found = neighbours.own_addresses(str(tmp_path / "fib"), str(tmp_path / "if6"))
    assert found[:3] == ["192.0.2.7", "198.51.100.7", "2001:db8::7"]
    assert neighbours.own_addresses(str(tmp_path / "none"), str(tmp_path / "none")) == []


def test_who_has_addresses(tmp_path: Path) -> None:
    """Known ones at once; unknown ones are waited for as long as the kernel asks."""
    path = tmp_path / "arp"
    head = "IP address       HW type     Flags       HW address            Mask     Device\n"
    known = "192.0.2.5        0x1         0x2         52:54:00:00:00:05     *        br0\n"
    asked = "192.0.2.6        0x1         0x0         00:00:00:00:00:00     *        br0\n"
    path.write_text(head + known)
    begun = time.monotonic()
    found = neighbours.ask_for(["192.0.2.5", "2001:db8::1"], 60, str(path))
    assert found == {"192.0.2.5": "52:54:00:00:00:05"}
    assert time.monotonic() - begun < 20
    path.write_text(head + known + asked)
    begun = time.monotonic()
    assert neighbours.ask_for(["127.0.0.9", "192.0.2.5"], 0.2, str(path)) == found
    assert neighbours._unanswered(str(path)) == {"192.0.2.6"}
    assert time.monotonic() - begun < 20


def test_one_that_is_known_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or an entry of a machine that is gone would stay for as long as nobody talks to it."""
    path = tmp_path / "arp"
    path.write_text(TABLE.replace("192.0.2.5 ", "127.0.0.9 "))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as known:
        known.bind(("127.0.0.9", 0))
        known.settimeout(5)
        monkeypatch.setattr(neighbours, "_DISCARD", known.getsockname()[1])
        assert neighbours.ask_for(["127.0.0.9"], 0, str(path)) == {"127.0.0.9": "52:54:00:12:34:56"}
        assert known.recv(1) == b""
