# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what a guest wrote on its console, which may be anything."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    serial_output as console,
)

MAC = "52:54:00:12:34:56"
OTHER = "52:54:00:ab:cd:ef"
# As cloud-init 22.4 writes it on a serial console
TABLE = f"""\
[   17.552] cloud-init[298]: Cloud-init v. 22.4.2 running 'init' at Fri, 21 Nov 2025 08:00:00 +0000.
[   17.571] ci[298]: ci-info: +++++++++++++++++++Net device info+++++++++++++++++++
[   17.573] ci[298]: ci-info: +--------+------+---------+------+-------+-------------------+
[   17.575] ci[298]: ci-info: | Device |  Up  | Address | Mask | Scope |     Hw-Address    |
[   17.577] ci[298]: ci-info: +--------+------+---------+------+-------+-------------------+
[   17.579] ci[298]: ci-info: |  eth0  | True | 192.0.2.5 | 255.255.255.0 | global | {MAC} |
[   17.581] ci[298]: ci-info: |  eth0  | True | 2001:db8::5/64 | . | global | {MAC} |
[   17.582] ci[298]: ci-info: |  eth0  | True | fe80::5054:ff:fe12:3456/64 | . | link | {MAC} |
[   17.583] ci[298]: ci-info: |   lo   | True | 127.0.0.1 | 255.0.0.0 | host | . |
[   17.585] ci[298]: ci-info: |   lo   | True | ::1/128 | . | host | . |
[   17.587] ci[298]: ci-info: | docker0 | True | 172.17.0.1 | 255.255.0.0 | global | {OTHER} |
[   17.589] ci[298]: ci-info: +--------+------+---------+------+-------+-------------------+
[   17.591] ci[298]: ci-info: +++++++++++++++++Route IPv4 info+++++++++++++++++
[   17.593] ci[298]: ci-info: | Route | Destination | Gateway | Genmask | Interface | Flags |
[   17.595] ci[298]: ci-info: |   0   |   0.0.0.0   | 192.0.2.1 | 0.0.0.0 |    eth0   |  UG |
"""
TITLE = "ci-info: ++++Net device info++++\n"


def row(address: str, device: str = "eth0", up: str = "True", mac: str = MAC) -> str:
    return f"ci-info: | {device} | {up} | {address} | 255.255.255.0 | global | {mac} |\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(TABLE, ["192.0.2.5", "2001:db8::5"], id="cloud-init 22.4"),
        pytest.param(TABLE.replace("\n", "\r\n"), ["192.0.2.5", "2001:db8::5"], id="serial line"),
        pytest.param(TITLE + row("192.0.2.5", mac=MAC.upper()), ["192.0.2.5"], id="capitals"),
        pytest.param(TABLE + TITLE + row("192.0.2.9"), ["192.0.2.9"], id="the last boot counts"),
        pytest.param(TABLE + TITLE, [], id="the last boot has none yet"),
        pytest.param(TITLE + row("192.0.2.5", up="False"), [], id="device is down"),
        pytest.param(TITLE + row("192.0.2.5", mac=OTHER), [], id="no NIC of the VM"),
        pytest.param(TITLE + row("192.0.2.5", mac="."), [], id="no MAC address"),
        pytest.param(TITLE + row("."), [], id="no address"),
        pytest.param(TITLE + row("192.0.2.5; reboot"), [], id="not an address"),
        pytest.param(TITLE + row("224.0.0.1"), [], id="multicast"),
        pytest.param(TITLE + row("::/0"), [], id="unspecified"),
        pytest.param("ci-info: | eth0 | True |", [], id="cut short"),
        pytest.param(f"echo '{row('192.0.2.5').strip()}'", [], id="typed, not written"),
        pytest.param("", [], id="empty"),
        pytest.param("\x00\xff\x1b[", [], id="noise"),
    ],
)
def test_addresses(text: str, expected: list[str]) -> None:
    assert console.addresses(text, [MAC]) == expected


def test_the_mac_address_may_be_in_another_row_of_the_device() -> None:
    text = TITLE + row("192.0.2.5") + row("2001:db8::5/64", mac=".")
    assert console.addresses(text, [MAC]) == ["192.0.2.5", "2001:db8::5"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("\x1b[0;32mgreen\x1b[0m \x1b[2J\x1b[Hplain", ["green plain"]),
        ("\x1b]0;title\x07text\x1b]2;other\x1b\\", ["text"]),
        ("\x1bctext \x1b(Bmore", ["text more"]),
        ("loading  10%\rloading 100%", ["loading 100%"]),
        ("a\tb\x00\x07\x08c", ["a    bc"]),
        ("right \u202eto left\u2028end\x85", ["right to leftend"]),
        ("\n\n \nlast\n\n", ["last"]),
        ("x" * 1000, ["x" * 300]),
        ("", []),
    ],
)
def test_end_is_plain_text(text: str, expected: list[str]) -> None:
    assert console.end(text, 30) == expected


def test_end_is_as_long_as_asked() -> None:
    assert console.end("\n".join("abcdef"), 2) == ["e", "f"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.0.2.5", "192.0.2.5"),
        ("192.0.2.5/24", "192.0.2.5"),
        ("2001:DB8::5/64", "2001:db8::5"),
        ("fe80::1", None),
        ("169.254.3.4", None),
        ("127.0.0.1", None),
        ("255.255.255.255", None),
        ("::", None),
        ("web1", None),
        ("", None),
    ],
)
def test_usable(text: str, expected: str | None) -> None:
    assert console.usable(text) == expected
