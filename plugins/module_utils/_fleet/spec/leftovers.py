# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a definition has beyond its specification, and how a copy gets it.

The definition is compared with the one that its specification results in. Every element, attribute
and text that only the first has is looked up in the table of ``leftover_rules``. What is carried
over travels as a ``<domain>`` of its own: an element with the attribute ``set`` (in a namespace of
ours) is merged into its counterpart, of which only those parts change; any other is added, one with
``added`` even if there is another of its kind.
"""

from __future__ import annotations

import copy
import ipaddress
import typing as t
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ... import _lxml
from ..._errors import XmlError
from ..._records import dataclass
from ..base.settings import Group, Integer, Setting, Size, Table, Text, Words
from .leftover_rules import CARRIED, LEFT, MADE, Line, Place, is_by_itself, line_of

if t.TYPE_CHECKING:
    from ..._lxml import Element

Pairs = Sequence[tuple["Element", "Element"]]

_OURS = "{urn:fleet.virt:leftovers:1}"
_SET, _COUNTERPART, _ADDED = f"{_OURS}set", f"{_OURS}counterpart", f"{_OURS}added"
_TEXT = "text"
# Addresses that a network filter binds a NIC to, by the version of IP. What the source has stays
# behind; that it is bound goes along, as a parameter without a value
_BOUND = {"IP": 4, "IPV6": 6}
_PARAMETER = ("devices", "interface", "filterref", "parameter")
# Elements of which only the contents count
_CONTAINERS = (("metadata",), ("devices",), ("os",))
# What distinguishes elements of which there may be several
_KEYS = {
    **dict.fromkeys(("entry", "feature", "timer", "parameter", "param", "channel"), "name"),
    **dict.fromkeys(("cell", "iothread", "vcpu", "sibling"), "id"),
    **dict.fromkeys(("vcpusched", "cachetune", "memorytune", "monitor"), "vcpus"),
    "vcpupin": "vcpu",
    "iothreadpin": "iothread",
    "iothreadsched": "iothreads",
    "memnode": "cellid",
    "cache": "level",
    "seclabel": "model",
}
# What distinguishes devices, if it is not a setting
_DEVICE_KEYS = {
    "controller": (("type", ""), ("index", "0")),
    "input": (("type", ""), ("bus", "")),
    "graphics": (("type", ""),),
    "watchdog": (("model", ""),),
}
# Devices that only the specification's own names identify
_NAMED = ("disk", "interface")
# A setting that is requested for the copy replaces what the source has there
_PLACES: t.Mapping[str, tuple[str, ...]] = {
    "boot": ("os/boot", "devices/*/boot"),
    "vcpus": ("vcpus",),
    "vcpus_max": ("vcpus",),
    "machine": ("devices/controller",),
    "arch": ("devices/controller",),
    "firmware": ("os/loader", "os/bios"),
    "os": ("metadata",),
}


@dataclass(frozen=True)
class Leftovers:
    """``carried`` is the text of a ``<domain>``, None if there is nothing to carry over;
    ``refused`` are the paths of what a copy cannot have, ``left_out`` of what it is made without.
    ``beyond`` are the paths of all else that no setting says, but for what libvirt writes of its
    own accord.
    """

    carried: str | None = None
    refused: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()


def leftovers(root: Element, written: Element, table: Table, pairs: Pairs) -> Leftovers:
    """What of the definition ``root`` is not in ``written``, the one of its specification.

    ``table`` are the settings; ``pairs`` are the disks and NICs of both that are the same.
    """
    comparison = _Comparison(root, written, table, pairs)
    domain = comparison.run()
    carried = None if domain is None else _lxml.tostring(domain)
    refused, left = (
        tuple(dict.fromkeys(_topmost(paths))) for paths in (comparison.refused, comparison.left)
    )
    beyond = [*comparison.made, *left]
    beyond += [] if domain is None else _parts_below(Place(()), domain)
    return Leftovers(carried, refused, left, tuple(_topmost(list(dict.fromkeys(beyond)))))


class _Comparison:
    def __init__(self, root: Element, written: Element, table: Table, pairs: Pairs) -> None:
        self.root, self.written, self.table = root, written, table
        self.pairs = dict(pairs)
        self.refused: list[str] = []
        self.left: list[str] = []
        self.made: list[str] = []
        self.rows = _rows_by_place(table)

    def run(self) -> Element | None:
        """The ``<domain>`` of what is carried over."""
        domain = _lxml.new("domain")
        for name in map(str, self.root.attrib):
            if line_of(Place((), name)) is None:
                self._refuse(Place((), name))
        aligned = _aligned(list(self.root.iterchildren("*")), list(self.written))
        for child, other in aligned:
            place = Place((child,))
            part = self._whole(place) if other is None else self._paired(place, (other,))
            if part is not None:
                domain.append(part)
        return domain if len(domain) else None

    def _paired(self, place: Place, others: tuple[Element, ...]) -> Element | None:
        """What an element has beyond its counterpart, the last of ``others``."""
        source, other = place.elements[-1], others[-1]
        made, changed = _shallow(source), []
        for name, value in _attributes(source).items():
            at = place.at(name)
            if other.get(name) == value or self._is_described(at, others):
                continue
            line = self._line(at)
            if line is not None and line.fate == CARRIED:
                changed.append(f"@{name}")
            elif line is not None and line.value is not None and other.get(name) != line.value:
                made.set(name, line.value)
                changed.append(f"@{name}")
        if _text(source) != _text(other) and not self._is_described(place, others):
            line = self._line(place)
            if line is not None and line.fate == CARRIED:
                changed.append(_TEXT)
        aligned = self._children(place, other)
        paired = {child.tag for child, counterpart in aligned if counterpart is not None}
        for child, counterpart in aligned:
            below = place.below(child)
            if counterpart is None:
                part = self._whole(below)
                if part is not None and child.tag in paired:
                    part.set(_ADDED, "yes")
            else:
                part = self._paired(below, (*others, counterpart))
            if part is not None:
                if counterpart is not None and place.names == ("devices",):
                    number = other.findall(str(child.tag)).index(counterpart)
                    part.set(_COUNTERPART, str(number))
                made.append(part)
        if not changed and not len(made):
            return None
        made.set(_SET, " ".join(changed))
        return made

    def _whole(self, place: Place) -> Element | None:
        """An element without a counterpart."""
        source = place.elements[-1]
        if place.names not in _CONTAINERS:
            line = self._line(place)
            if _is_bound(place):
                return _lxml.new("parameter", {"name": str(source.get("name"))})
            if line is None or line.fate != CARRIED:
                if line is None or line.value is None:
                    return None
                made = _shallow(source)
                made.attrib.clear()
                made.text = line.value
                return made
        made = _shallow(source)
        for name in _attributes(source):
            line = self._line(place.at(name))
            if line is None or line.fate != CARRIED:
                del made.attrib[name]
                if line is not None and line.value is not None:
                    made.set(name, line.value)
        for child in source.iterchildren("*"):
            part = self._whole(place.below(child))
            if part is not None:
                made.append(part)
        empty = not len(made) and not made.attrib and not made.text
        if (place.names in _CONTAINERS and not len(made)) or (empty and len(source)):
            return None
        return made

    def _line(self, place: Place) -> Line | None:
        """The line about a part, which is noted if the copy cannot have it."""
        line = line_of(place)
        if place.names in _CONTAINERS:
            return None
        if line is None or line.fate not in (CARRIED, MADE, LEFT):
            self._refuse(place)
            return None
        if line.fate == LEFT:
            self.left.append(shown(place))
        elif line.fate == MADE and line.own and line.value is None and not is_by_itself(place):
            self.made.append(shown(place))
        return line

    def _refuse(self, place: Place) -> None:
        self.refused.append(shown(place))

    def _is_described(self, place: Place, others: tuple[Element, ...]) -> bool:
        """Whether a setting has the value, in its own way (a size in whole MiB, a set of CPUs)."""
        for row, depth in self.rows.get("/".join(place.names), ()):
            source = place.elements[depth - 1] if depth else self.root
            other = others[depth - 1] if depth else self.written
            if row.same(row.found(other), row.found(source)):
                return True
        return False

    def _children(self, place: Place, other: Element) -> list[tuple[Element, Element | None]]:
        sources, others = list(place.elements[-1].iterchildren("*")), list(other)
        if place.names == ("devices",):
            return self._devices(sources, others)
        return _aligned(sources, others)

    def _devices(
        self, sources: list[Element], others: list[Element]
    ) -> list[tuple[Element, Element | None]]:
        free = [device for device in others if device not in self.pairs.values()]
        groups = {
            str(row.xml).partition("/")[2]: row
            for row in self.table
            if isinstance(row, Group) and row.of == "list" and str(row.xml).startswith("devices/")
        }
        pairs = []
        for source in sources:
            other = self.pairs.get(source)
            if other is None and source.tag not in _NAMED:
                candidates = [device for device in free if device.tag == source.tag]
                group = groups.get(str(source.tag))
                other = next(
                    (device for device in candidates if _is_same_device(source, device, group)),
                    None,
                )
                if other is not None:
                    free.remove(other)
            pairs.append((source, other))
        return pairs


def _rows_by_place(table: Table) -> dict[str, list[tuple[Setting[object], int]]]:
    """Settings that may state a value in another way, with the depth of the element they read."""
    by_place: dict[str, list[tuple[Setting[object], int]]] = {}
    for row in table:
        inner = row.settings if isinstance(row, Group) else (row,)
        above = str(row.xml) if isinstance(row, Group) else ""
        for setting in inner if above or not isinstance(row, Group) else ():
            places = (setting.xml,) if isinstance(setting.xml, str) else setting.xml.places
            if isinstance(setting.xml, str) or isinstance(setting, (Integer, Size, Text, Words)):
                for place in filter(None, places):
                    path = f"{above}/{place}" if above else place
                    depth = len(above.split("/")) if above else 0
                    by_place.setdefault(path, []).append((setting, depth))
    return by_place


def _is_same_device(source: Element, other: Element, group: Group | None) -> bool:
    if group is not None:
        rows = [row for row in group.settings if row.xml]
        return all(row.same(row.found(other), row.found(source)) for row in rows)
    if source.tag == "console":
        target = source.find("target")
        return target is None or target.get("type", "serial") == "serial"
    keys = _DEVICE_KEYS.get(str(source.tag), ())
    return all(source.get(key, absent) == other.get(key, absent) for key, absent in keys)


def _aligned(
    sources: Sequence[Element], others: Sequence[Element]
) -> list[tuple[Element, Element | None]]:
    """Each of ``sources`` with its counterpart; each of ``others`` is that of only one."""
    free = list(others)
    pairs: list[tuple[Element, Element | None]] = []
    for source in sources:
        other = next((candidate for candidate in free if _is_counterpart(source, candidate)), None)
        if other is not None:
            free.remove(other)
        pairs.append((source, other))
    return pairs


def _is_counterpart(source: Element, other: Element) -> bool:
    if source.tag != other.tag:
        return False
    key = _KEYS.get(str(source.tag))
    values = {None} if key is None else {source.get(key), other.get(key)} - {None}
    return len(values) < 2


def _shallow(source: Element) -> Element:
    """The element without its children."""
    made = copy.copy(source)
    del made[:]
    made.text, made.tail = _text(source) or None, None
    return made


def _attributes(element: Element) -> dict[str, str]:
    return {str(name): str(value) for name, value in element.attrib.items()}


def _text(element: Element) -> str:
    return (element.text or "").strip()


def shown(place: Place) -> str:
    """The path of a part for people: ``devices/disk[target/@dev='sdb']/auth``."""
    words: list[str] = []
    for number, element in enumerate(place.elements):
        tag = str(element.tag)
        if tag.startswith("{"):
            local = tag.partition("}")[2]
            tag = f"{element.prefix}:{local}" if element.prefix else local
        if number == 1 and words == ["devices"]:
            tag += _condition(element)
        if number > 1 and element.get("name") and _KEYS.get(str(element.tag)) == "name":
            tag += f"[@name='{element.get('name')}']"
        words.append(tag)
    if place.attribute is not None:
        words.append(f"@{place.attribute}")
    return "/".join(words)


def _condition(device: Element) -> str:
    target = device.find("target")
    if device.tag == "disk" and target is not None:
        return f"[target/@dev='{target.get('dev')}']"
    key = next((one for one in ("type", "model", "mode") if device.get(one)), None)
    return f"[@{key}='{device.get(key)}']" if key is not None else ""


def merge(
    root: Element,
    carried: str | None,
    table: Table,
    requested: Collection[str],
    addresses: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Give the definition ``root`` of a copy what its source had (``Leftovers.carried``).

    ``requested`` are settings whose value was requested for the copy: they replace what its source
    has at their places. ``addresses`` are those that its seed gives its NICs, by MAC address; where
    a filter binds the source's NIC to an address, it binds the copy's to them. Raises XmlError for
    what the table does not carry over: the text comes from another hypervisor.
    """
    if carried is None:
        return
    domain = _lxml.parse(carried, "what the copy's source has")
    _take_out(domain, table, requested)
    for child in domain:
        _require_carried(Place((child,)))
    if domain.find("os/boot") is not None:  # libvirt has an order of kinds, or one of devices
        for boot in root.findall("devices/*/boot[@order]"):
            _remove(boot)
    _merge_children(root, domain)
    for nic in root.iterfind("devices/interface"):
        mac = nic.find("mac")
        key = "" if mac is None else mac.get("address", "").lower()
        _bind(nic, (addresses or {}).get(key, ()))


