# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole definition that becomes the one of another VM, without what identifies the first.

The table of ``leftover_rules`` says what that is; a clone, which is put together from settings,
goes by the same lines.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from .leftover_rules import MADE, Line, Place, line_of
from .leftovers import shown

if t.TYPE_CHECKING:
    from ..._lxml import Element

_CHARACTER_DEVICES = ("serial", "parallel", "console", "channel")
_SERVERS = ("unix", "tcp", "udp")
_FILES = ("file", "pipe", "dev")
_PORTS = ("port", "tlsPort", "websocket")


def take_out(root: Element) -> tuple[str, ...]:
    """Take out what only one VM has; libvirt makes anew whatever it can. Returns the paths of the
    rest, which the copy lacks."""
    lacks = [*_at_sockets(root)]
    for child in list(root.iterchildren("*")):
        _below(Place((child,)), lacks)
    for screen in root.iterfind("devices/graphics"):
        _without_ports(screen)
    for device in root.iterfind("devices/*"):
        if device.tag in _CHARACTER_DEVICES:
            lacks += _on_its_own(Place((root, device)))
    return tuple(dict.fromkeys(lacks))


def _at_sockets(root: Element) -> Iterator[str]:
    """Remove devices whose other end is a program that serves a single VM, or that listen."""
    served = {
        "filesystem": lambda device: device.find("source[@socket]") is not None,
        "tpm": lambda device: device.find("backend[@type='external']") is not None,
        "redirdev": _listens,
        "smartcard": _listens,
    }
    for device in root.findall("devices/*"):
        is_served = served.get(str(device.tag))
        if is_served is not None and is_served(device):
            yield f"devices/{device.tag}"
            _remove(device)


def _listens(device: Element) -> bool:
    return device.get("type") in _SERVERS and any(
        source.get("mode") == "bind" for source in device.findall("source")
    )


def _below(place: Place, lacks: list[str]) -> None:
    element = place.elements[-1]
    line = line_of(place)
    if line is not None and line.own:
        _apart(place, line, lacks)
        return
    for name in [str(one) for one in element.attrib]:
        at = place.at(name)
        line = line_of(at)
        if line is None or not line.own:
            continue
        if line.value is not None:
            element.set(name, line.value)
        else:
            lacks += [] if line.fate == MADE else [shown(at)]
            del element.attrib[name]
    children = list(element.iterchildren("*"))
    for child in children:
        _below(place.below(child), lacks)
    if children and not len(element) and not element.attrib and len(place.elements) > 1:
        _remove(element)  # a group of entries that has none left


def _apart(place: Place, line: Line, lacks: list[str]) -> None:
    element = place.elements[-1]
    if line.value is not None:
        element.text = line.value or None
        return
    if line.fate != MADE:
        lacks.append(shown(place))
    _remove(element)


def _remove(element: Element) -> None:
    above = element.getparent()
    if above is not None:
        above.remove(element)


def _without_ports(screen: Element) -> None:
    """Let libvirt choose where a console listens, where it was a port or a socket of one VM."""
    if screen.get("autoport") == "no" or screen.get("websocket") not in (None, "-1"):
        for name in _PORTS:
            screen.attrib.pop(name, "")
        screen.set("autoport", "yes")
    sockets = screen.findall("listen[@type='socket']")
    if sockets:
        screen.attrib.pop("socket", "")
    for listen in sockets:
        listen.attrib.pop("socket", "")


def _on_its_own(place: Place) -> Iterator[str]:
    """A port that is a file, a socket or a device of the hypervisor: libvirt makes the socket of a
    channel, and any other becomes one that only libvirt's console uses."""
    device = place.elements[-1]
    kind, source = device.get("type"), device.find("source")
    if source is None or not (kind in _FILES or _listens(device)):
        return
    where = source.get("path") or f"{source.get('host', '')}:{source.get('service', '')}"
    if not (device.tag == "channel" and kind == "unix"):
        yield f"devices/{device.tag}[@type='{kind}'] ({where})"
        device.set("type", "pty")
        for tag in ("protocol", "log"):
            for one in device.findall(tag):
                _remove(one)
    for one in device.findall("source"):
        _remove(one)
