# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The endpoints of a move: what source and destination have of the VM."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import typing as t

from ..._errors import FleetVirtError, HostUnreachable, LibvirtFailure, PlanRefused
from ..._libvirt import DOMAIN_PAUSED, DOMAIN_SHUTOFF, ERR_NO_DOMAIN, ERR_OPERATION_INVALID
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base import effects_lookup as lookup
from ..base.effects_connection import Connection, connect
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import Metadata
from . import plan as migration_plan
from . import read_keys as migration_keys
from .types import RENEW, Destination

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_STOP_SECONDS = 300.0


@dataclass(frozen=True)
class SourceView:
    """What the source has of the VM."""

    dom: VirDomain
    active: bool
    paused: bool
    stored: Metadata | None


@dataclass(frozen=True)
class DestinationView:
    """What the destination has of the VM; ``error``: why that is unknown."""

    dom: VirDomain | None = None
    active: bool = False
    incoming: bool = False  # QEMU was started for it, but does not hold the VM yet, or any more
    paused: bool = False
    stored: Metadata | None = None
    error: str | None = None

    def require_dom(self) -> VirDomain:
        """The VM's domain; raises PlanRefused if the destination does not have it."""
        if self.dom is None:
            raise PlanRefused("the destination does not have the VM; run this again")
        return self.dom

    def arrived(self, uuid: str) -> bool:
        """Whether the VM has arrived: libvirt defines it once everything was transferred."""
        marked = self.stored is not None and self.stored.phase == "migrating"
        return self.is_of(uuid) and not self.incoming and marked

    def is_of(self, uuid: str) -> bool:
        """Whether the domain is the VM ``uuid`` and not another of the same name."""
        return self.dom is not None and str(self.dom.UUIDString()) == uuid


class Endpoints:
    """Source and destination of the move of the VM ``name``."""

    def __init__(
        self, connection: Connection, name: str, here: str, destination: Destination
    ) -> None:
        self.connection = connection
        self.name = name
        self.source = here
        self.where = destination.name
        self.address = destination.address
        self.uri = migration_plan.destination_uri(self.address)
        self._opened = contextlib.ExitStack()

    def close(self) -> None:
        """Close the connections that were reopened."""
        self._opened.close()

    def reconnect(self) -> None:
        """Reopen the connection to the source's libvirt if its daemon was restarted."""
        try:
            self.connection.call("ask libvirt", self.connection.conn.getLibVersion)
        except FleetVirtError:
            reopened = connect(self.connection.uri, self.connection.timeout)
            self.connection = self._opened.enter_context(reopened)

    @contextlib.contextmanager
    def remote(self) -> t.Iterator[Connection]:
        """Connect to the destination's libvirt; raises PlanRefused with what to check."""
        try:
            with connect(self.uri, self.connection.timeout) as remote:
                yield remote
        except HostUnreachable as error:
            expired = self._expired() if "ertificate" in error.reason else ""
            if expired:
                raise PlanRefused(
                    f"{self.where} cannot be reached from {self.source} over TLS: {expired};"
                    f" {RENEW}"
                ) from None
            raise PlanRefused(
                f"{self.where} cannot be reached from {self.source} over TLS: {error.reason}"
                f" ({self.uri}). Check that libvirt listens there, that both have keys of the same"
                " CA (ansible-playbook fleet.virt.setup_hypervisors), and that its certificate"
                f" names {self.address}"
            ) from None

    def _expired(self) -> str:
        """Describe an expired certificate of the source or destination; empty without one."""
        own = migration_keys.for_control()
        if own:
            return f"{', '.join(own)} on {self.source}"
        if migration_keys.of_other(self.address):
            return f"the certificate of libvirt on {self.where} has expired"
        return ""

    def numeric(self) -> str:
        """Resolve the destination's address on the source."""

        def resolve() -> str:
            try:
                addresses = socket.getaddrinfo(self.address, None, type=socket.SOCK_STREAM)
            except OSError as error:
                raise PlanRefused(
                    f"cannot resolve {self.address} of {self.where}: {error}"
                ) from None
            return str(addresses[0][4][0])

        address = deadline.call(
            resolve, seconds=self.connection.timeout, what=f"resolve {self.address}"
        )
        if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            raise PlanRefused(
                f"{self.address} of {self.where} resolves to {address} on {self.source}, which is"
                f" {self.source} itself; set virt_migration_address of {self.where}"
            )
        return address

    def source_view(self, uuid: str) -> SourceView | None:
        """Read what the source has of the VM; None if nothing."""
        call = self.connection.call
        try:
            dom = call(f"look for {self.name}", self.connection.conn.lookupByUUIDString, uuid)
            state = int(call("read the state", dom.state, 0)[0])
            active = bool(call("read the state", dom.isActive))
            return SourceView(
                dom, active, state == DOMAIN_PAUSED, read_metadata(self.connection, dom)
            )
        except LibvirtFailure as failure:
            if failure.code == ERR_NO_DOMAIN:
                return None
            raise

    @contextlib.contextmanager
    def reconnected(self) -> t.Iterator[tuple[Connection | None, DestinationView]]:
        """The destination over a new connection: the first may have failed with the move."""
        with contextlib.ExitStack() as stack:
            remote: Connection | None = None
            try:
                remote = stack.enter_context(connect(self.uri, self.connection.timeout))
                destination = self.destination_view(remote)
            except FleetVirtError as error:
                remote, destination = None, DestinationView(error=str(error))
            yield remote, destination

    def destination_view(self, remote: Connection) -> DestinationView:
        """Read what the destination has of the VM."""
        dom = find_domain(remote, self.name)
        if dom is None:
            return DestinationView()
        active = bool(remote.call("read the state", dom.isActive))
        state = int(remote.call("read the state", dom.state, 0)[0])
        # an incoming VM is active but not yet defined
        defined = bool(remote.call("read the state", dom.isPersistent))
        runs = active and defined and state != DOMAIN_SHUTOFF
        stored = read_metadata(remote, dom)
        return DestinationView(dom, runs, not defined, active and state == DOMAIN_PAUSED, stored)

    def undecided(self, source: SourceView | None, destination: DestinationView) -> str:
        """Describe what source and destination have."""

        def state(name: str, present: bool, active: bool) -> str:
            return f"{name}: {'running' if active else 'defined' if present else 'absent'}"

        other = state(self.where, destination.dom is not None, destination.active)
        if destination.error is not None:
            other = f"{self.where}: {destination.error}"
        return f"{state(self.source, source is not None, bool(source and source.active))}; {other}"

    def stop(self, connection: Connection, dom: VirDomain) -> None:
        """Destroy a VM that was started paused and never ran; it may be gone already."""
        try:
            connection.call(f"stop {self.name}", dom.destroy, seconds=_STOP_SECONDS)
        except LibvirtFailure as error:
            if error.code not in (ERR_OPERATION_INVALID, ERR_NO_DOMAIN):
                raise


def write_everywhere(connection: Connection, dom: VirDomain, stored: Metadata) -> None:
    """Write the metadata to the running VM, and last to its definition."""
    try:
        lookup.write_metadata(connection, dom, stored, lookup.AFFECT_LIVE)
    except LibvirtFailure as error:
        if error.code != ERR_OPERATION_INVALID:  # the guest is, or has just been, shut off
            raise
    lookup.write_metadata(connection, dom, stored, lookup.AFFECT_CONFIG)