def _is_bound(place: Place) -> bool:
    return place.names == _PARAMETER and place.elements[-1].get("name") in _BOUND


def _bind(nic: Element, addresses: Sequence[str]) -> None:
    for filterref in nic.iterfind("filterref"):
        bound = [one for one in filterref.findall("parameter") if one.get("value") is None]
        for name in dict.fromkeys(str(one.get("name")) for one in bound):
            for address in map(ipaddress.ip_interface, addresses):
                if address.version == _BOUND[name]:
                    _lxml.add(filterref, "parameter", {"name": name, "value": str(address.ip)})
        for one in bound:
            filterref.remove(one)


def _take_out(domain: Element, table: Table, requested: Collection[str]) -> None:
    for row in table:
        for place in _elements_of(row) if row.name in requested else ():
            for element in domain.findall(place):
                _remove(element)


def _remove(element: Element) -> None:
    above = element.getparent()
    if above is not None:
        above.remove(element)


def _elements_of(row: Setting[object]) -> list[str]:
    """The elements that belong to a setting."""
    own = (row.xml,) if isinstance(row.xml, str) else row.xml.places
    places = (*own, *_PLACES.get(row.name, ()))
    return [one for one in places if one and not one.rpartition("/")[2].startswith("@")]


def settings_at(paths: Iterable[str], table: Table) -> list[str]:
    """The settings whose elements have one of these paths, or contain it."""
    return [
        row.name
        for row in table
        for path in paths
        if any(_is_at(path, place) for place in _elements_of(row))
    ]


