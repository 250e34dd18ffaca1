# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network segments that NICs are on: a bridge and its VLAN tag.

NAT, routed and isolated networks are none: each hypervisor has its own, with the same addresses.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.snapshot import NetworkInfo

_SOURCES = {"bridge": "bridge", "network": "network", "direct": "dev"}
_BRIDGED = "bridge"  # the forward mode of a network that is a host's bridge


class NicPlace(t.NamedTuple):
    """Where a NIC is attached: ``type`` and ``source`` as in libvirt's XML."""

    type: str
    source: str
    vlan: str | None = None


def nics(root: Element) -> list[NicPlace]:
    """Where the NICs of a domain are."""
    places = []
    for nic in root.iterfind("devices/interface"):
        kind = str(nic.get("type"))
        source, tag = nic.find("source"), nic.find("vlan/tag")
        name = source.get(_SOURCES.get(kind, "")) if source is not None else None
        if name:
            places.append(NicPlace(kind, name, None if tag is None else tag.get("id")))
    return places


def of_nics(places: t.Iterable[NicPlace], networks: t.Mapping[str, NetworkInfo]) -> list[str]:
    """The segments of these NICs, by the hypervisor's networks."""
    bridges = {
        name: info["bridge"] if info["forward"] == _BRIDGED else None
        for name, info in networks.items()
    }
    known = (segment(place, bridges) for place in places)
    return sorted({name for name in known if name is not None})


def segment(place: NicPlace, bridges: t.Mapping[str, str | None]) -> str | None:
    """Such as ``br0`` or ``br0, VLAN 12``; ``bridges`` are those of networks. None: of no NIC
    elsewhere."""
    source = bridges.get(place.source) if place.type == "network" else place.source
    if source is None or place.type not in _SOURCES:
        return None
    return f"{source}, VLAN {place.vlan}" if place.vlan else source
