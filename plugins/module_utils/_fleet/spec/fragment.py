# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fragment of libvirt's XML for what no setting covers.

It is a ``<domain>``. Its devices are added to those of the VM. Every other element is merged with
the one at the same place, or added there; its attributes and its text win. What a setting covers is
refused, with the name of that setting. Merging a fragment again changes nothing.
"""

from __future__ import annotations

import copy
import re
import typing as t

from ... import _lxml
from ..._errors import XmlError
from ..base import ip
from ..base.options import Reader, show
from ..base.settings import AT_BOOT, Choice, Group, Setting, Table, Text

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..._lxml import Element

MOST_BYTES = 64 * 1024
# What distinguishes elements with the same tag
_KEYS = ("name", "id", "cellid", "vcpus", "vcpu", "iothread", "index")
_IDENTITY = {
    "name": "use the setting name",
    "uuid": "a VM gets its UUID when it is created",
    "metadata": "the metadata of a VM belongs to the collection",
    "os/type": "use the settings machine and arch",
    "os/firmware": "use the settings firmware and secure_boot",
    "iothreads": "use the setting iothread of disks",
    "iothreadids": "use the setting iothread of disks",
    "devices/console": "the serial console always exists; use the setting serials for more",
    "devices/emulator": "it can start any program as QEMU; install another QEMU instead",
}
# An attribute at the end of a place; one in brackets tells elements apart
_ATTRIBUTE = re.compile(r"(?:(?P<below>.*)/)?@(?P<name>[A-Za-z_:-]+)")
_ATTRIBUTES = {
    ("os", "firmware"): "use the settings firmware and secure_boot",
    ("os/loader", "secure"): "use the setting secure_boot",
}


class Fragment(Text[None]):
    """The text of a fragment."""

    def read(self, reader: Reader) -> str | None:
        value = reader.value(self.name)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if not isinstance(value, str):
            reader.problem(self.name, f"{show(value)} is not text; write <domain>...</domain>")
            return None
        try:
            parse(value)
        except XmlError as error:
            reader.problem(self.name, str(error))
            return None
        return value.strip()


def parse(text: str) -> Element:
    """The ``<domain>`` of a fragment; raises XmlError for what is none."""
    size = len(text.encode("utf-8", "surrogateescape"))
    if size > MOST_BYTES:
        raise XmlError(f"it has {size} bytes, more than {MOST_BYTES}; shorten it")
    root = _lxml.parse(text, "the fragment")
    if root.tag != "domain":
        raise XmlError(f"its root is <{root.tag}>; put the elements into <domain>...</domain>")
    return root


def check(reader: Reader, text: str | None, table: Table) -> None:
    """Report everything that a fragment must not contain; ``table`` are the VM's settings."""
    if text is None:
        return
    root = parse(text)
    messages = dict.fromkeys((*_foreign(root), *_refused(root), *_owned(root, table), *_open(root)))
    if not messages and not len(root):
        messages = {"it is empty; leave it out": None}
    for message in messages:
        reader.problem("xml", message)


def _foreign(root: Element) -> Iterator[str]:
    for element in root.iter():
        for name in (str(element.tag), *map(str, element.attrib)):
            if name.startswith("{"):
                tag = name.partition("}")[2]
                yield (
                    f"{tag} is not in libvirt's own namespace; arguments of QEMU's command line can"
                    " start anything, and no check or migration sees them: use virsh edit, whose"
                    " changes are preserved"
                )
    for name in map(str, root.attrib):
        yield f"<domain> has the attribute {name}; leave it out, or use the setting domain_type"


def _refused(root: Element) -> Iterator[str]:
    for path, reason in _IDENTITY.items():
        if root.find(path) is not None:
            yield f"{path} is not allowed in it: {reason}"
    for (path, name), reason in _ATTRIBUTES.items():
        if any(one.get(name) is not None for one in root.findall(path)):
            yield f"{path}/@{name} is not allowed in it: {reason}"


def _owned(root: Element, table: Table) -> Iterator[str]:
    """What rows of settings cover."""
    owners: dict[str, str] = {}  # the first of several settings that go together
    for row in table:
        if not isinstance(row, Group):
            for place in _places(row):
                if _stands(root, place):
                    owners.setdefault(place, row.name)
        elif str(row.xml).startswith("devices/"):
            if any(_is_of(one, row) for one in root.findall(str(row.xml))):
                owners.setdefault(str(row.xml), row.name)
        elif row.xml:
            for inner in row.settings:
                for place in (f"{row.xml}/{one}" for one in _places(inner)):
                    if _stands(root, place):
                        owners.setdefault(place, f"{row.name}.{inner.name}")
    for place, owner in owners.items():
        yield f"{place} is covered by the setting {owner}; use that"


def _places(row: Setting[object]) -> tuple[str, ...]:
    if isinstance(row.xml, str):
        return (row.xml,) if row.xml else ()
    return row.xml.places