def not_at(paths: Iterable[str], table: Table, requested: Collection[str]) -> list[str]:
    """The paths that are not at the places of the ``requested`` settings."""
    rows = [row for row in table if row.name in requested]
    return [path for path in paths if not settings_at([path], rows)]


def _is_at(path: str, place: str) -> bool:
    tags = [one.partition("[")[0] for one in path.split("/")]
    wanted = place.split("/")
    return len(wanted) <= len(tags) and all(one in ("*", tag) for one, tag in zip(wanted, tags))


def _require_carried(place: Place) -> None:
    element = place.elements[-1]
    parts = element.get(_SET)
    known = {"name", _ADDED}
    if _is_bound(place) and {*element.attrib} <= known and not (len(element) or _text(element)):
        return
    if parts is not None:
        names = parts.split()
    else:
        names = [_TEXT, *(f"@{one}" for one in _attributes(element) if not one.startswith(_OURS))]
    for name in names:
        at = place if name == _TEXT else place.at(name[1:])
        line = None if at.names in _CONTAINERS else line_of(at)
        value = _text(element) if name == _TEXT else element.get(name[1:])
        allowed = line is not None and (line.fate == CARRIED or line.value == value)
        if not allowed and not (at.names in _CONTAINERS and not value):
            raise XmlError(f"{shown(at)} of a VM is not carried over into a copy of it")
    for child in element:
        _require_carried(place.below(child))


