# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Types that the parts of the bridge plan share."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field

if t.TYPE_CHECKING:
    from ..base.json_values import Json


BACKENDS = {
    "ifupdown": "ifupdown (/etc/network/interfaces)",
    "networkd": "systemd-networkd",
    "networkmanager": "NetworkManager",
    "netplan": "netplan",
}


class BridgeEntry(t.TypedDict):
    """A bridge in the result."""

    name: str
    uplink: str | None
    changed: bool
    backend: str | None
    mac: str | None
    addresses: list[str]


@dataclass(frozen=True)
class RequestedBridge:
    """A requested bridge; unless ``explicit``, it takes over the uplink's configuration."""

    name: str
    uplink: str = "auto"  # or "none", or an interface
    stp: bool = False
    dhcp: bool = False
    addresses: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    nameservers: tuple[str, ...] = ()

    @property
    def explicit(self) -> bool:
        """Whether the bridge gets addresses of its own in place of the uplink's."""
        return self.dhcp or bool(self.addresses)


@dataclass(frozen=True)
class Address:
    """An address of an interface, with its prefix length."""

    text: str
    dynamic: bool = False  # from DHCP or a router: has a lifetime

    @property
    def ipv6(self) -> bool:
        return ":" in self.text


@dataclass(frozen=True)
class Link:
    """A network interface as the kernel has it."""

    name: str
    mac: str = ""
    kind: str = ""  # bridge, bond, vlan ...; empty for hardware
    master: str = ""
    lower: str = ""  # the interface it is on top of
    ethernet: bool = True
    wireless: bool = False
    stp: bool = False
    addresses: tuple[Address, ...] = ()  # without link-local ones


@dataclass(frozen=True)
class Route:
    """A configured route (the kernel's own ones are left out)."""

    destination: str
    gateway: str
    device: str
    metric: int = 0
    protocol: str = ""


@dataclass(frozen=True)
class Manager:
    """What manages an interface, and its configuration for it.

    ``path`` and ``text`` are the effective file (NetworkManager's profile, networkd's .network
    with its drop-ins); ``identity`` is its identity at the DHCP server, in hexadecimal digits.
    """

    backend: str
    path: str = ""
    text: str = ""
    ident: str = ""  # NetworkManager: uuid; netplan: the definition's name
    identity: str = ""
    iaid6: str = ""


@dataclass(frozen=True)
class NetworkFacts:
    """A machine's network."""

    links: t.Mapping[str, Link]
    routes: tuple[Route, ...] = ()
    nameservers: tuple[str, ...] = ()
    managers: t.Mapping[str, Manager] = field(default_factory=dict)
    # By path: all of ifupdown's files, and netplan's with their content
    interfaces: t.Mapping[str, str] = field(default_factory=dict)
    netplan: t.Mapping[str, tuple[str, Json]] = field(default_factory=dict)
    existing: frozenset[str] = frozenset()  # files of ours that already exist
    cloud_init: bool = False  # whether cloud-init is there and writes network configuration

    @property
    def default_link(self) -> str:
        """The interface of the default route, or an empty string."""
        default_routes = [
            route for route in self.routes if route.destination == "default" and route.device
        ]
        default_routes.sort(key=lambda route: (":" in route.gateway, route.metric))
        return default_routes[0].device if default_routes else ""


@dataclass(frozen=True)
class FileChange:
    """A file before and after; None means no file."""

    path: str
    before: str | None
    after: str | None
    mode: int = 0o644  # for a new file


@dataclass(frozen=True)
class Switch:
    """How one backend switches from the former configuration to the new one, and back.

    All are lines for the shell. The order is ``leave``, new files, ``enter``; back it is ``undo``,
    former files, ``restore``. After a power cut only the former files and ``boot``.
    """

    files: tuple[FileChange, ...]
    leave: tuple[str, ...] = ()
    enter: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    boot: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expected:
    """The state required before a switch is confirmed."""

    bridge: str
    uplink: str = ""
    mac: str = ""
    addresses: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()  # destination, gateway
    nameservers: tuple[str, ...] = ()


@dataclass(frozen=True)
class BridgePlan:
    """What is to be done for all bridges; nothing if there is no ``switch``."""

    bridges: tuple[BridgeEntry, ...]
    switch: Switch | None = None
    expected: tuple[Expected, ...] = ()
