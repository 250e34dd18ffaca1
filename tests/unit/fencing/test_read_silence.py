# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signs of life, from real sockets of this machine, and frames as the kernel delivers them."""

from __future__ import annotations

import ipaddress
import socket
import struct
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import (
    heard,
    read_links,
    read_silence,
)

_ADDRESS = ipaddress.IPv4Address("192.0.2.7")


def test_open_port_is_sign_of_life() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        sign = read_silence.sign_of_life(["127.0.0.1"], [port])
    assert sign is not None
    assert sign.startswith("answers on port ")
    assert "(127.0.0.1)" in sign


def test_refused_connection_is_sign_of_life() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        place = ("127.0.0.1", port)
        assert read_silence._answers_tcp(place) == f"refuses connections on port {port} (127.0.0.1)"


def test_name_that_cannot_be_resolved_is_silent() -> None:
    assert read_silence.sign_of_life(["no-such-host.invalid"]) is None


def test_address_without_route_is_inaudible() -> None:
    listened = read_silence.listen(["no-such-host.invalid", "240.0.0.1", "127.0.0.1"])
    assert listened.audible == ()


def test_routed_address_is_audible_once_it_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_links, "own_address", lambda *_a: ipaddress.IPv4Address("192.0.2.1"))
    monkeypatch.setattr(read_links, "link_to", lambda *_a: None)
    assert read_silence._neighbour("198.51.100.7", []) == (None, False)
    known = [heard.volume(ipaddress.IPv4Address("198.51.100.7"))]
    assert read_silence._neighbour("198.51.100.7", known) == (None, True)
    assert read_silence._neighbour("198.51.100.8", known) == (None, False)
    monkeypatch.setattr(read_links, "own_address", lambda *_a: None)  # the route is gone
    assert read_silence._neighbour("198.51.100.7", known) == (None, False)


_ROUTES4 = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
br0 00000000 010200C0 0003 0 0 0 00000000 0 0 0
br0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0
br0 800200C0 010200C0 0003 0 0 0 80FFFFFF 0 0 0
"""
_ROUTES6 = (
    "20010db8000000000000000000000000 40 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000100 00000001 00000000 00000001      br0\n"
    "20010db8000100000000000000000000 40 00000000000000000000000000000000 00 "
    "20010db8000000000000000000000001 00000400 00000001 00000000 00000003      br0\n"
)


@pytest.mark.parametrize(
    ("address", "on_link"),
    [
        ("192.0.2.7", True),
        ("192.0.2.200", False),  # a longer prefix leads to a router
        ("198.51.100.7", False),  # the default route
        ("2001:db8::7", True),
        ("2001:db8:1::7", False),
        ("2001:db8:2::7", False),
    ],
)
def test_address_without_router_is_on_link(
    address: str, on_link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = (tmp_path / "route", tmp_path / "ipv6_route")
    routes[0].write_text(_ROUTES4)
    routes[1].write_text(_ROUTES6)
    _interface(tmp_path / "net" / "br0")
    monkeypatch.setattr(read_links, "own_address", lambda *_a: ipaddress.ip_address("192.0.2.1"))
    link = read_links.link_to(
        ipaddress.ip_address(address),
        routes=(str(routes[0]), str(routes[1])),
        interfaces=str(tmp_path / "net"),
    )
    assert (link is not None) is on_link


def _interface(place: Path, *ports: str, carrier: str = "1", flags: str = "0x1003") -> Path:
    place.mkdir(parents=True)
    for name, text in (("type", "1"), ("carrier", carrier), ("flags", flags)):
        (place / name).write_text(f"{text}\n")
    for port in ports:
        (place / "brif" / port).mkdir(parents=True)
    return place


def test_only_interface_with_cable_reaches_others(tmp_path: Path) -> None:
    folder = str(tmp_path)
    _interface(tmp_path / "eth0")
    _interface(tmp_path / "eth1", carrier="0")
    _interface(tmp_path / "wg0", flags="0x91")
    tap = _interface(tmp_path / "vnet0")
    (tap / "tun_flags").write_text("0x1002\n")
    _interface(tmp_path / "br0", "eth0", "vnet0")
    _interface(tmp_path / "br1", "eth1", "vnet0")
    _interface(tmp_path / "virbr0", "vnet0")
    vlan = _interface(tmp_path / "br1.7")
    (vlan / "lower_br1").mkdir()
    found = {path.name for path in tmp_path.iterdir() if read_links.hears(path.name, folder)}
    assert found == {"eth0", "br0"}
    assert not read_links.hears("missing", folder)


def _advertisement(target: str, kind: int = 136) -> bytes:
    own = ipaddress.IPv6Address("2001:db8::1").packed
    packed = ipaddress.IPv6Address(target).packed
    header = struct.pack("!IHBB", 6 << 28, 32, 58, 255) + packed + own
    body = struct.pack("!BBHI", kind, 0, 0, 0x60000000) + packed + b"\2\1" + bytes(6)
    return bytes(12) + b"\x86\xdd" + header + body


def test_neighbour_advertisement_of_address_is_recognised() -> None:
    address = ipaddress.IPv6Address("2001:db8::7")
    assert read_silence.is_reply(_advertisement("2001:db8::7"), address)
    assert not read_silence.is_reply(_advertisement("2001:db8::8"), address)
    assert not read_silence.is_reply(_advertisement("2001:db8::7", 135), address)
    assert not read_silence.is_reply(b"", address)


def test_solicitation_is_valid() -> None:
    own, target = (ipaddress.IPv6Address(f"2001:db8::{n}").packed for n in (1, 7))
    frame = read_silence.solicitation(b"\x52\x54\0\0\0\1", own, target)
    assert frame[:6] == bytes.fromhex("3333ff000007")
    packet = frame[14:]
    assert (packet[6], packet[7], packet[24:40][-3:]) == (58, 255, target[-3:])
    pseudo = packet[8:40] + struct.pack("!II", 32, 58)
    assert read_silence._checksum(pseudo + packet[40:]) == 0, "the sum of a valid packet"


def _frame(operation: int, sender: str) -> bytes:
    mac = b"\x52\x54\0\x12\x34\x56"
    addresses = [ipaddress.IPv4Address(text).packed for text in (sender, "192.0.2.1")]
    body = read_silence._ARP.pack(1, 0x0800, 6, 4, operation, mac, addresses[0], mac, addresses[1])
    return read_silence._HEADER.pack(mac, mac, 0x0806) + body + bytes(18)


def test_arp_reply_of_address_is_recognised() -> None:
    assert read_silence.is_reply(_frame(2, "192.0.2.7"), _ADDRESS)


def test_other_arp_frame_is_ignored() -> None:
    assert not read_silence.is_reply(_frame(2, "192.0.2.8"), _ADDRESS)
    assert not read_silence.is_reply(_frame(1, "192.0.2.7"), _ADDRESS)
    assert not read_silence.is_reply(_frame(2, "192.0.2.7")[:30], _ADDRESS)
    assert not read_silence.is_reply(b"", _ADDRESS)
