# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""netplan: the uplink's addressing moves to a new bridge, in the same files."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from collections.abc import Mapping

from ..._errors import PlanRefused
from ..base.json_values import Json, as_list
from .networkd import identity
from .types import FileChange, Link, Manager, NetworkFacts, RequestedBridge, Switch

FILE = "/etc/netplan/90-fleet-virt.yaml"
_HEAD = "# Written by fleet.virt: bridge {bridge}\n"
_ADDRESSING = frozenset(
    (
        *("addresses", "dhcp4", "dhcp6", "dhcp4-overrides", "dhcp6-overrides", "dhcp-identifier"),
        *("gateway4", "gateway6", "nameservers", "routes", "routing-policy", "accept-ra"),
        *("ipv6-privacy", "ipv6-address-generation", "ipv6-address-token", "link-local"),
    )
)
Definition = Mapping[str, Json]


def known(facts: NetworkFacts, manager: Manager, _uplink: str) -> set[str]:
    """The addresses, with their prefix lengths, that the files give to the uplink."""
    addresses = set()
    for _text, data in facts.netplan.values():
        for definition in _definitions(data, manager.ident):
            for entry in as_list(definition.get("addresses")):
                address = next(iter(entry)) if isinstance(entry, dict) else entry
                addresses.add(str(ipaddress.ip_interface(str(address))))
    return addresses


def switch(
    facts: NetworkFacts, manager: Manager, wanted: RequestedBridge, link: Link | None
) -> tuple[Switch, NetworkFacts]:
    """The files and commands, and the resulting facts for the next bridge."""
    bridge, uplink = wanted.name, link.name if link else ""
    for path, (_text, data) in facts.netplan.items():
        network = _network(data)
        if bridge in _mapping(network.get("bridges")):
            raise PlanRefused(
                f"bridge {bridge}: {path} defines it, but it is not up; run `netplan apply`, or"
                " remove it there to have it created again"
            )
        if network.get("renderer") == "NetworkManager":
            raise PlanRefused(
                f"bridge {bridge}: {path} hands the network to NetworkManager, which is not"
                " supported through netplan; set `renderer: networkd` there, or define the bridge"
                " there yourself; it is then left unchanged"
            )
    addressing: dict[str, dict[str, Json]] = {}
    after = dict(facts.netplan)
    changed: dict[str, Definition] = {}
    for path, (_text, data) in facts.netplan.items():
        definitions = _definitions(data, manager.ident) if uplink else []
        if definitions:
            addressing[path] = {
                key: value
                for definition in definitions
                for key, value in definition.items()
                if key in _ADDRESSING
            }
            changed[path] = _without_addressing(_network(data), manager.ident)
    # Each file keeps its part: netplan merges lists that several files define
    home = next(iter(changed), FILE)
    if home not in changed:
        present = facts.netplan[home][1] if home in facts.netplan else None
        changed[home] = _network(present) or {"version": 2}
    files: list[FileChange] = []
    for path, network in changed.items():
        former, data = facts.netplan.get(path, (None, None))
        moved = {} if wanted.explicit else addressing.get(path, {})
        definition = {**(_own(wanted, manager, link) if path == home else {}), **moved}
        bridges = {**_mapping(network.get("bridges")), bridge: definition}
        complete = {**network, "bridges": bridges} if definition else network
        document = {**_mapping(data), "network": complete}
        text = _HEAD.format(bridge=bridge) + render(document)
        after[path] = (text, document)
        files.append(FileChange(path, former, text, 0o600))
    if not wanted.explicit and identity(manager.identity):
        files.append(_identity(bridge, manager.identity))
    bring = ["netplan generate", "networkctl reload"]
    reconfigure = [f"networkctl reconfigure {uplink}"] if uplink else []
    done = Switch(
        tuple(files),
        (),
        (*bring, *reconfigure),
        (f"ip link del dev {bridge}",),
        (*bring, *reconfigure),
        ("netplan generate",),
    )
    return done, dataclasses.replace(facts, netplan=after)


def _mapping(value: Json) -> Definition:
    return value if isinstance(value, Mapping) else {}


def _network(data: Json) -> Definition:
    return _mapping(_mapping(data).get("network"))


def _definitions(data: Json, ident: str) -> list[Definition]:
    """Everything a file contains about a definition of any type."""
    definitions = [_mapping(kind).get(ident) for kind in _network(data).values()]
    return [definition for definition in definitions if isinstance(definition, Mapping)]


def _without_addressing(network: Definition, ident: str) -> Definition:
    """A network section in which the definition has only its link options."""
    return {
        name: {
            **kind,
            ident: {key: value for key, value in settings.items() if key not in _ADDRESSING},
        }
        if isinstance(kind, Mapping) and isinstance(settings := kind.get(ident), Mapping)
        else kind
        for name, kind in network.items()
    }


def _own(wanted: RequestedBridge, manager: Manager, link: Link | None) -> Definition:
    """The settings of the bridge that the uplink did not have."""
    definition: dict[str, Json] = {"interfaces": [manager.ident or link.name] if link else []}
    if link is not None:
        definition["macaddress"] = link.mac
    definition["parameters"] = {"stp": True} if wanted.stp else {"stp": False, "forward-delay": 0}
    if not wanted.explicit:
        return definition
    definition["dhcp4"] = wanted.dhcp
    if wanted.addresses:
        definition["addresses"] = list(wanted.addresses)
    if wanted.gateways:
        definition["routes"] = [
            {"to": "::/0" if ":" in gateway else "0.0.0.0/0", "via": gateway}
            for gateway in wanted.gateways
        ]
    if wanted.nameservers:
        definition["nameservers"] = {"addresses": list(wanted.nameservers)}
    return definition


def _identity(bridge: str, client_id: str) -> FileChange:
    """A drop-in with the IAID, for which netplan has no key; networkd reads it separately."""
    text = "\n".join(f"[{section}]\n{line}\n" for section, line in identity(client_id))
    folder = f"/etc/systemd/network/10-netplan-{bridge}.network.d"
    return FileChange(f"{folder}/fleet-virt.conf", None, _HEAD.format(bridge=bridge) + text)


def render(data: Json, indent: str = "") -> str:
    """Plain data as YAML in block style, as in netplan's files."""
    if isinstance(data, dict) and data:
        return "".join(_entry(f"{_scalar(key)}:", value, indent) for key, value in data.items())
    if isinstance(data, list) and data:
        return "".join(_entry("-", value, indent) for value in data)
    return f"{indent}{_scalar(data)}\n"


def _entry(head: str, value: Json, indent: str) -> str:
    if isinstance(value, (dict, list)) and value:
        return f"{indent}{head}\n{render(value, indent + '  ')}"
    return f"{indent}{head} {_scalar(value)}\n"


def _scalar(value: Json) -> str:
    """A scalar; text that YAML could read as another type is quoted."""
    plain = r"[A-Za-z][A-Za-z0-9_.@/-]*"
    if isinstance(value, str) and re.fullmatch(plain, value) and not _ambiguous(value):
        return value
    return json.dumps(value)


def _ambiguous(word: str) -> bool:
    return word.lower() in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
