# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a domain has beyond its specification: elements that a VM made from it would not have.

This file is private to the collection.
"""

from __future__ import annotations

import re
import typing as t

from ... import _lxml
from ..base.xml_values import attribute
from ..domain import domain_xml
from ..domain.domain import Domain
from ..domain.domain_xml import VolumeRef

if t.TYPE_CHECKING:
    from ..._lxml import Element

_UUID = "00000000-0000-0000-0000-000000000000"
# What libvirt adds to every VM, or what differs between any two
_PASSED_OVER = re.compile(
    r"name|uuid|metadata|resource|seclabel|id|.*/alias|.*/address|devices/emulator"
    r"|devices/controller|devices/memballoon|devices/input|devices/audio|devices/serial"
    r"|devices/console|devices/channel|devices/video|devices/rng|devices/graphics/listen"
    r"|memory|currentMemory|vcpu|cpu|iothreads|os/type|os/loader|os/nvram|os/firmware"
    r"|features/(acpi|apic|tcg)|pm"
)
# Devices that are listed as a whole if they are not described; here only their contents
_LISTED = ("devices/disk", "devices/interface", "devices/graphics", "devices/watchdog")
_OWN_ATTRIBUTES = re.compile(
    r"(devices/disk|devices/interface)@type|devices/disk/(source|target|backingStore).*"
    r"|devices/disk/driver@(name|type)|devices/interface/(source|mac|target).*"
    r"|devices/graphics@(port|autoport|type|listen|tlsPort)|.*/boot@order"
    r"|devices/tpm/backend@(persistent_state|debug)|os@firmware"
)


def rendered(domain: Domain, root: Element) -> Element:
    """The definition of ``domain`` on the same machine as that of ``root``."""
    kind = root.find("os/type")
    text = domain_xml.render(
        domain,
        uuid=_UUID,
        domain_type=attribute(root, "type") or "qemu",
        machine=attribute(kind, "machine") or "pc",
        arch=attribute(kind, "arch") or "x86_64",
        volumes={
            disk.name: VolumeRef(f"/{disk.name}", disk.format)
            for disk in domain.disks
            if disk.device == "disk" and not disk.exists
        },
    )
    return _lxml.parse(text, "specification")


def beside(root: Element, written: Element) -> list[str]:
    """``features/hyperv``, ``clock@offset: localtime``: what of ``root`` is not ``written``."""
    known = set(_facts(written))
    tags = {path for path, _name, _value in known}
    owned = {(path, name) for path, name, _value in known}
    found: list[str] = []
    for path, name, value in _facts(root):
        if any(path == one or path.startswith(f"{one}/") for one in found):
            continue  # it is part of what was listed as a whole
        shown = f"{path}@{name}" if name else path
        if _PASSED_OVER.fullmatch(path) or _is_below(path) or _OWN_ATTRIBUTES.fullmatch(shown):
            continue
        if path not in tags:
            if path not in _LISTED:
                found.append(path)
        elif (path, name, value) not in known:
            device = path.startswith(("devices/disk", "devices/interface"))
            if not (device and (path, name) in owned):
                found.append(f"{shown}: {value}")
    return list(dict.fromkeys(found))


def _is_below(path: str) -> bool:
    """Whether it is within something that is ignored."""
    parts = path.split("/")
    ways = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return any(_PASSED_OVER.fullmatch(way) for way in ways)


def _facts(element: Element, path: str = "") -> t.Iterator[tuple[str, str, str]]:
    """Every element by its path, its attributes, and its text without a name."""
    for child in element.iterchildren("*"):
        way = f"{path}/{child.tag}" if path else child.tag
        text = (child.text or "").strip()
        yield way, "", text
        for name, value in child.attrib.items():
            yield way, str(name), str(value)
        yield from _facts(child, way)
