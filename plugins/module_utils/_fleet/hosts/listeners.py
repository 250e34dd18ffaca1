# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TCP sockets (``/proc/net/tcp``), and listening ones of libvirt or QEMU that should not be."""

from __future__ import annotations

import ipaddress
import typing as t

from ..._records import dataclass

TLS_PORT = 16514
PLAIN_PORT = 16509
MIGRATION_PORTS = (49152, 49215)
_ESTABLISHED, _LISTEN = 1, 10  # TCP_ESTABLISHED, TCP_LISTEN of the kernel's net/tcp_states.h
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
        address = ipaddress.ip_address(self.address)
        mapped = getattr(address, "ipv4_mapped", None)
        return bool((mapped or address).is_loopback)

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.process or 'a process'} on {host}:{self.port}"


Address = tuple[str, int]  # an IP address and a port


@dataclass(frozen=True)
class TcpSocket:
    """A row of the kernel's table: its own and the other end's address, TCP state, user, inode.

    Once its program has closed a socket, the kernel lists it with the inode 0 and as root's while
    the connection ends: ``uid`` says nothing then.
    """

    local: Address
    peer: Address
    state: int
    uid: int
    inode: int


def sockets(table: str, byteorder: str = "little") -> t.Iterator[TcpSocket]:
    """Every row of ``/proc/net/tcp`` or ``tcp6``; ``byteorder`` is that of the machine."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9:
            local, peer = (_address(field, byteorder) for field in fields[1:3])
            yield TcpSocket(local, peer, int(fields[3], 16), int(fields[7]), int(fields[9]))


def listening(rows: t.Iterable[TcpSocket]) -> dict[int, Address]:
    """Address and port of each listening socket by its inode."""
    return {row.inode: row.local for row in rows if row.state == _LISTEN}


def peer_uid(rows: t.Iterable[TcpSocket], peer: Address, local: Address) -> int | None:
    """The user whose program is the other end of a connection within this machine.

    ``peer`` and ``local`` are the addresses of the accepted socket. None for a connection that is
    not, or no longer, established, of which no user is known.
    """
    for row in rows:
        if (row.local, row.peer) == (peer, local):
            return row.uid if row.state == _ESTABLISHED and row.inode else None
    return None


def _address(field: str, byteorder: str) -> Address:
    """The address; the kernel prints it as words of four bytes."""
    digits, _colon, port = field.partition(":")
    words = [bytes.fromhex(digits[start : start + 8]) for start in range(0, len(digits), 8)]
    if byteorder == "little":
        words = [word[::-1] for word in words]
    return str(ipaddress.ip_address(b"".join(words))), int(port, 16)


def plain(listeners: t.Sequence[Listener]) -> list[Listener]:
    """Sockets of libvirt without TLS: its plain port, and any other except the TLS port."""
    return [
        listener
        for listener in listeners
        if listener.port == PLAIN_PORT
        or (listener.process.startswith(_LIBVIRT) and listener.port not in (TLS_PORT, PLAIN_PORT))
    ]


def exposed(listeners: t.Sequence[Listener]) -> list[Listener]:
    """Consoles and disks that other machines can reach, without ports of running migrations."""
    first, last = MIGRATION_PORTS
    return [
        listener
        for listener in listeners
        if not listener.loopback
        and (
            listener.process.startswith(_NBD)
            or (listener.process.startswith(_QEMU) and not first <= listener.port <= last)
        )
    ]