def _stands(root: Element, place: str) -> bool:
    attribute = _ATTRIBUTE.fullmatch(place)
    if attribute is None:
        return root.find(place) is not None
    below, name = attribute["below"], attribute["name"]
    return any(one.get(name) is not None for one in (root.findall(below) if below else [root]))


def _is_of(element: Element, group: Group) -> bool:
    """Whether the group can express a device of this type; one of another type may be added."""
    kind = element.get("type")
    if group.name == "hostdevs":
        return kind in ("pci", "usb")
    row = next((one for one in group.settings if one.xml == "@type"), None)
    choices = row.choices if isinstance(row, Choice) else DISKS if group.name == "disks" else ()
    return kind is None or not choices or kind in choices


DISKS = ("file", "block", "volume", "network")


def _open(root: Element) -> Iterator[str]:
    for source in root.iterfind("devices//source[@mode='bind']"):
        host = source.get("host")
        try:
            loopback = host is None or ip.address(host).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            yield f"a device would listen on {host}; bind it to 127.0.0.1 or ::1, and use a tunnel"


def merge(root: Element, text: str | None) -> None:
    """Add the missing parts of a fragment to the ``<domain>`` ``root``."""
    for child in parse(text) if text else ():
        if child.tag == "devices":
            devices = root.find("devices")
            if devices is None:
                devices = _lxml.add(root, "devices")
            for device in _missing_of(devices, list(child)):
                devices.append(copy.deepcopy(device))
        else:
            _merge(root, child)


def _merge(parent: Element, wanted: Element) -> None:
    there = _counterpart(parent, wanted)
    if there is None:
        parent.append(copy.deepcopy(wanted))
        return
    for name, value in wanted.attrib.items():
        there.set(name, value)
    if _text(wanted):
        there.text = wanted.text
    for child in wanted:
        _merge(there, child)


def _counterpart(parent: Element, wanted: Element) -> Element | None:
    keys = [(key, wanted.get(key)) for key in _KEYS if wanted.get(key) is not None]
    for child in parent.iterchildren(str(wanted.tag)):
        if all(child.get(key) == value for key, value in keys[:1]):
            return child
    return None


def missing(root: Element, text: str | None) -> list[str]:
    """The paths of what is in a fragment and not in ``root``: ``cpu/cache``, ``devices/vsock``."""
    paths: list[str] = []
    for child in parse(text) if text else ():
        if child.tag == "devices":
            devices = root.find("devices")
            lost = list(child) if devices is None else _missing_of(devices, list(child))
            paths += [f"devices/{device.tag}" for device in lost]
        else:
            paths += _lacks(root, child, "")
    return list(dict.fromkeys(paths))


def _missing_of(devices: Element, wanted: Collection[Element]) -> list[Element]:
    """The wanted devices without a counterpart; each device matches only one."""
    free = list(devices)
    lost = []
    for device in wanted:
        counterpart = next((other for other in free if _includes(other, device)), None)
        if counterpart is None:
            lost.append(device)
        else:
            free.remove(counterpart)
    return lost


def _lacks(parent: Element, wanted: Element, above: str) -> list[str]:
    path = f"{above}{wanted.tag}"
    counterpart = _counterpart(parent, wanted)
    if counterpart is None:
        return [path]
    values = {str(name): value for name, value in wanted.attrib.items()}
    paths = [f"{path}/@{name}" for name, value in values.items() if counterpart.get(name) != value]
    if _text(wanted) and _text(counterpart) != _text(wanted):
        paths.append(path)
    for child in wanted:
        paths += _lacks(counterpart, child, f"{path}/")
    return paths


def _includes(there: Element, wanted: Element) -> bool:
    if there.tag != wanted.tag or (_text(wanted) and _text(there) != _text(wanted)):
        return False
    if any(there.get(name) != value for name, value in wanted.attrib.items()):
        return False
    return all(any(_includes(one, child) for one in there) for child in wanted)


def _text(element: Element) -> str:
    return (element.text or "").strip()


XML = Fragment(
    "xml",
    (
        "Settings that have no option, as a fragment of libvirt's XML, a C(<domain>) with the"
        " elements to add. Those below C(<devices>) are added as additional devices. Any other is"
        " merged with the existing one at its place, or added there; its attributes and text take"
        " precedence. At most 64 KiB, without document type and secrets.",
        "Anything that has an option is refused, as are the VM's identity and metadata, another"
        " C(<emulator>), anything that listens on addresses other than loopback, and other"
        " namespaces, including C(<qemu:commandline>), which starts anything that QEMU can, unseen"
        " by any check or move. The error names what to use instead. The whole definition is"
        " validated against libvirt's schema, also in check mode.",
        "It is compared with the definition as libvirt stores it, so write it the way libvirt does"
        " (sizes in KiB, for example). If libvirt stores it differently, it is refused. Elements"
        " that are removed from it stay in the VM; remove them with C(virsh edit).",
    ),
    default=None,
    change=AT_BOOT,
)
