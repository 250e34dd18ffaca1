# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a host gives any sign of life: SSH, libvirt, and ARP on a network in common.

A machine whose programs hang still answers ARP, since its kernel does that. The kernel's own table
of neighbours is of no use here: it remembers one that vanished for up to a minute.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ..._errors import DeadlineExceeded
from ..base import effects_deadline as deadline
from ..base import read_ports as ports
from ..hosts import read_neighbours as neighbours

_ETHERTYPE_ARP = 0x0806
_IPV4 = 0x0800
_REQUEST, _REPLY = 1, 2
_CONNECT_SECONDS = 3.0
_AT_ONCE = 16
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_HEADER = struct.Struct("!6s6sH")
_TRIES, _PAUSE = 3, 0.7
_RESOLVE_SECONDS = 10.0
_BROADCAST = b"\xff" * 6


def sign_of_life(addresses: t.Sequence[str], more: t.Sequence[int] = ()) -> str | None:
    """How a host answers, for people (``answers on port 22``); None if it is silent.

    An address that cannot be resolved cannot be asked. What needs root is left out without it.
    """
    asked = list(dict.fromkeys(addresses))
    places = [(address, port) for address in asked for port in dict.fromkeys((*ports.PORTS, *more))]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        by_arp = pool.submit(_answers_arp, asked)
        signs = [*pool.map(_answers_tcp, places), by_arp.result()]
    # one that accepts a connection tells more than one that refuses it
    return min(filter(None, signs), key=lambda sign: "refuses" in sign, default=None)


def _answers_tcp(place: tuple[str, int]) -> str | None:
    """A host that refuses a connection is up as well: a machine without power says nothing."""
    address, port = place
    try:
        socket.create_connection(place, timeout=_CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return f"refuses connections on port {port} ({address})"
    except (OSError, UnicodeError):
        return None
    return f"answers on port {port} ({address})"


def _answers_arp(addresses: t.Sequence[str]) -> str | None:
    own = neighbours.own_addresses()
    for address in addresses:
        for resolved in _resolved(address):
            if str(resolved) in own:
                continue  # a name that means this machine says nothing of another
            interface = _interface_to(resolved)
            if interface is not None and _asked(interface, resolved):
                return f"answers ARP requests for {resolved}"
    return None


def _resolved(address: str) -> list[ipaddress.IPv4Address]:
    def look_up() -> list[ipaddress.IPv4Address]:
        with contextlib.suppress(OSError, UnicodeError):
            known = socket.getaddrinfo(address, None, socket.AF_INET, socket.SOCK_STREAM)
            return list(dict.fromkeys(ipaddress.IPv4Address(entry[4][0]) for entry in known))
        return []

    with contextlib.suppress(DeadlineExceeded):
        return deadline.call(look_up, seconds=_RESOLVE_SECONDS, what=f"resolve {address}")
    return []


def _interface_to(
    address: ipaddress.IPv4Address,
) -> tuple[str, ipaddress.IPv4Address] | None:
    """The interface on whose network the address is, and this machine's address there."""
    for _number, name in socket.if_nameindex():
        own = neighbours.network_of(name)
        if own is not None and address in own.network:
            return name, own.ip
    return None


def _asked(interface: tuple[str, ipaddress.IPv4Address], address: ipaddress.IPv4Address) -> bool:
    """Whether somebody answers for the address; False where raw packets are not permitted."""
    name, own = interface
    with contextlib.suppress(OSError):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE_ARP))
        with raw:
            raw.bind((name, _ETHERTYPE_ARP))
            mac = raw.getsockname()[4]
            if len(mac) != 6 or not any(mac):
                return False  # no Ethernet, or this machine itself
            request = _HEADER.pack(_BROADCAST, mac, _ETHERTYPE_ARP) + _ARP.pack(
                1, _IPV4, 6, 4, _REQUEST, mac, own.packed, b"\0" * 6, address.packed
            )
            for _try in range(_TRIES):
                raw.send(request)
                if _reply_arrives(raw, address):
                    return True
    return False


def _reply_arrives(raw: socket.socket, address: ipaddress.IPv4Address) -> bool:
    end = time.monotonic() + _PAUSE
    while (left := end - time.monotonic()) > 0:
        raw.settimeout(left)
        try:
            frame = raw.recv(128)
        except socket.timeout:  # in Python 3.9 no TimeoutError
            return False
        if is_reply(frame, address):
            return True
    return False


def is_reply(frame: bytes, address: ipaddress.IPv4Address) -> bool:
    """Whether the frame says which hardware has the address."""
    body = frame[_HEADER.size : _HEADER.size + _ARP.size]
    if len(body) < _ARP.size:
        return False
    fields = _ARP.unpack(body)
    protocol, operation, sender = fields[1], fields[4], fields[6]
    return (protocol, operation, sender) == (_IPV4, _REPLY, address.packed)
