# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small readers of single values out of libvirt's XML, shared by the ``*_info`` files.

They look at direct children only and use no path language: a listing reads hundreds of
documents, and iterating over children costs a fraction of what ``find`` or ``xpath`` cost.
An absent or invalid value is None, never an exception.
"""

from __future__ import annotations

import typing as t

from ..._errors import XmlError
from ..._lxml import parse

if t.TYPE_CHECKING:
    from ..._lxml import Element

MIB = 1024 * 1024
_MAX_DIGITS = 20  # of 2**64 - 1, the largest number libvirt itself can hold
_MAX_NUMBER = 2**64 - 1
# Attributes that are a file, a folder, a program or a socket, whatever element they stand in, and
# elements whose text is one. libvirt takes a relative one from its own folder
_PATH_ATTRIBUTES = frozenset(
    (
        *("file", "path", "dir", "evdev", "socket", "rendernode", "vgaconf", "tty", "keyfile"),
        *("agentsock", "logFile", "runtimeDir", "tap", "vhost", "template"),
    )
)
_PATH_ELEMENTS = frozenset(
    ("emulator", "loader", "nvram", "kernel", "initrd", "dtb", "table", "init", "initdir")
)
_TAGS = {("target", "dir")}  # what a guest mounts a file system by
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}


def read_root(xml: str, tag: str, what: str) -> Element:
    """Root of the document, which must be a ``tag``; ``what`` names it in the XmlError."""
    root = parse(xml, what)
    if root.tag != tag:
        raise XmlError(f"{what}: the document is a <{str(root.tag)[:64]}>, expected <{tag}>")
    return root


def first_children(element: Element | None) -> dict[str, Element]:
    """Children by tag; of several with the same tag the first, as in libvirt's own parser."""
    children: dict[str, Element] = {}
    if element is not None:
        for child in element:
            children.setdefault(child.tag, child)
    return children


def text_of(element: Element | None) -> str | None:
    """Text of the element, None if there is no such element or nothing in it."""
    if element is None:
        return None
    return element.text or None


def is_host_path(item: Element, key: str) -> bool:
    """Whether an attribute, or the text where ``key`` is empty, can only be a path."""
    if not key:
        return item.tag in _PATH_ELEMENTS
    return key in _PATH_ATTRIBUTES and (item.tag, key) not in _TAGS


def paths(root: Element) -> t.Iterator[tuple[Element, str, str]]:
    """Whatever may be a path in a definition: element, attribute (empty for the text), value. All
    that has a slash, in whatever element it stands, and what can be nothing else."""
    for item in root.iter("*"):
        for key, value in (*item.items(), ("", item.text or "")):
            text = str(value).strip()
            if text and ("/" in text or is_host_path(item, str(key))):
                yield item, str(key), text


def nvram_file(element: Element | None) -> str | None:
    """The file of UEFI variables in an ``<nvram>``: the text, or since libvirt 8.5 a ``<source>``;
    None if it is no file, or not chosen yet."""
    if element is None:
        return None
    text = (element.text or "").strip() or None
    return text or attribute(first_children(element).get("source"), "file")


def attribute(element: Element | None, name: str) -> str | None:
    """The attribute, None if it is absent or empty."""
    if element is None:
        return None
    return element.get(name) or None


def number(value: str | None) -> int | None:
    """A decimal number from 0 to 2**64 - 1; None for anything else (``-1`` means "automatic").

    A leading plus sign is accepted, as in libvirt.
    """
    if value is None:
        return None
    digits = value.strip()
    if digits.startswith("+"):
        digits = digits[1:]
    # int() alone would also accept "1_000", other scripts' digits and ten million of them
    if len(digits) > _MAX_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    result = int(digits)
    return result if result <= _MAX_NUMBER else None


def bytes_of(element: Element | None, default_unit: str) -> int | None:
    """Bytes of ``<memory unit='KiB'>2048</memory>``, by the rules of libvirt's virScaleInteger.

    ``default_unit`` is the format's default if there is no ``unit`` (KiB for memory, bytes for
    storage). ``k`` and ``KiB`` are 1024, ``KB`` is 1000, in any case; an unknown unit gives None.
    """
    if element is None:
        return None
    return scaled(element.text, element.get("unit") or default_unit)


def scaled(text: str | None, unit: str) -> int | None:
    """``text`` times ``unit``, see ``bytes_of``."""
    value = number(text)
    if value is None:
        return None
    if unit == "KiB":  # what libvirt itself writes
        return value * 1024
    lower = unit.lower()
    if lower in ("b", "byte", "bytes"):
        return value
    power, kind = _POWERS.get(lower[:1]), lower[1:]
    if power is None or kind not in ("", "ib", "b"):
        return None
    return int(value * (1000 if kind == "b" else 1024) ** power)


def mib_up(size: int | None) -> int | None:
    """``size`` bytes in MiB, rounded up: for what is used or promised."""
    return None if size is None else -(-size // MIB)


def mib_down(size: int | None) -> int | None:
    """``size`` bytes in MiB, rounded down: for what is available."""
    return None if size is None else size // MIB


def pci_address(element: Element | None) -> str | None:
    """``0000:01:00.0`` of an ``<address domain= bus= slot= function=>``; None if incomplete."""
    if element is None:
        return None
    domain, function = (_any_base(element.get(name, "0")) for name in ("domain", "function"))
    bus, slot = (_any_base(element.get(name, "")) for name in ("bus", "slot"))
    if domain is None or bus is None or slot is None or function is None:
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def _any_base(value: str) -> int | None:
    if len(value) > _MAX_DIGITS or "_" in value:
        return None
    try:
        result = int(value, 0)
    except ValueError:
        return None
    return result if result >= 0 else None