def _merge_children(parent: Element, carried: Element) -> None:
    devices = parent.tag == "devices"
    before = {str(one.tag): parent.findall(str(one.tag)) for one in carried} if devices else {}
    free = list(parent)
    for child in list(carried):
        number = child.get(_COUNTERPART)
        if devices:
            same = before[str(child.tag)]
            there = same[int(number)] if number and int(number) < len(same) else None
        else:
            there = next((one for one in free if _is_counterpart(child, one)), None)
        if there is None or child.get(_ADDED) is not None:
            parent.append(_added(child))
        else:
            if not devices:
                free.remove(there)
            _merge(there, child)


def _merge(there: Element, carried: Element) -> None:
    parts = carried.get(_SET)
    own = [f"@{name}" for name in _attributes(carried)]
    names = [_TEXT, *own] if parts is None else parts.split()
    for name in names:
        if name == _TEXT:
            there.text = carried.text
        elif not name.startswith(f"@{_OURS}"):
            there.set(name[1:], str(carried.get(name[1:])))
    _merge_children(there, carried)


def _added(carried: Element) -> Element:
    """The element to add, of which nothing is ours."""
    for element in carried.iter():
        for name in (_SET, _COUNTERPART, _ADDED):
            element.attrib.pop(name, "")
    return carried


def _parts_below(place: Place, element: Element) -> Iterator[str]:
    """The paths of what is carried over below an element of the carried ``<domain>``."""
    for child in element:
        below = place.below(child)
        parts = child.get(_SET)
        if below.names in _CONTAINERS:
            yield from _parts_below(below, child)
        elif parts is None and not is_by_itself(below):
            yield shown(below)
        else:
            names = parts.split() if parts is not None else ()
            places = [below if name == _TEXT else below.at(name[1:]) for name in names]
            yield from (shown(one) for one in places if not is_by_itself(one))
            yield from _parts_below(below, child)


def _topmost(paths: Sequence[str]) -> Iterator[str]:
    """The paths, of which those below another are left out."""
    for path in paths:
        if not any(path != other and path.startswith(f"{other}/") for other in paths):
            yield path
