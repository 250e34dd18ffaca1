# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan, from facts and requested bridges, and what is missing in the facts afterwards."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import shlex
import typing as t

from ..._errors import PlanRefused
from . import ifupdown as bridge_ifupdown
from . import netplan as bridge_netplan
from . import networkd as bridge_networkd
from . import networkmanager as bridge_networkmanager
from .facts import TAKERS
from .types import (
    BACKENDS,
    BridgeEntry,
    BridgePlan,
    Expected,
    FileChange,
    Link,
    Manager,
    NetworkFacts,
    RequestedBridge,
    Switch,
)


class _Backend(t.Protocol):
    """What the module of a backend provides for the plan."""

    def known(self, facts: NetworkFacts, manager: Manager, uplink: str, /) -> set[str]:
        """The addresses, with their prefix lengths, that it gives to the uplink."""

    def switch(
        self, facts: NetworkFacts, manager: Manager, wanted: RequestedBridge, link: Link | None, /
    ) -> tuple[Switch, NetworkFacts]:
        """The files and commands, and the resulting facts for the next bridge."""


_BACKENDS: dict[str, _Backend] = {
    "ifupdown": bridge_ifupdown,
    "networkd": bridge_networkd,
    "networkmanager": bridge_networkmanager,
    "netplan": bridge_netplan,
}
CLOUD_INIT_DISABLED = "/etc/cloud/cloud.cfg.d/99-disable-network-config.cfg"
_LASTING = ("/etc/", "/var/")
_GUESTS = ("tun", "veth")  # ports that a guest or a container made
_NAT = "use a libvirt network with NAT for the guests, or a wired interface"


def make(wanted: t.Sequence[RequestedBridge], facts: NetworkFacts) -> BridgePlan:
    """The steps needed for all bridges to exist.

    :raises PlanRefused: if it cannot be done, or not without losing something.
    """
    entries: list[BridgeEntry] = []
    switches: list[Switch] = []
    expected: list[Expected] = []
    for bridge in wanted:
        entry, uplink = _look(bridge, facts)
        entries.append(entry)
        if not entry["changed"]:
            continue
        link = facts.links[uplink] if uplink else None
        manager = _manager(bridge, link, facts)
        backend = _BACKENDS[manager.backend]
        if link is not None:
            _require_known(link, bridge, backend.known(facts, manager, link.name), manager)
        switch, facts = backend.switch(facts, manager, bridge, link)
        _require_lasting(bridge, switch.files, facts)
        switches.append(switch)
        aim = _expected(bridge, link, facts)
        expected.append(aim)
        entry["backend"], entry["mac"] = manager.backend, aim.mac
        entry["addresses"] = list(aim.addresses)
    if not switches:
        return BridgePlan(tuple(entries))
    return BridgePlan(tuple(entries), _merge(switches), tuple(expected))


def missing(expected: Expected, facts: NetworkFacts) -> list[str]:
    """What differs from the expected state after the switch."""
    bridge = facts.links.get(expected.bridge)
    if bridge is None or bridge.kind != "bridge":
        return [f"{expected.bridge} does not exist"]
    differences = []
    if expected.uplink:
        uplink = facts.links.get(expected.uplink)
        if uplink is None or uplink.master != expected.bridge:
            differences.append(f"{expected.uplink} is not a port of {expected.bridge}")
        elif expected.mac and bridge.mac != expected.mac:
            differences.append(
                f"{expected.bridge} has the MAC address {bridge.mac}, not {expected.mac}"
            )
    present = {address.text for address in bridge.addresses}
    differences += [
        f"{expected.bridge} has no address {address}"
        for address in expected.addresses
        if address not in present
    ]
    routed = {(r.destination, r.gateway) for r in facts.routes if r.device == expected.bridge}
    differences += [
        f"no route to {destination}{f' via {gateway}' if gateway else ''} over {expected.bridge}"
        for destination, gateway in expected.routes
        if (destination, gateway) not in routed
    ]
    differences += [
        f"the name server {server} is missing"
        for server in expected.nameservers
        if server not in facts.nameservers
    ]
    return differences


