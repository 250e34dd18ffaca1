# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write and read settings of machine and devices that are more than a single value.

A place in the XML that depends only on the setting (the timer's name) is an argument here.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ... import _lxml
from ..base import places
from ..base.places import Pair
from ..base.xml_values import mib_up, number, pci_address, scaled

if t.TYPE_CHECKING:
    from ..._lxml import Element

_PAGE = "hugepages/page"


def _named(element: Element, tag: str, name: str) -> Element | None:
    return next((one for one in element.iterfind(tag) if one.get("name") == name), None)


def timer(name: str, attribute: str, field: str) -> Pair:
    """One attribute of one of the clock's timers; a boolean is yes or no."""

    def write(element: Element, whole: object) -> None:
        value = getattr(whole, field)
        if value is None:
            return
        timer_element = _named(element, "timer", name)
        if timer_element is None:
            timer_element = _lxml.add(element, "timer", {"name": name})
        word = {True: "yes", False: "no"}.get(value) if isinstance(value, bool) else str(value)
        timer_element.set(attribute, str(word))

    def read(element: Element) -> object:
        timer_element = _named(element, "timer", name)
        text = None if timer_element is None else timer_element.get(attribute)
        return {"yes": True, "no": False}.get(text, text) if text is not None else None

    place = f"timer[@name='{name}']"  # with what is of one tick policy alone
    return Pair(write, read, (f"{place}/@{attribute}", f"{place}/catchup"))


def switched(tag: str, attribute: str, field: str, whole_number: bool = False) -> Pair:
    """A feature that is enabled with a value."""

    def write(element: Element, whole: object) -> None:
        value = getattr(whole, field)
        if value is not None:
            places.put(element, f"{tag}/@state", "on")
            places.put(element, f"{tag}/@{attribute}", str(value))

    def read(element: Element) -> object:
        feature = element.find(tag)
        text = None if feature is None else feature.get(attribute)
        return number(text) if whole_number else text

    return Pair(write, read, (tag,))


def kibibytes(place: str, field: str) -> Pair:
    """A size in MiB, the text of an element or an attribute, with its unit beside it."""
    below, at, attribute = place.rpartition("@")
    unit = f"{below}@unit" if at else f"{place}/@unit"

    def write(element: Element, whole: object) -> None:
        value = getattr(whole, field)
        if value is not None:
            places.put(element, unit, "KiB")
            places.put(element, place, str(value * 1024))

    def read(element: Element) -> object:
        holder = element.find(below.rstrip("/") or ".") if at else element.find(place)
        if holder is None:
            return None
        text = holder.get(attribute) if at else holder.text
        return mib_up(scaled(text, holder.get("unit") or "KiB"))

    return Pair(write, read, (place, unit) if at else (place,))


def _write_pins(element: Element, whole: t.Any) -> None:
    for pin in whole.vcpupin or ():
        vcpu, _dummy, cpus = pin.partition(":")
        _lxml.add(element, "vcpupin", {"vcpu": vcpu, "cpuset": cpus})


def _read_pins(element: Element) -> object:
    return tuple(f"{one.get('vcpu')}:{one.get('cpuset')}" for one in element.iterfind("vcpupin"))


def _write_pci(element: Element, whole: t.Any) -> None:
    if whole.pci is None:
        return
    domain, bus, rest = whole.pci.split(":")
    slot, _dummy, function = rest.partition(".")
    for place, text in (("@mode", "subsystem"), ("@type", "pci"), ("@managed", "yes")):
        places.put(element, place, text)
    numbers = {"domain": domain, "bus": bus, "slot": slot, "function": function}
    for key, digits in numbers.items():
        places.put(element, f"source/address/@{key}", f"0x{digits.lower()}")


def _read_pci(element: Element) -> object:
    if element.get("type") != "pci":
        return None
    return pci_address(element.find("source/address"))


def _write_usb(element: Element, whole: t.Any) -> None:
    if whole.usb is None:
        return
    places.put(element, "@mode", "subsystem")
    places.put(element, "@type", "usb")
    for key, digits in zip(("vendor", "product"), whole.usb.split(":")):
        places.put(element, f"source/{key}/@id", f"0x{digits.lower()}")


def _read_usb(element: Element) -> object:
    vendor, product = element.find("source/vendor"), element.find("source/product")
    if element.get("type") != "usb" or vendor is None or product is None:
        return None
    return ":".join((one.get("id") or "").removeprefix("0x") for one in (vendor, product))


def video_memory(field: str) -> Pair:
    """Memory of the graphics card, whose attribute is in KiB without a unit."""

    def write(element: Element, whole: object) -> None:
        value = getattr(whole, field)
        if value is not None:
            places.put(element, f"model/@{field}", str(value * 1024))

    def read(element: Element) -> object:
        model = element.find("model")
        return None if model is None else mib_up(scaled(model.get(field), "KiB"))

    return Pair(write, read, (f"model/@{field}",))


def policy(name: str, field: str) -> Pair:
    """The CPU's features with one policy."""

    def write(element: Element, whole: object) -> None:
        for feature in getattr(whole, field) or ():
            _lxml.add(element, "feature", {"policy": name, "name": feature})

    def read(element: Element) -> object:
        features = element.iterfind("feature")
        return tuple(
            str(feature.get("name")) for feature in features if feature.get("policy") == name
        )

    return Pair(write, read, (f"feature[@policy='{name}']",))


PAGE = replace(kibibytes(f"{_PAGE}/@size", "page_size"), places=(_PAGE,))
PINS = Pair(_write_pins, _read_pins, ("vcpupin",))
PCI = Pair(_write_pci, _read_pci, ("source",))
USB = Pair(_write_usb, _read_usb, ("source",))
