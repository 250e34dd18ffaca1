# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Queries to many guest agents of one hypervisor, some of which may never respond.

libvirt's client loses wake-ups when several threads wait on one connection (seen with 9.0), so each
thread has its own. The hypervisor's first connection serves the first thread.
"""

from __future__ import annotations

import collections
import contextlib
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils import _libvirt
from ansible_collections.fleet.virt.plugins.module_utils._errors import LibvirtFailure
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_addresses as addresses,
)

_SECONDS = 8.0  # libvirt itself gives an agent 5 to start responding
_MOST_CONNECTIONS = 4
_GUESTS_EACH = 10
_MOST_HANGING = 8
_LONGEST_HOSTNAME = 255

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.module_utils._libvirt import VirConnect


class GuestInfo(t.NamedTuple):
    """What an agent reports: the guest's addresses by MAC address, and its host name."""

    addresses: dict[str, list[str]]
    hostname: str | None


def ask(connection: Connection, uuids: t.Sequence[str]) -> list[deadline.Outcome[GuestInfo]]:
    """The report of each domain's agent, in the order of ``uuids``.

    ``connection.hanging`` is increased if a call still hangs in it afterwards.
    """
    free: collections.deque[VirConnect] = collections.deque([connection.conn])
    opened: list[VirConnect] = []

    def one(uuid: str) -> GuestInfo:
        try:
            conn = free.pop()
        except IndexError:
            conn = connection.open_again()
            opened.append(conn)
        try:
            return _query(conn, uuid)
        finally:  # not reached by a call that hangs, nor is its connection used again
            free.append(conn)

    outcomes = deadline.each(
        one,
        uuids,
        seconds=min(_SECONDS, connection.timeout),
        what=lambda uuid: f"ask the guest agent of {uuid}",
        parallel=min(_MOST_CONNECTIONS, 1 + len(uuids) // _GUESTS_EACH),
        patience=_MOST_HANGING,
    )
    idle = list(free)
    if not any(conn is connection.conn for conn in idle):
        connection.hanging += 1
    for conn in opened:
        _leave(conn, any(conn is unused for unused in idle))
    return outcomes


def _leave(conn: VirConnect, idle: bool) -> None:
    """Close a connection; one in which a call hangs is abandoned, since closing would block."""
    if idle:
        outcome = deadline.each(
            lambda connection: connection.close(),
            [conn],
            seconds=2.0,
            what=lambda _connection: "close the connection",
        )[0]
        idle = isinstance(outcome, deadline.Ok)
    if not idle:
        conn._o = None


def _query(conn: VirConnect, uuid: str) -> GuestInfo:
    with _libvirt.calling("ask the guest agent"):
        domain = conn.lookupByUUIDString(uuid)
        by_mac = addresses.from_agent(domain)
        hostname = None
        with contextlib.suppress(LibvirtFailure), _libvirt.calling("host name"):
            hostname = str(domain.hostname(_libvirt.DOMAIN_GET_HOSTNAME_AGENT))
    usable = hostname and len(hostname) <= _LONGEST_HOSTNAME and hostname.isprintable()
    return GuestInfo(by_mac, hostname if usable else None)