def _look(wanted: RequestedBridge, facts: NetworkFacts) -> tuple[BridgeEntry, str]:
    """The entry of a bridge in the result, and its uplink (empty for none)."""
    name = wanted.name
    bridge = facts.links.get(name)
    ports = [link for link in facts.links.values() if link.master == name]
    if bridge is not None and bridge.kind != "bridge":
        kind = bridge.kind or "a network card"
        raise PlanRefused(
            f"{name} exists and is not a bridge ({kind}); choose another name for the bridge"
        )
    uplink = wanted.uplink
    if uplink == "auto" and bridge is not None:
        wired = [port.name for port in ports if port.kind not in _GUESTS]
        # The card of a laboratory or container is a veth: the default route shows that it is a card
        if not wired and facts.default_link == name:
            wired = [port.name for port in ports]
        if not wired:
            raise PlanRefused(
                f"{name} exists but has no uplink; add the uplink interface to the configuration"
                " that defines it, or set uplink to none"
            )
        uplink = wired[0]
    elif uplink == "auto":
        uplink = facts.default_link
        if not uplink:
            raise PlanRefused(
                f"{name}: there is no default route, so the uplink cannot be determined; set uplink"
                " to the name of an interface, or to none"
            )
    uplink = "" if uplink == "none" else uplink
    if bridge is not None:
        _require_right(wanted, bridge, uplink, facts)
    elif uplink:
        _require_usable(wanted, uplink, facts)
    entry: BridgeEntry = {
        "name": name,
        "uplink": uplink or None,
        "changed": bridge is None,
        "backend": None,
        "mac": bridge.mac if bridge else None,
        "addresses": [address.text for address in bridge.addresses] if bridge else [],
    }
    return entry, uplink


def _require_right(wanted: RequestedBridge, bridge: Link, uplink: str, facts: NetworkFacts) -> None:
    """Accept or refuse an existing bridge of any origin; it is never changed."""
    remedy = "change it where it is configured, or remove it from there to have it created again"
    if uplink and facts.links.get(uplink, Link("")).master != bridge.name:
        raise PlanRefused(
            f"{bridge.name} exists, but {uplink} is not a port of it, as requested; {remedy}"
        )
    present = {address.text for address in bridge.addresses}
    gone = [address for address in wanted.addresses if address not in present]
    if gone:
        has = ", ".join(sorted(present)) or "none"
        raise PlanRefused(
            f"{bridge.name} exists, but without {', '.join(gone)} (it has {has}); {remedy}"
        )
    if wanted.stp and not bridge.stp:
        raise PlanRefused(f"{bridge.name} exists, but without stp; {remedy}")


def _require_usable(wanted: RequestedBridge, uplink: str, facts: NetworkFacts) -> None:
    link = facts.links.get(uplink)
    names = ", ".join(sorted(name for name, link in facts.links.items() if link.ethernet))
    bridge = f"bridge {wanted.name}"
    if link is None:
        raise PlanRefused(
            f"{bridge}: uplink {uplink} does not exist; existing interfaces: {names or 'none'}; set"
            " uplink to one of them, auto or none"
        )
    if link.wireless:
        raise PlanRefused(
            f"{bridge}: uplink {uplink} is wireless, and an access point accepts frames only from"
            f" the card's own MAC address; {_NAT}"
        )
    if link.kind == "bridge":
        raise PlanRefused(
            f"{bridge}: uplink {uplink} is already a bridge; use that one instead of"
            f" {wanted.name}, or set uplink to another interface"
        )
    if link.master:
        kind = facts.links[link.master].kind if link.master in facts.links else "another device"
        raise PlanRefused(
            f"{bridge}: uplink {uplink} is a port of {link.master} ({kind}); an interface can be in"
            f" only one: set uplink to {link.master} if that is not a bridge, or to another"
        )
    if not link.ethernet:
        raise PlanRefused(
            f"{bridge}: uplink {uplink} is not an Ethernet device, and bridges carry Ethernet only;"
            f" {_NAT}"
        )
    takers = [
        link.name for link in facts.links.values() if link.lower == uplink and link.kind in TAKERS
    ]
    if takers:
        raise PlanRefused(
            f"{bridge}: uplink {uplink} already passes its frames to {', '.join(takers)}; remove"
            " what uses those, or set uplink to another interface"
        )


