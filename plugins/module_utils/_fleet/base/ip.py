# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""IP addresses as people and guests write them: the only place that parses either.

Python accepts anything after the ``%`` of an IPv6 address as the name of a zone, even line breaks,
and such an address would end up in files and command lines unchanged. A zone is an interface of one
machine and means nothing to another, so an address with a zone is refused.

The inventory sends this file to hypervisors, so it imports nothing of ours.
"""

from __future__ import annotations

import ipaddress
import typing as t

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Interface = t.Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]
Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")


def address(text: str) -> Address:
    """The address. Raises ValueError."""
    return ipaddress.ip_address(_without_zone(text))


def interface(text: str) -> Interface:
    """The address with its prefix length, a host's without one. Raises ValueError."""
    return ipaddress.ip_interface(_without_zone(text))


def network(text: str, *, strict: bool = True) -> Network:
    """The network; ``strict``: no host bits may be set. Raises ValueError."""
    return ipaddress.ip_network(_without_zone(text), strict=strict)


def _without_zone(text: str) -> str:
    if not isinstance(text, str):  # numbers are addresses to ipaddress
        raise ValueError(f"{text!r} is not text")
    if "%" in text:
        raise ValueError("an address with a zone (%) means nothing to another machine")
    return text


def usable(text: object) -> str | None:
    """An address without prefix length, in canonical form; None unless a guest can have it.

    This checks what guest agents, leases, neighbour tables, consoles and metadata report. All of it
    may come from a guest, and becomes an argument of ssh: only an address passes, and none that
    refers to the local machine, to many machines or to no machine. IPv4 in IPv6
    (``::ffff:127.0.0.1``, ``2002:7f00:1::``) is checked as the IPv4 address that it leads to.
    """
    try:
        address = interface(str(text)).ip
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is not None:
            return usable(str(inner))
        inside = address.sixtofour or (address.teredo or (None, None))[1]
        if inside is not None and usable(str(inside)) is None:
            return None
    elif address in _THIS_NETWORK:
        return None
    if (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved  # with the broadcast address, and old forms of IPv4 in IPv6
    ):
        return None
    return str(address)
