# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a host gives any sign of life: SSH, libvirt, and ARP or IPv6's neighbour discovery on a
network in common; and whether this machine could have heard one.

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
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base import read_ports as ports
from ..hosts import read_neighbours as neighbours
from . import heard
from . import read_links as links

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
_ETHERTYPE_IPV6, _ICMPV6 = 0x86DD, 58
_SOLICITATION, _ADVERTISEMENT = 135, 136
_SOLICITED = bytes.fromhex("ff0200000000000000000001ff")


@dataclass(frozen=True)
class Heard:
    """``signs``: how addresses answer, for people (``answers on port 22``). ``audible`` are those
    of which silence means something here: they are on a link of this machine and were asked there,
    or are behind a router and have answered this machine before."""

    signs: t.Mapping[str, str]
    audible: tuple[str, ...]

    @property
    def sign(self) -> str | None:
        """How the host answers; None if it is silent."""
        # one that accepts a connection tells more than one that refuses it
        return min(self.signs.values(), key=lambda sign: "refuses" in sign, default=None)


def sign_of_life(addresses: t.Sequence[str], more: t.Sequence[int] = ()) -> str | None:
    """How a host answers, for people; None if it is silent, or nobody here could hear it."""
    return listen(addresses, more).sign


def listen(
    addresses: t.Sequence[str], more: t.Sequence[int] = (), known: t.Collection[str] = ()
) -> Heard:
    """Ask a host at all of its addresses. ``known`` are the volumes that say which addresses have
    answered before.

    An address that cannot be resolved, or to which nothing leads, cannot be asked.
    """
    asked = list(dict.fromkeys(addresses))
    places = [(address, port) for address in asked for port in dict.fromkeys((*ports.PORTS, *more))]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        neighbours_asked = [pool.submit(_neighbour, address, known) for address in asked]
        signs: dict[str, str] = {}
        for (address, _port), sign in zip(places, pool.map(_answers_tcp, places)):
            if sign and (address not in signs or "refuses" in signs[address]):
                signs[address] = sign
        audible = []
        for address, future in zip(asked, neighbours_asked):
            sign, is_audible = future.result()
            if sign:
                signs.setdefault(address, sign)
            if is_audible:
                audible.append(address)
    return Heard(signs, tuple(audible))


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


def _neighbour(address: str, known: t.Collection[str]) -> tuple[str | None, bool]:
    """How the address answers its neighbours, and whether its silence means something here."""
    own = neighbours.own_addresses()
    audible = False
    for found, interface in resolved(address):
        if str(found) in own:
            continue  # a name that means this machine says nothing of another
        link = links.link_to(found, interface)
        answered = None if link is None else _asked(link, found)
        if answered:
            how = "ARP requests" if found.version == 4 else "neighbour solicitations"
            return f"answers {how} for {found}", True
        if answered is not None:
            audible = True
        elif link is None and links.own_address(found) is not None:
            audible = audible or heard.is_known(found, known)
    return None, audible


def resolved(address: str) -> list[tuple[links.Address, str]]:
    """The addresses of a name, each with its interface if it is of a link (``fe80::1%eth0``)."""

    def look_up() -> list[tuple[links.Address, str]]:
        found: dict[tuple[links.Address, str], None] = {}
        with contextlib.suppress(OSError, UnicodeError, ValueError):
            for entry in socket.getaddrinfo(address, None, 0, socket.SOCK_STREAM):
                place = entry[4]
                scope = int(place[3]) if len(place) > 3 else 0
                interface = socket.if_indextoname(scope) if scope else ""
                plain = ipaddress.ip_address(str(place[0]).partition("%")[0])
                found[plain, interface] = None
        return list(found)

    with contextlib.suppress(DeadlineExceeded):
        return deadline.call(look_up, seconds=_RESOLVE_SECONDS, what=f"resolve {address}")
    return []


def _asked(link: links.Link, address: links.Address) -> bool | None:
    """Whether somebody answers for the address; None where it cannot be asked, as raw packets are
    not permitted."""
    ethertype = _ETHERTYPE_ARP if address.version == 4 else _ETHERTYPE_IPV6
    with contextlib.suppress(OSError):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ethertype))
        with raw:
            raw.bind((link.interface, ethertype))
            mac = raw.getsockname()[4]
            if len(mac) != 6 or not any(mac):
                return None  # no Ethernet, or this machine itself
            request = (
                _HEADER.pack(_BROADCAST, mac, _ETHERTYPE_ARP)
                + _ARP.pack(
                    1, _IPV4, 6, 4, _REQUEST, mac, link.own.packed, b"\0" * 6, address.packed
                )
                if address.version == 4
                else solicitation(mac, link.own.packed, address.packed)
            )
            for _try in range(_TRIES):
                raw.send(request)
                if _reply_arrives(raw, address):
                    return True
            return False
    return None


def solicitation(mac: bytes, own: bytes, target: bytes) -> bytes:
    """The frame that asks which hardware has an IPv6 address (RFC 4861)."""
    group = _SOLICITED + target[-3:]
    body = struct.pack("!BBHI", _SOLICITATION, 0, 0, 0) + target + b"\1\1" + mac
    pseudo = own + group + struct.pack("!II", len(body), _ICMPV6)
    body = body[:2] + struct.pack("!H", _checksum(pseudo + body)) + body[4:]
    header = struct.pack("!IHBB", 6 << 28, len(body), _ICMPV6, 255) + own + group
    return _HEADER.pack(b"\x33\x33" + group[-4:], mac, _ETHERTYPE_IPV6) + header + body


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _reply_arrives(raw: socket.socket, address: links.Address) -> bool:
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


def is_reply(frame: bytes, address: links.Address) -> bool:
    """Whether the frame says which hardware has the address."""
    if address.version == 6:
        packet = frame[_HEADER.size :]
        return (
            frame[12:14] == b"\x86\xdd"
            and packet[6:7] == bytes([_ICMPV6])
            and packet[40:41] == bytes([_ADVERTISEMENT])
            and packet[48:64] == address.packed
        )
    body = frame[_HEADER.size : _HEADER.size + _ARP.size]
    if len(body) < _ARP.size:
        return False
    fields = _ARP.unpack(body)
    protocol, operation, sender = fields[1], fields[4], fields[6]
    return (protocol, operation, sender) == (_IPV4, _REPLY, address.packed)
