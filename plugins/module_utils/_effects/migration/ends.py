# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two ends of a move: what each of them has of the VM.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import typing as t
from dataclasses import dataclass

from ..._errors import FleetVirtError, HostUnreachable, LibvirtFailure, PlanRefused
from ..._libvirt import DOMAIN_PAUSED, DOMAIN_SHUTOFF, ERR_NO_DOMAIN, ERR_OPERATION_INVALID
from ..._pure.base.metadata import Metadata
from ..._pure.migration import command as migration_command
from ..._pure.migration.types import RENEW, Destination
from ..base import deadline, lookup
from ..base.connection import Connection, connect
from ..base.lookup import find_domain, read_metadata
from . import keys as migration_keys

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_STOP_SECONDS = 300.0


@dataclass(frozen=True)
class Here:
    """What this end has of the VM."""

    dom: VirDomain
    active: bool
    paused: bool
    stored: Metadata | None


@dataclass(frozen=True)
class There:
    """What the other end has of the VM; ``error``: it does not say."""

    dom: VirDomain | None = None
    active: bool = False
    coming: bool = False  # QEMU is there for it, but it is not yet, or no more, the VM
    paused: bool = False
    stored: Metadata | None = None
    error: str | None = None

    def require_dom(self) -> VirDomain:
        """libvirt's object of the VM, where the other end has it."""
        if self.dom is None:
            raise PlanRefused("the destination does not have the VM; run this again")
        return self.dom

    def arrived(self, uuid: str) -> bool:
        """Whether the VM is there: libvirt defines it there when everything has travelled."""
        marked = self.stored is not None and self.stored.phase == "migrating"
        return self.is_of(uuid) and not self.coming and marked

    def is_of(self, uuid: str) -> bool:
        """Whether what is there is the VM ``uuid``, and no other of its name."""
        return self.dom is not None and str(self.dom.UUIDString()) == uuid


class Ends:
    """Both ends of the move of the VM ``name``."""

    def __init__(
        self, connection: Connection, name: str, here: str, destination: Destination
    ) -> None:
        self.connection = connection
        self.name = name
        self.source = here
        self.where = destination.name
        self.address = destination.address
        self.uri = migration_command.destination_uri(self.address)
        self._opened = contextlib.ExitStack()

    def close(self) -> None:
        """Close what had to be opened anew."""
        self._opened.close()

    def reconnect(self) -> None:
        """Have a connection to libvirt here: its daemon may have gone down and come back."""
        try:
            self.connection.call("ask libvirt", self.connection.conn.getLibVersion)
        except FleetVirtError:
            again = connect(self.connection.uri, self.connection.timeout)
            self.connection = self._opened.enter_context(again)

    @contextlib.contextmanager
    def remote(self) -> t.Iterator[Connection]:
        """libvirt of the destination; raises PlanRefused, saying what to look at."""
        try:
            with connect(self.uri, self.connection.timeout) as remote:
                yield remote
        except HostUnreachable as error:
            expired = self._expired() if "ertificate" in error.reason else ""
            if expired:
                raise PlanRefused(
                    f"{self.where} cannot be reached from {self.source} with TLS: {expired};"
                    f" {RENEW}"
                ) from None
            raise PlanRefused(
                f"{self.where} cannot be reached from {self.source} with TLS: {error.reason}"
                f" ({self.uri}). See that libvirt listens there, that both have keys of one CA"
                " (fleet.virt.setup_hypervisors), and that its certificate names"
                f" {self.address}"
            ) from None

    def _expired(self) -> str:
        """The certificate that has expired, of this end or of the other."""
        own = migration_keys.for_control()
        if own:
            return f"{', '.join(own)} on {self.source}"
        if migration_keys.of_other(self.address):
            return f"the certificate of libvirt on {self.where} has expired"
        return ""

    def numeric(self) -> str:
        """The address of the destination as this host has it."""

        def resolve() -> str:
            try:
                found = socket.getaddrinfo(self.address, None, type=socket.SOCK_STREAM)
            except OSError as error:
                raise PlanRefused(f"{self.address} of {self.where}: {error}") from None
            return str(found[0][4][0])

        address = deadline.call(
            resolve, seconds=self.connection.timeout, what=f"resolve {self.address}"
        )
        if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            raise PlanRefused(
                f"{self.address} of {self.where} is {address} for {self.source}, which is"
                f" {self.source} itself; set virt_migration_address of {self.where}"
            )
        return address

    def here(self, uuid: str) -> Here | None:
        """This end."""
        call = self.connection.call
        try:
            dom = call(f"look for {self.name}", self.connection.conn.lookupByUUIDString, uuid)
            state = int(call("read the state", dom.state, 0)[0])
            active = bool(call("read the state", dom.isActive))
            return Here(dom, active, state == DOMAIN_PAUSED, read_metadata(self.connection, dom))
        except LibvirtFailure as failure:
            if failure.code == ERR_NO_DOMAIN:
                return None
            raise

    @contextlib.contextmanager
    def again(self) -> t.Iterator[tuple[Connection | None, There]]:
        """The other end, by a connection of its own: the first may have gone down with the move."""
        with contextlib.ExitStack() as stack:
            remote: Connection | None = None
            try:
                remote = stack.enter_context(connect(self.uri, self.connection.timeout))
                there = self.there(remote)
            except FleetVirtError as error:
                remote, there = None, There(error=str(error))
            yield remote, there

    def there(self, remote: Connection) -> There:
        """The other end."""
        dom = find_domain(remote, self.name)
        if dom is None:
            return There()
        active = bool(remote.call("read the state", dom.isActive))
        state = int(remote.call("read the state", dom.state, 0)[0])
        # one that is coming in is active, but no definition yet
        defined = bool(remote.call("read the state", dom.isPersistent))
        runs = active and defined and state != DOMAIN_SHUTOFF
        stored = read_metadata(remote, dom)
        return There(dom, runs, not defined, active and state == DOMAIN_PAUSED, stored)

    def undecided(self, here: Here | None, there: There) -> str:
        """In words, what both ends have."""

        def told(name: str, present: bool, active: bool) -> str:
            return f"{name}: {'runs' if active else 'defined' if present else 'not there'}"

        other = told(self.where, there.dom is not None, there.active)
        if there.error is not None:
            other = f"{self.where}: {there.error}"
        return f"{told(self.source, here is not None, bool(here and here.active))}; {other}"

    def stop(self, connection: Connection, dom: VirDomain) -> None:
        """End a VM that was started paused and never ran; one that has just gone has ended."""
        try:
            connection.call(f"stop {self.name}", dom.destroy, seconds=_STOP_SECONDS)
        except LibvirtFailure as error:
            if error.code not in (ERR_OPERATION_INVALID, ERR_NO_DOMAIN):
                raise


def write_everywhere(connection: Connection, dom: VirDomain, stored: Metadata) -> None:
    """The same, in the running VM too, and in its definition last."""
    try:
        lookup.write_metadata(connection, dom, stored, lookup.AFFECT_LIVE)
    except LibvirtFailure as error:
        if error.code != ERR_OPERATION_INVALID:  # a guest that is, or has just, shut off
            raise
    lookup.write_metadata(connection, dom, stored, lookup.AFFECT_CONFIG)
