# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Debian's ifupdown: the uplink's stanzas in /etc/network/interfaces become the bridge's."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ..._errors import PlanRefused
from .types import FileChange, Link, Manager, NetworkFacts, RequestedBridge, Switch

INTERFACES = "/etc/network/interfaces"
_STARTS = ("auto", "iface", "mapping", "source", "source-directory", "no-auto-down", "no-scripts")
# Link options, not address options: they stay with the uplink
_LINK_OPTIONS = re.compile(
    r"hwaddress|mtu|(ethernet|link|hardware|bond|vlan|offload)[-_]\S*|slaves|vlan_raw_device"
)
_HOOKS = ("pre-up", "up", "post-up", "pre-down", "down", "post-down")
_ADDRESSING = re.compile(r"\b(route|rule|addr|address)\b")


def sources(text: str) -> list[str]:
    """The patterns of files that the text includes."""
    patterns = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] in ("source", "source-directory"):
            pattern = words[1] if words[1].startswith("/") else f"/etc/network/{words[1]}"
            patterns.append(f"{pattern}/*" if words[0] == "source-directory" else pattern)
    return patterns


def configures(files: t.Mapping[str, str], name: str) -> bool:
    """Whether an interface has a stanza."""
    return any(
        _head(block)[:2] == ["iface", name] for text in files.values() for block in _blocks(text)
    )


def known(facts: NetworkFacts, _manager: Manager, uplink: str) -> set[str]:
    """The addresses, with their prefix lengths, that the files give to the uplink."""
    addresses = set()
    for text in facts.interfaces.values():
        for block in _blocks(text):
            if _head(block)[:1] != ["iface"] or _head(block)[1].split(":")[0] != uplink:
                continue
            options = {
                words[0]: words[1]
                for words in (item.split(None, 2) for item in _items(block)[1:])
                if len(words) > 1
            }
            address = options.get("address", "")
            if address and "/" not in address:
                plain = "64" if ":" in address else "32"
                address = f"{address}/{options.get('netmask', plain)}"
            try:
                addresses.add(str(ipaddress.ip_interface(address)))
            except ValueError:
                continue
            # "ip address add" in a hook is configuration as well
        for hook in re.findall(r"\baddr(?:ess)? add (\S+/\d+)", text):
            addresses.add(hook)
    return addresses


def switch(
    facts: NetworkFacts, _manager: Manager, wanted: RequestedBridge, link: Link | None
) -> tuple[Switch, NetworkFacts]:
    """The files and commands, and the resulting facts for the next bridge."""
    bridge, uplink = wanted.name, link.name if link else ""
    files = dict(facts.interfaces)
    if configures(files, bridge):
        raise PlanRefused(
            f"bridge {bridge}: {INTERFACES} or a file that it includes has a stanza for {bridge},"
            f" which is not up; bring it up with `ifup {bridge}`, or remove the stanza"
        )
    converted = {path: _convert(text, wanted, uplink) for path, text in files.items()}
    if converted == files:
        main = files.get(INTERFACES, "")
        stanza = "".join(_stanzas(wanted, uplink, [("inet", "manual", [])]))
        gap = "" if not main or main.endswith("\n\n") else "\n"
        converted[INTERFACES] = f"{main}{gap}{stanza}"
    changed = tuple(
        FileChange(path, facts.interfaces.get(path), text)
        for path, text in converted.items()
        if text != files.get(path)
    )
    lines = [line for text in converted.values() for line in text.splitlines()]
    aliases = sorted(
        {
            words[1]
            for words in map(str.split, lines)
            if words[:1] == ["iface"] and words[1].startswith(f"{bridge}:")
        }
    )
    enter = [f"ifup {name}" for name in (bridge, *aliases)]
    undo = [f"ifdown --force {bridge}", f"ip link del dev {bridge}"]
    leave: list[str] = []
    restore: list[str] = []
    if uplink:
        former = [f"{uplink}{alias[len(bridge) :]}" for alias in aliases]
        leave = [
            *(f"ifdown --force {name}" for name in (*former[::-1], uplink)),
            f"ip address flush dev {uplink} scope global",
            *_leases(uplink, bridge),
        ]
        enter.insert(0, f"if ifquery {uplink} >/dev/null 2>&1; then ifup --force {uplink}; fi")
        undo += [
            f"ip link set dev {uplink} nomaster",
            f"ip address flush dev {uplink} scope global",
        ]
        restore = [f"ifup --force {name}" for name in (uplink, *former)]
    after = dataclasses.replace(facts, interfaces=converted)
    return Switch(changed, tuple(leave), tuple(enter), tuple(undo), tuple(restore)), after


def _leases(uplink: str, bridge: str) -> list[str]:
    """Carry over dhclient's identity, which is in its lease file by interface, to the bridge."""
    folder = "/var/lib/dhcp"
    return [
        f"if [ -e {folder}/dhclient{six}.{uplink}.leases ]; then"
        f' sed \'s/interface "{uplink}"/interface "{bridge}"/\''
        f" {folder}/dhclient{six}.{uplink}.leases > {folder}/dhclient{six}.{bridge}.leases; fi"
        for six in ("", "6")
    ]