def _manager(wanted: RequestedBridge, link: Link | None, facts: NetworkFacts) -> Manager:
    """What manages the uplink; without an uplink, or for a spare card, the machine's main one."""
    name = link.name if link else ""
    manager = facts.managers.get(name)
    if manager is None and (link is None or not link.addresses):
        others = [facts.managers.get(facts.default_link), *facts.managers.values()]
        main = next((other for other in others if other is not None), None)
        manager = Manager(main.backend) if main else None
    if manager is None:
        known = ", ".join(BACKENDS.values())
        raise PlanRefused(
            f"bridge {wanted.name}: {name or 'the network'} is managed by none of {known}; let one"
            " of them manage it, or create the bridge yourself; it is then left unchanged"
        )
    return manager


def _require_known(
    link: Link, wanted: RequestedBridge, known: t.Collection[str], manager: Manager
) -> None:
    """Refuse to carry over addresses that are not in the configuration."""
    if wanted.explicit:
        return
    lost = [
        address.text
        for address in link.addresses
        if not address.dynamic and address.text not in known
    ]
    if lost:
        raise PlanRefused(
            f"bridge {wanted.name}: uplink {link.name} has {', '.join(lost)}, which"
            f" {BACKENDS[manager.backend]} does not know, so it cannot be carried over; add it to"
            " its configuration, or remove it from the interface"
        )


def _require_lasting(
    wanted: RequestedBridge, files: t.Iterable[FileChange], facts: NetworkFacts
) -> None:
    """Refuse to change what is gone, or is written again, at a later boot."""
    for file in files:
        path = shlex.quote(file.path)
        if not file.path.startswith(_LASTING):
            name = shlex.quote(posixpath.basename(file.path))
            if "/netplan/" in file.path:
                keep = f"cp {path} /etc/netplan/{name}"
            else:
                keep = f"cat {path} >> {bridge_ifupdown.INTERFACES}"
            temporary = file.path.startswith("/run/")
            what = "does not outlast a reboot" if temporary else "belongs to a package"
            remedy = f"{keep} && rm {path}" if temporary else keep
            raise PlanRefused(
                f"bridge {wanted.name}: the uplink is configured in {file.path}, which {what}, so"
                f" that the bridge would be lost; make it permanent, as root, with `{remedy}`, and"
                " run this again"
            )
        if facts.cloud_init and file.before and _is_generated(file):
            raise PlanRefused(
                f"bridge {wanted.name}: {file.path} is generated by cloud-init, which would write"
                " it again without the bridge; have cloud-init leave the network alone, as root,"
                f" with `echo 'network: {{config: disabled}}' > {CLOUD_INIT_DISABLED}`, and run"
                " this again"
            )


def _is_generated(file: FileChange) -> bool:
    """Whether cloud-init has written it, by its name or by what its comments say."""
    comments = " ".join(re.findall(r"^[ \t]*[#;].*", file.before or "", re.M)).lower()
    made = "generated" in comments or "created" in comments
    return "cloud-init" in posixpath.basename(file.path) or (made and "cloud-init" in comments)


def _expected(wanted: RequestedBridge, link: Link | None, facts: NetworkFacts) -> Expected:
    if wanted.explicit:
        routes = tuple(("default", gateway) for gateway in wanted.gateways)
        addresses = wanted.addresses
        servers: tuple[str, ...] = ()
    else:
        # Addresses from router advertisements may depend on the interface's name; they come again.
        given = link.addresses if link else ()
        addresses = tuple(
            address.text for address in given if not (address.ipv6 and address.dynamic)
        )
        routes = tuple(
            (route.destination, route.gateway)
            for route in facts.routes
            if link is not None and route.device == link.name and ":" not in route.gateway
        )
        servers = facts.nameservers
    return Expected(
        wanted.name,
        link.name if link else "",
        link.mac if link else "",
        addresses,
        routes,
        servers,
    )


def _merge(switches: t.Sequence[Switch]) -> Switch:
    """Several switches merged; a file changed by more than one goes from first to last state."""
    files: dict[str, FileChange] = {}
    for switch in switches:
        for file in switch.files:
            former = files.get(file.path)
            files[file.path] = (
                file if former is None else dataclasses.replace(former, after=file.after)
            )

    def all_of(name: str) -> tuple[str, ...]:
        lines = [line for switch in switches for line in getattr(switch, name)]
        return tuple(dict.fromkeys(lines))

    return Switch(
        tuple(files.values()),
        *(all_of(name) for name in ("leave", "enter", "undo", "restore", "boot")),
    )
