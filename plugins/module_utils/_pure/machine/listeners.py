# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Listening TCP sockets (``/proc/net/tcp``), and those of libvirt or QEMU that should not be.

This file is private to the collection.
"""

from __future__ import annotations

import ipaddress
import typing as t
from dataclasses import dataclass

TLS_PORT = 16514
PLAIN_PORT = 16509
MIGRATION_PORTS = (49152, 49215)
_LISTEN = "0A"
_LIBVIRT = ("libvirtd", "virtproxyd", "virtqemud")
_NBD = ("qemu-nbd", "qemu-storage-da", "nbd-server", "nbdkit")
_QEMU = ("qemu-system-", "qemu-kvm", "kvm")


@dataclass(frozen=True)
class Listener:
    """A listening socket; ``process`` as the kernel names it (15 characters)."""

    address: str
    port: int
    process: str

    @property
    def loopback(self) -> bool:
        found = ipaddress.ip_address(self.address)
        mapped = getattr(found, "ipv4_mapped", None)
        return bool((mapped or found).is_loopback)

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.process or 'a process'} on {host}:{self.port}"


def parse(table: str) -> dict[int, tuple[str, int]]:
    """Address and port of each listening socket by its inode."""
    found = {}
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTEN:
            place, _colon, port = fields[1].partition(":")
            found[int(fields[9])] = (_address(place), int(port, 16))
    return found


def _address(digits: str) -> str:
    """The address; the kernel prints it as machine words, which are little endian here."""
    raw = b"".join(
        bytes.fromhex(digits[start : start + 8])[::-1] for start in range(0, len(digits), 8)
    )
    return str(ipaddress.ip_address(raw))


def plain(listeners: t.Sequence[Listener]) -> list[Listener]:
    """Sockets of libvirt without TLS: its plain port, and any other except the TLS port."""
    return [
        one
        for one in listeners
        if one.port == PLAIN_PORT
        or (one.process.startswith(_LIBVIRT) and one.port not in (TLS_PORT, PLAIN_PORT))
    ]


def exposed(listeners: t.Sequence[Listener]) -> list[Listener]:
    """Consoles and disks that other machines can reach, without ports of running migrations."""
    first, last = MIGRATION_PORTS
    return [
        one
        for one in listeners
        if not one.loopback
        and (
            one.process.startswith(_NBD)
            or (one.process.startswith(_QEMU) and not first <= one.port <= last)
        )
    ]
