# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which MAC address has which IP address on this machine's networks: the kernel's ARP table.

Only IPv4: the kernel has no file with a table of IPv6 neighbours.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import socket
import struct
import time
from pathlib import Path

_TABLE = "/proc/net/arp"
_ROUTES = "/proc/net/fib_trie"
_ADDRESSES6 = "/proc/net/if_inet6"
_PAUSE = 0.05
_COMPLETE = 0x2  # ATF_COM: the hardware address is known
_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B
_FDB_ENTRY = 16  # struct __fdb_entry of linux/if_bridge.h, which begins with the MAC address
_MOST_FDB = 1 << 20
_SMALLEST_PREFIX = 24
_DISCARD = 9  # the port of the service that discards what it receives


def table(path: str = _TABLE) -> dict[str, str]:
    """MAC address by IPv4 address, of all neighbours that are currently known."""
    macs: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path(path).read_text(encoding="ascii", errors="replace").splitlines()[1:]:
            fields = line.split()
            with contextlib.suppress(IndexError, ValueError):
                if int(fields[2], 16) & _COMPLETE:
                    macs[fields[0]] = fields[3].lower()
    return macs


def bridge_of(interface: str) -> str | None:
    """The bridge to which a VM's interface on this machine (``vnet0``) belongs."""
    if not interface or "/" in interface or interface.startswith("."):
        return None
    try:
        return os.path.basename(os.readlink(f"/sys/class/net/{interface}/master"))
    except OSError:
        return None


def has_spoken(bridge: str, mac: str) -> bool:
    """Whether the bridge has seen ``mac``; True where its forwarding table cannot be read."""
    try:
        with open(f"/sys/class/net/{bridge}/brforward", "rb") as file:
            content = file.read(_MOST_FDB)
    except OSError:
        return True
    wanted = bytes.fromhex(mac.replace(":", ""))
    return any(content[start : start + 6] == wanted for start in range(0, len(content), _FDB_ENTRY))


def network_of(interface: str) -> ipaddress.IPv4Interface | None:
    """The interface's first IPv4 address with its network; None without one."""
    request = struct.pack("256s", interface.encode()[:15])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inet:
            address = fcntl.ioctl(inet, _SIOCGIFADDR, request)[20:24]
            mask = fcntl.ioctl(inet, _SIOCGIFNETMASK, request)[20:24]
        return ipaddress.IPv4Interface(f"{socket.inet_ntoa(address)}/{socket.inet_ntoa(mask)}")
    except (OSError, ValueError):
        return None


def trigger_arp(bridge: str) -> bool:
    """Have the kernel resolve all addresses of a bridge's network; :func:`table` then has replies.

    Sends an empty datagram to each unknown address, 253 at most. Returns False, with nothing sent,
    if the network is larger, or if this machine has no IPv4 address on it.
    """
    own = network_of(bridge)
    if own is None or own.network.prefixlen < _SMALLEST_PREFIX:
        return False
    known = table()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for address in own.network.hosts():
            if address != own.ip and str(address) not in known:
                with contextlib.suppress(OSError):
                    sender.sendto(b"", (str(address), _DISCARD))
    return True


def own_addresses(ipv4: str = _ROUTES, ipv6: str = _ADDRESSES6) -> list[str]:
    """Every address of this machine, on any interface."""
    addresses: dict[str, None] = {}
    last = ""
    with contextlib.suppress(OSError):
        for line in Path(ipv4).read_text(encoding="ascii", errors="replace").splitlines():
            words = line.split()
            if words[:1] == ["|--"]:
                last = words[-1]
            elif words[1:] == ["host", "LOCAL"]:
                addresses[last] = None
    with contextlib.suppress(OSError):
        for line in Path(ipv6).read_text(encoding="ascii", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                addresses[str(ipaddress.IPv6Address(bytes.fromhex(line.split(" ")[0])))] = None
    return list(addresses)


def ask_for(addresses: list[str], patience: float, path: str = _TABLE) -> dict[str, str]:
    """MAC addresses of those of ``addresses`` that are on networks of this machine.

    An empty datagram to each makes the kernel resolve it; replies are awaited for ``patience``
    seconds. The kernel refreshes existing entries in its own time: a wrong one is right at the next
    call.
    """
    wanted = {address for address in addresses if ":" not in address}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for address in wanted:
            with contextlib.suppress(OSError):
                sender.sendto(b"", (address, _DISCARD))
    end = time.monotonic() + patience
    while wanted & _unanswered(path) and time.monotonic() < end:
        time.sleep(_PAUSE)
    return {address: owner for address, owner in table(path).items() if address in wanted}


def _unanswered(path: str) -> set[str]:
    """Addresses that the kernel tries to resolve, without a reply yet."""
    try:
        lines = Path(path).read_text(encoding="ascii", errors="replace").splitlines()[1:]
    except OSError:
        return set()
    return {line.split()[0] for line in lines if line.strip()} - set(table(path))
