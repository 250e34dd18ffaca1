# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which addresses are on a link of this machine, where it can hear whether they answer: those that
the kernel reaches without a router, over a cable that is plugged in."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import typing as t
from pathlib import Path

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

_ROUTES4, _ROUTES6 = "/proc/net/route", "/proc/net/ipv6_route"
_INTERFACES = "/sys/class/net"
_UP, _GATEWAY, _REJECT = 0x1, 0x2, 0x200  # RTF_*
_NOARP, _ETHERNET = 0x80, 1  # IFF_NOARP, ARPHRD_ETHER
_DISCARD = 9


class Link(t.NamedTuple):
    """An interface, and this machine's address there."""

    interface: str
    own: Address


class _Route(t.NamedTuple):
    length: int  # of its prefix
    metric: int
    flags: int
    interface: str


def own_address(address: Address, interface: str = "") -> Address | None:
    """From where this machine would send to the address; None if there is no route to it."""
    scope = 0
    with contextlib.suppress(OSError):
        scope = socket.if_nametoindex(interface) if interface else 0
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        place = (str(address), _DISCARD)
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect(place if address.version == 4 else (*place, 0, scope))
            return ipaddress.ip_address(str(asked.getsockname()[0]).partition("%")[0])
    return None


def link_to(
    address: Address,
    interface: str = "",
    *,
    routes: tuple[str, str] = (_ROUTES4, _ROUTES6),
    interfaces: str = _INTERFACES,
) -> Link | None:
    """The link on which the address is, of ``interface`` if that is known; None if it is behind a
    router, if nothing leads there, and where no neighbour could be heard."""
    own = own_address(address, interface)
    if own is None or own == address:
        return None
    if not interface:
        read, path = (_routes4, routes[0]) if address.version == 4 else (_routes6, routes[1])
        known = read(path, address)
        best = max(known, key=lambda route: (route.length, -route.metric), default=None)
        if best is None or not best.length or best.flags & (_GATEWAY | _REJECT):
            return None
        interface = best.interface
    return Link(interface, own) if hears(interface, interfaces) else None


def _routes4(path: str, address: Address) -> t.Iterator[_Route]:
    for fields in _rows(path):
        with contextlib.suppress(IndexError, ValueError):
            flags = int(fields[3], 16)
            to, mask = (int.from_bytes(bytes.fromhex(fields[at]), "little") for at in (1, 7))
            if flags & _UP and int(address) & mask == to:
                yield _Route(bin(mask).count("1"), int(fields[6]), flags, fields[0])


def _routes6(path: str, address: Address) -> t.Iterator[_Route]:
    for fields in _rows(path):
        with contextlib.suppress(IndexError, ValueError):
            flags, length = int(fields[8], 16), int(fields[1], 16)
            shift = 128 - length
            if flags & _UP and int(address) >> shift == int(fields[0], 16) >> shift:
                yield _Route(length, int(fields[5], 16), flags, fields[9])


def _rows(path: str) -> list[list[str]]:
    with contextlib.suppress(OSError):
        lines = Path(path).read_text(encoding="ascii", errors="replace").splitlines()
        return [line.split() for line in lines]
    return []


def hears(interface: str, folder: str = _INTERFACES) -> bool:
    """Whether other machines are heard on the interface: Ethernet with a cable in it. A bridge that
    has only VMs is no way to other machines."""
    place = Path(folder) / interface
    if _number(place / "type") != _ETHERNET or _number(place / "carrier") != 1:
        return False
    if (_number(place / "flags") or 0) & _NOARP or (place / "tun_flags").exists():
        return False
    if (place / "brif").is_dir():
        return any(hears(port, folder) for port in os.listdir(place / "brif"))
    below = [name.partition("_")[2] for name in os.listdir(place) if name.startswith("lower_")]
    return not below or any(hears(name, folder) for name in below)


def _number(path: Path) -> int | None:
    """None of what is not there; the carrier of an interface that is down cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii").strip(), 0)
    return None
