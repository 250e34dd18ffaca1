# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signs of life, from real sockets of this machine, and frames as the kernel delivers them."""

from __future__ import annotations

import ipaddress
import socket

from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import read_silence

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
