# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NetworkManager: the uplink's profile becomes the port's, a new one of the bridge takes its IP."""

from __future__ import annotations

import ipaddress
import typing as t
import uuid

from ..._errors import PlanRefused
from .networkd import Sections
from .types import FileChange, Link, Manager, NetworkFacts, RequestedBridge, Switch

FOLDER = "/etc/NetworkManager/system-connections"
_NAMESPACE = uuid.UUID("5a5d6b36-5bd0-5f5c-8e0a-1f1f6c0b3a5e")
_IP_SECTIONS = ("ipv4", "ipv6", "proxy")
# Keys of the whole profile that are about its addresses and names
_IP_KEYS = ("zone", "metered", "mdns", "llmnr", "dns-over-tls")


def known(_facts: NetworkFacts, manager: Manager, _uplink: str) -> set[str]:
    """The addresses, with their prefix lengths, that the profile gives to the uplink."""
    addresses = set()
    for section, lines in sections(manager.text):
        for line in lines:
            key, _sep, value = line.partition("=")
            if section in ("ipv4", "ipv6") and key.startswith("address") and key[7:].isdigit():
                addresses.add(str(ipaddress.ip_interface(value.split(",")[0].strip())))
    return addresses


def switch(
    facts: NetworkFacts, manager: Manager, wanted: RequestedBridge, link: Link | None
) -> tuple[Switch, NetworkFacts]:
    """The files and commands, and the resulting facts for the next bridge."""
    bridge, uplink = wanted.name, link.name if link else ""
    identifier = str(uuid.uuid5(_NAMESPACE, bridge))
    path = f"{FOLDER}/fleet-virt-{bridge}.nmconnection"
    if path in facts.existing:
        raise PlanRefused(
            f"bridge {bridge}: {path} exists, but the bridge is not up; run"
            f" `nmcli connection up {identifier}`, or remove the file to have it created again"
        )
    if link is not None and manager.text and not manager.path.startswith(f"{FOLDER}/"):
        where = manager.path or "memory only"
        raise PlanRefused(
            f"bridge {bridge}: NetworkManager's profile of {uplink} is in {where}, not in {FOLDER};"
            f" store it there with `nmcli connection migrate {manager.ident}` or"
            f" `nmcli connection modify {manager.ident} connection.autoconnect yes`"
        )
    files = [FileChange(path, None, _bridge(wanted, manager, link, identifier), 0o600)]
    enter = [f"nmcli connection load {path}"]
    restore = ["nmcli connection reload"]
    if uplink:
        port, ident = manager.path, manager.ident
        if not manager.text:
            port = f"{FOLDER}/fleet-virt-{bridge}-port.nmconnection"
            ident = str(uuid.uuid5(_NAMESPACE, f"{bridge} {uplink}"))
        text = _port(wanted, manager, uplink, ident)
        files.append(FileChange(port, manager.text or None, text, 0o600))
        enter += [
            f"nmcli connection load {_quoted(port)}",
            f"nmcli --wait 0 connection up {identifier}",
            f"nmcli --wait 0 connection up {ident}",
        ]
        if manager.text:
            restore += [
                f"nmcli connection load {_quoted(port)}",
                f"nmcli --wait 20 connection up {ident}",
            ]
    else:
        enter.append(f"nmcli --wait 0 connection up {identifier}")
    undo = (
        f"nmcli --wait 5 connection down {identifier}",
        f"nmcli connection delete {identifier}",
        f"ip link del dev {bridge}",
    )
    return Switch(tuple(files), (), tuple(enter), undo, tuple(restore)), facts


def sections(text: str) -> Sections:
    """The groups of a keyfile in order, with their lines, without comments."""
    groups: Sections = []
    for line in text.splitlines():
        plain = line.strip()
        if plain.startswith("[") and plain.endswith("]"):
            groups.append((plain[1:-1], []))
        elif groups and plain and not plain.startswith("#"):
            groups[-1][1].append(plain)
    return groups


def _quoted(path: str) -> str:
    """A path quoted for the shell; profiles may have any name."""
    return "'" + path.replace("'", "'\\''") + "'"


def _render(parts: t.Iterable[tuple[str, t.Sequence[str]]]) -> str:
    return "\n".join(
        f"[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in parts
    )


def _key(line: str) -> str:
    return line.partition("=")[0].strip()


def _port(wanted: RequestedBridge, manager: Manager, uplink: str, ident: str) -> str:
    former = sections(manager.text) or [
        ("connection", [f"id={wanted.name} {uplink}", f"uuid={ident}", "type=ethernet"])
    ]
    parts: list[tuple[str, list[str]]] = []
    for name, lines in former:
        if name in _IP_SECTIONS:
            continue
        kept = lines
        if name == "connection":
            kept = [line for line in lines if _key(line) not in _IP_KEYS]
            if not any(_key(line) == "interface-name" for line in kept):
                kept.append(f"interface-name={uplink}")
            kept += [f"master={wanted.name}", "slave-type=bridge"]
        parts.append((name, kept))
    return _render(parts)


def _bridge(wanted: RequestedBridge, manager: Manager, link: Link | None, identifier: str) -> str:
    former = [] if wanted.explicit else sections(manager.text)
    connection = [
        f"id={wanted.name}",
        f"uuid={identifier}",
        "type=bridge",
        f"interface-name={wanted.name}",
    ]
    connection += [
        line
        for name, lines in former
        for line in lines
        if name == "connection" and _key(line) in _IP_KEYS
    ]
    parts: list[tuple[str, list[str]]] = [("connection", connection)]
    if link is not None:
        parts.append(("ethernet", [f"cloned-mac-address={link.mac}"]))
    parts.append(("bridge", ["stp=true"] if wanted.stp else ["stp=false", "forward-delay=0"]))
    address = [(name, list(lines)) for name, lines in former if name in _IP_SECTIONS]
    if wanted.explicit:
        address = _explicit(wanted)
    elif not address:
        address = [("ipv4", ["method=disabled"]), ("ipv6", ["method=disabled"])]
    for name, lines in address:
        keys = {_key(line) for line in lines}
        if name == "ipv4" and manager.identity and "dhcp-client-id" not in keys:
            lines.append(f"dhcp-client-id={manager.identity}")
        if name == "ipv6" and manager.iaid6 and "dhcp-iaid" not in keys:
            lines.append(f"dhcp-iaid={manager.iaid6}")
    return _render([*parts, *address])


def _explicit(wanted: RequestedBridge) -> list[tuple[str, list[str]]]:
    groups = []
    for name, version in (("ipv4", 4), ("ipv6", 6)):
        lines: list[str] = []
        for address in wanted.addresses:
            if ipaddress.ip_interface(address).version == version:
                lines.append(f"address{len(lines) + 1}={address}")
        empty = "disabled" if version == 4 else "auto"
        method = "auto" if wanted.dhcp else "manual" if lines else empty
        gateways = [g for g in wanted.gateways if ipaddress.ip_address(g).version == version]
        servers = [s for s in wanted.nameservers if ipaddress.ip_address(s).version == version]
        lines += [f"gateway={gateway}" for gateway in gateways]
        lines += [f"dns={''.join(f'{server};' for server in servers)}"] if servers else []
        groups.append((name, [f"method={method}", *lines]))
    return groups
