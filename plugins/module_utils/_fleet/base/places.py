# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where libvirt keeps a setting, below the element of its device or domain.

A place is the path of an element (``serial``) or of an attribute (``driver/@cache``, ``@device``).
One that is only read or cleared may select among elements (``timer[@name='rtc']/@track``).
A setting without such a place is a ``Pair`` of functions.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ... import _lxml
from ..._records import dataclass

if t.TYPE_CHECKING:
    from ..._lxml import Element


@dataclass(frozen=True)
class Pair:
    """How a composite setting is written and read.

    ``write`` takes the element and the complete specification, because the XML may depend on
    several settings. ``read`` takes the element and returns the setting's value. ``places`` are all
    places that ``write`` writes to, which are cleared before a new value is written; none for a
    setting that is never changed.
    """

    write: Callable[..., None]
    read: Callable[[Element], object]
    places: tuple[str, ...] = ()


def put(element: Element, place: str, text: str = "") -> None:
    """Write ``text``, unless a value is already there: the hypervisor decided it."""
    below, name = _parts(place)
    element = reach(element, below)
    if name:
        if element.get(name) is None:
            element.set(name, text)
    elif text and not element.text:
        element.text = text


def clear(element: Element, place: str) -> None:
    """Remove the value, and parent elements that are then empty."""
    below, name = _parts(place)
    path = "/".join(_tags(below))
    for target in element.findall(path) if path else [element]:
        if name:
            target.attrib.pop(name, "")
            _prune(target, element)
        else:
            _remove(target)


def _prune(empty: Element, top: Element) -> None:
    while empty is not top and not len(empty) and not empty.attrib and not empty.text:
        above = empty.getparent()
        if above is None:
            return
        above.remove(empty)
        empty = above


def _remove(element: Element) -> None:
    above = element.getparent()
    if above is not None:
        above.remove(element)


def reach(element: Element, below: str) -> Element:
    """The element at the place; it is added if missing."""
    for tag in _tags(below):
        child = element.find(tag)
        element = _lxml.add(element, tag) if child is None else child
    return element


def texts(element: Element, place: str) -> list[str]:
    """All values at the place; an element without text counts as an empty value."""
    below, name = _parts(place)
    path = "/".join(_tags(below))
    targets = element.findall(path) if path else [element]
    if not name:
        return [target.text or "" for target in targets]
    return [value for value in (target.get(name) for target in targets) if value is not None]


def _parts(place: str) -> tuple[str, str]:
    """The path of the element, and the attribute; ``timer[@name='rtc']`` has none."""
    below, _slash, last = place.rpartition("/")
    return (below, last[1:]) if last.startswith("@") else (place, "")


def _tags(below: str) -> list[str]:
    return [tag for tag in below.split("/") if tag]
