# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network as facts, from the output of ``ip -json``."""

from __future__ import annotations

import json
import re
import typing as t

from .types import Address, Link, Route

# macvlan and its relatives claim an interface's frames, as a bridge does
TAKERS = ("macvlan", "macvtap", "ipvlan", "ipvtap")


def links(text: str, wireless: t.Container[str] = ()) -> dict[str, Link]:
    """The interfaces in the answer to ``ip -json -details address show``."""
    interfaces = {}
    for entry in json.loads(text or "[]"):
        if not entry.get("ifname"):
            continue  # iproute2 leaves empty objects where a filter hid something
        info = entry.get("linkinfo", {})
        kind = str(info.get("info_kind", ""))
        name = str(entry["ifname"])
        interfaces[name] = Link(
            name=name,
            mac=str(entry.get("address", "")),
            kind=kind,
            master=str(entry.get("master", "")),
            lower=str(entry.get("link") or ""),
            ethernet=entry.get("link_type") == "ether",
            wireless=name in wireless,
            stp=kind == "bridge" and bool(info.get("info_data", {}).get("stp_state")),
            addresses=tuple(
                Address(f"{address['local']}/{address['prefixlen']}", bool(address.get("dynamic")))
                for address in entry.get("addr_info", ())
                if address.get("scope") != "link"
                and not address.get("temporary")
                and "local" in address
            ),
        )
    return interfaces


def routes(*texts: str) -> tuple[Route, ...]:
    """The routes in answers to ``ip -json route show``, without automatic ones."""
    configured = []
    for text in texts:
        for entry in json.loads(text or "[]"):
            if entry.get("protocol") in ("kernel", "ra"):
                continue
            configured.append(
                Route(
                    str(entry.get("dst", "")),
                    str(entry.get("gateway", "")),
                    str(entry.get("dev", "")),
                    int(entry.get("metric", 0)),
                    str(entry.get("protocol", "")),
                )
            )
    return tuple(configured)


def nameservers(resolv_conf: str) -> tuple[str, ...]:
    """The name servers in the text of /etc/resolv.conf."""
    return tuple(re.findall(r"^nameserver\s+(\S+)", resolv_conf, re.MULTILINE))
