# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_bridge``, and the rules for them."""

from __future__ import annotations

import re
import typing as t

from ..._errors import Problem, SpecError
from ..base import ip
from ..base.options import show
from .types import RequestedBridge

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


class Bridge(t.TypedDict):
    """An entry of ``bridges``, as Ansible's validation by :data:`BRIDGE` leaves it."""

    name: str
    uplink: str
    stp: bool
    dhcp: bool
    addresses: list[str]
    gateways: list[str]
    nameservers: list[str]


BRIDGE: Spec = {
    "name": {"type": "str", "required": True},
    "uplink": {"type": "str", "default": "auto"},
    "stp": {"type": "bool", "default": False},
    "dhcp": {"type": "bool", "default": False},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "gateways": {"type": "list", "elements": "str", "default": []},
    "nameservers": {"type": "list", "elements": "str", "default": []},
}
ARGUMENTS: Spec = {
    "bridges": {
        "type": "list",
        "elements": "dict",
        "options": BRIDGE,
        "default": [{"name": "br0"}],
    },
    "rollback_seconds": {"type": "int", "default": 60},
}
INTERNAL: Spec = {
    "_stage": {"type": "str", "choices": ["switch", "confirm"], "default": "switch"},
    "_switch": {"type": "str"},
}
WINDOW = (5, 3600)
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}"
_NAME_RULE = "1 to 15 letters, digits, _ . and -, not beginning with . or -"
_RESERVED = ("all", "auto", "default", "lo", "none")


def parse(bridges: t.Sequence[Bridge], rollback_seconds: int) -> tuple[RequestedBridge, ...]:
    """The requested bridges.

    :raises SpecError: for every rule that is broken.
    """
    problems: list[Problem] = []
    low, high = WINDOW
    if not low <= rollback_seconds <= high:
        problems.append(
            Problem(
                "rollback_seconds",
                f"{rollback_seconds} is out of range; it must be {low} to {high} seconds",
            )
        )
    wanted = [
        _bridge(entry, f"bridges[{number}]", problems) for number, entry in enumerate(bridges)
    ]
    for what in ("name", "uplink"):
        seen: set[str] = set()
        for number, bridge in enumerate(wanted):
            value = getattr(bridge, what)
            if value in seen and value != "none":
                problems.append(
                    Problem(
                        f"bridges[{number}].{what}",
                        f"{show(value)} is given twice; each bridge needs its own {what}",
                    )
                )
            seen.add(value)
    if problems:
        raise SpecError(problems)
    return tuple(wanted)


def _bridge(entry: Bridge, path: str, problems: list[Problem]) -> RequestedBridge:
    def problem(key: str, message: str) -> None:
        problems.append(Problem(f"{path}.{key}", message))

    name, uplink = entry["name"], entry["uplink"]
    if re.fullmatch(_NAME, name) is None or name in _RESERVED:
        problem("name", f"{show(name)} is not a valid bridge name: use {_NAME_RULE}")
    if re.fullmatch(_NAME, uplink) is None or uplink == "lo":
        problem(
            "uplink",
            f"{show(uplink)} is not a valid uplink: give the name of an interface, auto (that of"
            " the default route) or none",
        )
    elif uplink == name:
        problem("uplink", f"{show(uplink)} is the bridge itself; name the interface below it")
    addresses = _addresses(entry["addresses"], problem)
    gateways = _plain("gateways", entry["gateways"], problem)
    families = [gateway.version for gateway in gateways]
    if len(set(families)) != len(families):
        problem("gateways", "more than one of a family; give at most one for IPv4 and one for IPv6")
    for gateway in gateways:
        if not any(gateway in address.network for address in addresses):
            problem(
                "gateways",
                f"{gateway} is not in the network of any address; give an address in its network,"
                " or correct the prefix length",
            )
    nameservers = _plain("nameservers", entry["nameservers"], problem)
    if nameservers and not addresses and not entry["dhcp"]:
        problem(
            "nameservers",
            "without addresses or dhcp the bridge uses the uplink's; leave nameservers out",
        )
    return RequestedBridge(
        name,
        uplink,
        stp=entry["stp"],
        dhcp=entry["dhcp"],
        addresses=tuple(str(address) for address in addresses),
        gateways=tuple(str(gateway) for gateway in gateways),
        nameservers=tuple(str(server) for server in nameservers),
    )


def _addresses(
    values: t.Sequence[str], problem: t.Callable[[str, str], None]
) -> list[ip.Interface]:
    addresses = []
    for value in values:
        try:
            if "/" not in value:
                raise ValueError("no prefix length")
            addresses.append(ip.interface(value))
        except ValueError:
            problem(
                "addresses",
                f"{show(value)} is not an address with a prefix length; write 192.0.2.7/24",
            )
    return addresses


def _plain(
    key: str, values: t.Sequence[str], problem: t.Callable[[str, str], None]
) -> list[ip.Address]:
    addresses = []
    for value in values:
        try:
            addresses.append(ip.address(value))
        except ValueError:
            problem(key, f"{show(value)} is not an address; write for example 192.0.2.1")
    return addresses