def _blocks(text: str) -> list[list[str]]:
    """The text in pieces (lines with their ends) that each begin with a keyword."""
    blocks: list[list[str]] = [[]]
    continued = False
    for line in text.splitlines(keepends=True):
        first = (line.split() or [""])[0]
        if not continued and (first in _STARTS or first.startswith("allow-")):
            blocks.append([])
        blocks[-1].append(line)
        continued = line.rstrip("\n").endswith("\\")
    return [block for block in blocks if block]


def _items(block: t.Sequence[str]) -> list[str]:
    """The logical lines of a block, with continuation lines joined."""
    items: list[str] = []
    continued = False
    for line in block:
        if continued:
            items[-1] += line
        else:
            items.append(line)
        continued = line.rstrip("\n").endswith("\\")
    return items


def _head(block: t.Sequence[str]) -> list[str]:
    return block[0].replace("\\\n", " ").split()


def _convert(text: str, wanted: RequestedBridge, uplink: str) -> str:
    """One file with the uplink's stanzas turned into the bridge's."""
    if not uplink:
        return text
    bridge = wanted.name
    pieces: list[str] = []
    first = True
    for block in _blocks(text):
        head = _head(block)
        if head[:1] == ["iface"] and head[1] == uplink:
            if len(head) < 4 or len(head) > 4:
                raise PlanRefused(
                    f"bridge {bridge}: `{' '.join(head)}` in {INTERFACES} has more than a family"
                    " and a method, which cannot be carried over; write the stanza out in full"
                )
            pieces += _divided(block, wanted, uplink, first)
            first = False
        elif head[1:] and head[1].startswith(f"{uplink}:") and head[0] == "iface":
            if not wanted.explicit:  # an address under its own label
                pieces += [block[0].replace(f"{uplink}:", f"{bridge}:", 1), *block[1:]]
        elif head[:1] == ["auto"] or (head and head[0].startswith("allow-")):
            names = [_renamed(word, uplink, bridge) for word in head[1:]]
            if names == head[1:]:
                pieces += block
            elif not wanted.explicit:
                pieces += [" ".join([head[0], *names]) + "\n", *block[1:]]
        else:
            pieces += block
    return "".join(pieces)


def _renamed(word: str, uplink: str, bridge: str) -> str:
    return f"{bridge}{word[len(uplink) :]}" if word.startswith(f"{uplink}:") else word


def _divided(
    block: t.Sequence[str], wanted: RequestedBridge, uplink: str, first: bool
) -> list[str]:
    """An uplink's stanza as two: link options and address options."""
    family, method = _head(block)[2:4]
    items = [item if item.endswith("\n") else f"{item}\n" for item in _items(block)[1:]]
    tail: list[str] = []
    while items and (not items[-1].strip() or items[-1].lstrip().startswith("#")):
        tail.insert(0, items.pop())
    wire, address = [], []
    for item in items:
        key, _sep, value = item.strip().partition(" ")
        if _LINK_OPTIONS.fullmatch(key) or (key in _HOOKS and not _ADDRESSING.search(value)):
            wire.append(item)
        else:
            address.append(
                re.sub(rf"(?<![\w.:-]){re.escape(uplink)}(?![\w.:-])", wanted.name, item)
            )
    pieces = []
    if first or wire:
        pieces += [f"iface {uplink} {family} manual\n", *wire, "\n"]
    if first:
        pieces += _stanzas(wanted, uplink, [(family, method, address)])
    elif not wanted.explicit:
        pieces += [f"iface {wanted.name} {family} {method}\n", *address]
    return [*pieces, *tail]


def _stanzas(
    wanted: RequestedBridge, uplink: str, carried: t.Sequence[tuple[str, str, list[str]]]
) -> t.Iterator[str]:
    """The bridge's own stanzas; the first one creates it.

    The commands are those of ip: bridge_ports needs the package bridge-utils, which not every
    machine has. The MAC address is read when the bridge comes up, so that it follows a new card.
    """
    bridge = wanted.name
    stanzas = list(carried)
    if wanted.explicit:
        stanzas = [("inet", "dhcp", [])] if wanted.dhcp else []
        for address in wanted.addresses:
            family = "inet6" if ":" in address else "inet"
            lines = [f"    address {address}\n"]
            lines += [
                f"    gateway {gateway}\n"
                for gateway in wanted.gateways
                if ipaddress.ip_address(gateway) in ipaddress.ip_interface(address).network
            ]
            if wanted.nameservers and address == wanted.addresses[0]:
                lines.append(f"    dns-nameservers {' '.join(wanted.nameservers)}\n")
            stanzas.append((family, "static", lines))
    yield f"auto {bridge}\n"
    kind = "stp_state 1" if wanted.stp else "stp_state 0 forward_delay 0"
    made = [
        f"    pre-up [ -d /sys/class/net/{bridge} ] ||"
        f" ip link add name {bridge} type bridge {kind}\n"
    ]
    if uplink:
        mac = f'"$(cat /sys/class/net/{uplink}/address)"'
        made += [
            f"    pre-up ip link set dev {bridge} address {mac}\n",
            f"    pre-up ip link set dev {uplink} master {bridge} up\n",
        ]
    for family, method, lines in stanzas:
        yield f"iface {bridge} {family} {method}\n"
        yield from lines
        yield from made
        made = []
