# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""systemd-networkd: three files of our own, sorted before the uplink's, which stays as it is."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..._errors import PlanRefused
from .types import FileChange, Link, Manager, NetworkFacts, RequestedBridge, Switch

FOLDER = "/etc/systemd/network"
# networkd uses the first matching file by name: this sorts before digits and letters
_PREFIX = "0-fleet-virt"
_HEAD = "# Written by fleet.virt: bridge {bridge}\n"
# Link options, which stay; everything else in a .network file is about addresses
_LINK_SECTIONS = frozenset(("Match", "Link", "SR-IOV", "CAN", "QDisc"))
_LINK_KEYS = frozenset(
    ("VLAN", "MACVLAN", "MACVTAP", "IPVLAN", "IPVTAP", "VXLAN", "LLDP", "EmitLLDP", "Description")
)
Sections = list[tuple[str, list[str]]]


def known(_facts: NetworkFacts, manager: Manager, _uplink: str) -> set[str]:
    """The addresses, with their prefix lengths, that the file gives to the uplink."""
    addresses = set()
    for section, lines in sections(manager.text):
        for line in lines:
            key, _sep, value = line.partition("=")
            if section in ("Network", "Address") and key.strip() == "Address":
                try:
                    addresses.add(str(ipaddress.ip_interface(value.strip())))
                except ValueError:
                    continue
    return addresses


def switch(
    facts: NetworkFacts, manager: Manager, wanted: RequestedBridge, link: Link | None
) -> tuple[Switch, NetworkFacts]:
    """The files and commands, and the resulting facts for the next bridge."""
    bridge, uplink = wanted.name, link.name if link else ""
    base = manager.path.rpartition("/")[2]
    if base and base <= _PREFIX:
        raise PlanRefused(
            f"bridge {bridge}: {manager.path} sorts before {_PREFIX}, so networkd would keep using"
            " it; rename it, for example to 10-lan.network"
        )
    files = {
        f"{FOLDER}/{_PREFIX}-{bridge}.netdev": _netdev(wanted, link),
        f"{FOLDER}/{_PREFIX}-{bridge}.network": _bridge(wanted, manager),
    }
    if uplink:
        files[f"{FOLDER}/{_PREFIX}-{bridge}-uplink.network"] = _uplink(wanted, manager, uplink)
    present = sorted(facts.existing & files.keys())
    if present:
        raise PlanRefused(
            f"bridge {bridge}: {', '.join(present)} exists, but the bridge is not up; run"
            " `networkctl reload`, or remove the file to have the bridge created again"
        )
    enter = ["networkctl reload"]
    restore = ["networkctl reload"]
    if uplink:
        enter.append(f"networkctl reconfigure {uplink}")
        restore.append(f"networkctl reconfigure {uplink}")
    changes = tuple(FileChange(path, None, text) for path, text in files.items())
    undo = (f"ip link del dev {bridge}",)
    return Switch(changes, (), tuple(enter), undo, tuple(restore)), facts


def sections(text: str) -> Sections:
    """The sections of a unit file in order, with their lines, without comments."""
    unit: Sections = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        plain = line.strip()
        if plain.startswith("[") and plain.endswith("]"):
            unit.append((plain[1:-1], []))
        elif unit and plain and plain[0] not in "#;":
            unit[-1][1].append(plain)
    return unit


def identity(client_id: str) -> list[tuple[str, str]]:
    """Sections that preserve the machine's identity at the DHCP server.

    networkd derives the IAID from the interface's name, so the bridge would be a new client.
    """
    if not client_id.startswith("ff") or len(client_id) < 10:
        return []  # identified by the MAC address, which stays the same
    iaid = f"IAID={int(client_id[2:10], 16)}"
    return [("DHCPv4", iaid), ("DHCPv6", iaid)]


def _render(parts: t.Iterable[tuple[str, t.Sequence[str]]], bridge: str) -> str:
    text = [f"[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in parts]
    return _HEAD.format(bridge=bridge) + "\n".join(text)


def _netdev(wanted: RequestedBridge, link: Link | None) -> str:
    device = [f"Name={wanted.name}", "Kind=bridge"]
    if link is not None:
        device.append(f"MACAddress={link.mac}")
    bridge = ["STP=yes"] if wanted.stp else ["STP=no", "ForwardDelaySec=0"]
    return _render([("NetDev", device), ("Bridge", bridge)], wanted.name)


def _uplink(wanted: RequestedBridge, manager: Manager, uplink: str) -> str:
    parts: list[tuple[str, list[str]]] = [("Match", [f"Name={uplink}"])]
    network = [f"Bridge={wanted.name}", "LinkLocalAddressing=no"]
    for section, lines in sections(manager.text):
        if section in _LINK_SECTIONS - {"Match"}:
            parts.append((section, lines))
        elif section == "Network":
            network += [line for line in lines if line.partition("=")[0].strip() in _LINK_KEYS]
    parts.insert(1, ("Network", network))
    return _render(parts, wanted.name)


def _bridge(wanted: RequestedBridge, manager: Manager) -> str:
    parts: list[tuple[str, list[str]]] = [("Match", [f"Name={wanted.name}"])]
    if wanted.explicit:
        network = ["DHCP=yes"] if wanted.dhcp else []
        network += [f"Address={address}" for address in wanted.addresses]
        network += [f"Gateway={gateway}" for gateway in wanted.gateways]
        network += [f"DNS={server}" for server in wanted.nameservers]
        parts.append(("Network", network))
        return _render(parts, wanted.name)
    for section, lines in sections(manager.text):
        kept = lines
        if section == "Network":
            kept = [line for line in lines if line.partition("=")[0].strip() not in _LINK_KEYS]
        if section not in _LINK_SECTIONS:
            parts.append((section, kept))
    given = {name for name, lines in parts for line in lines if line.startswith("IAID=")}
    parts += [(name, [line]) for name, line in identity(manager.identity) if name not in given]
    if not any(name == "Network" for name, _lines in parts):
        parts.append(("Network", ["LinkLocalAddressing=no"]))
    return _render(parts, wanted.name)
