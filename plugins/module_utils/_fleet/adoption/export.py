# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The specification of a VM made by other means: the shortest one that requests what exists.

It goes through the tables of settings: whatever a row reads from the definition is tried in a
specification, and stays if the reader accepts it and the result is what exists. Then everything
that is a default is left out. What no row covers is listed, so that nobody takes the specification
for the complete VM.
"""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Mapping

from ... import _lxml
from ..._records import dataclass, field
from ..base.metadata import Metadata
from ..base.places import Pair
from ..base.settings import Group, Setting, Table
from ..base.xml_values import mib_up
from ..spec import difference, settings, settings_devices
from ..spec import settings_sources as sources
from ..spec.devices import Disk
from ..spec.domain import Domain
from ..spec.leftovers import Leftovers
from ..spec.options import Defaults, from_options
from . import unsupported as undescribed

if t.TYPE_CHECKING:
    from ..._lxml import Element

Options = dict[str, t.Union[object, "Options", list["Options"]]]

# What readers look for first, and what a recreated VM needs to look the same to its guest
_ALWAYS = ("name", "vcpus", "memory", "machine", "disk_profile", "nic_profile")
# What determines the kind of a device: one of another kind is not described
_KINDS = ("device", "mode", "model", "type")
_MOST_LINES = 64


@dataclass(frozen=True)
class Host:
    """What a VM gets on its hypervisor by default."""

    arch: str = "x86_64"
    domain_type: str = "qemu"
    pool: str = "default"


@dataclass(frozen=True)
class DefinedDomain:
    """A domain as libvirt has it: its stored definition, and what that does not contain.

    ``sizes`` are bytes, and ``pools`` names, by target of the disk.
    """

    name: str
    xml: str
    active: bool = False
    autostart: bool = False
    groups: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    pools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """``options`` are what a user would have written, None with ``problems``; ``left`` lists what
    exists and is not in them, but for what libvirt writes of its own accord. ``leftovers`` are what
    a copy gets beside them, and what it cannot have."""

    options: Options | None = None
    domain: Domain | None = None
    left: tuple[str, ...] = ()
    leftovers: Leftovers = field(default_factory=Leftovers)
    problems: tuple[str, ...] = ()


def describe(definition: DefinedDomain, host: Host) -> Description:
    """The specification of a domain."""
    root = _lxml.parse(definition.xml, f"domain {definition.name}")
    writer = _Writer(definition, host, root)
    problems = writer.problems(writer.options)
    if problems:
        return Description(problems=tuple(problems))
    writer.write()
    problems = writer.settle()
    if problems:
        return Description(problems=tuple(problems))
    writer.shorten()
    domain = writer.read(writer.options)
    if domain is None:
        raise AssertionError("a specification that was read is read again")
    leftovers = undescribed.leftovers_of(domain, root, _ADOPTED)
    left = dict.fromkeys((*writer.left, *leftovers.refused, *leftovers.beyond))
    return Description(writer.options, domain, tuple(left), leftovers=leftovers)


class _Writer:
    def __init__(self, definition: DefinedDomain, host: Host, root: Element) -> None:
        self.definition, self.host, self.root = definition, host, root
        self.left: list[str] = []
        self.options: Options = {"name": definition.name}
        self.options.update({"disk_profile": "none", "nic_profile": "none"})

    def read(self, options: Options) -> Domain | None:
        return from_options(options, defaults=Defaults(pool=self.host.pool))[0]

    def problems(self, options: Options) -> list[str]:
        _domain, problems = from_options(options, defaults=Defaults(pool=self.host.pool))
        return [f"{one.path}: {one.message}" for one in problems]

    def write(self) -> None:
        """Everything that rows find."""
        plain = [row for row in settings.VM if row.xml and not isinstance(row, Group)]
        for row in self._grow(plain, self.root, self.options, lambda row: row):
            if row is not settings.Rows.memory_max:
                self._leave(row.name, row, self.root)
        for row in settings.VM:
            if not isinstance(row, Group) or not row.xml:
                continue
            elements = self.root.findall(str(row.xml))
            if row.of == "list":
                self._list(row, elements)
            else:
                self._one(row, elements)
        if self.definition.active is False:
            self.options["start"] = False
        if self.definition.autostart:
            self.options["autostart"] = True
        if self.definition.groups:
            self.options["groups"] = list(self.definition.groups)
        self._boot()

    def _grow(
        self,
        rows: Table,
        element: Element,
        inner: Options,
        whole: t.Callable[[Options], Options],
    ) -> list[Setting[object]]:
        """Put into ``inner`` what ``rows`` find in ``element``; return rows that are not accepted.

        A value may be allowed only together with another that comes later.
        """
        waiting = [row for row in rows if not isinstance(row, Group) and _stands(row, element)]
        count = len(self.problems(whole(inner)))
        everything = {**inner, **{row.name: row.found(element) for row in waiting}}
        if not self.problems(whole(everything)):  # they may need each other
            inner.update(everything)
            return []
        while True:
            refused = []
            for row in waiting:
                value = row.found(element)
                tried = {**inner, row.name: value}
                more = len(self.problems(whole(tried)))
                if more > count or isinstance(value, list):
                    refused.append(row)
                else:
                    inner[row.name], count = value, more
            if len(refused) == len(waiting):
                return refused
            waiting = refused

    def _leave(self, path: str, row: Setting[object], element: Element) -> None:
        self.left.append(f"{path}: {row.show(row.found(element))}")

    def _list(self, group: Group, elements: t.Sequence[Element]) -> None:
        if not elements:
            return
        entries: list[Options] = []
        usual = self._usual(group)

        def whole(entry: Options) -> Options:
            return {**self.options, group.name: [*entries, entry]}

        together = None if usual else self._together(group, elements)
        for number, element in enumerate(elements if together is None else ()):
            values = _values(group, element)
            if values in usual:  # as the guest agent's channel
                usual.remove(values)
                continue
            name = self._name(group, element, number)
            entry: Options = {"name": name} if _has_names(group) else {}
            entry.update(self._storage(element))
            refused = self._grow(group.settings, element, entry, whole)
            domain = self.read(whole(entry))
            path = f"{group.name}.{name}"
            made = getattr(domain, group.name)[-1] if domain is not None else None
            that = made is not None and _is_that(group, made, element)
            if not that or _is_elsewhere(made, element) or (refused and not _has_names(group)):
                self.left.append(f"{path}: {_what(element)}")
                continue
            entries.append(entry)
            for row in refused:
                if not row.same(getattr(made, row.name, None), row.found(element)):
                    self._leave(f"{path}.{row.name}", row, element)
            is_drive = element.get("device") in sources.DRIVES
            if is_drive and element.find("source") is not None:
                self.left.append(f"{path}: {_what(element)}")  # the medium
        if entries or together:
            self.options[group.name] = together or entries

    def _together(self, group: Group, elements: t.Sequence[Element]) -> list[Options] | None:
        """All of them at once, such as NUMA nodes, none of which is allowed without the others."""
        entries: list[Options] = [
            {row.name: row.found(one) for row in group.settings if _stands(row, one)}
            for one in elements
        ]
        domain = None if _has_names(group) else self.read({**self.options, group.name: entries})
        made = getattr(domain, group.name, ())
        values = [[getattr(one, row.name) for row in group.settings] for one in made]
        return entries if values == [_values(group, one) for one in elements] else None

    def _usual(self, group: Group) -> list[list[object]]:
        """The devices of that kind that a VM has by default."""
        domain = self.read(self.options)
        if domain is None or _has_names(group):
            return []
        devices = undescribed.rendered(domain, self.root).findall(str(group.xml))
        return [_values(group, device) for device in devices]

    def _name(self, group: Group, element: Element, number: int) -> str:
        """A disk is named after its target, which identifies it later; a NIC by its MAC address."""
        target = element.find("target")
        if group.name == settings_devices.DISKS.name and target is not None:
            return target.get("dev") or f"disk{number}"
        word = "eth" if group.name == settings_devices.NICS.name else group.name
        return f"{word}{number}"

    def _storage(self, element: Element) -> Options:
        """What the definition does not contain of a disk."""
        target = element.find("target")
        name = target.get("dev") if target is not None else None
        if element.tag == "disk" and element.get("type") == "volume":
            return {"pool": (sources.source_of(element) or ("", ""))[1]}
        if element.tag == "disk" and element.get("type", "file") != "file":
            return {}
        is_disk = element.tag == "disk" and element.get("device", "disk") == "disk"
        if not is_disk or name is None:
            return {}
        size, pool = mib_up(self.definition.sizes.get(name)), self.definition.pools.get(name)
        storage: Options = {} if size is None else {"size": size}
        return {**storage, **({"pool": pool} if pool else {})}

    def _one(self, group: Group, elements: t.Sequence[Element]) -> None:
        """An optional device: the first that can be described."""
        path = group.name

        def whole(inner: Options) -> Options:
            return {**self.options, path: inner or True}

        for element in elements:
            inner: Options = {}
            refused = self._grow(group.settings, element, inner, whole)
            domain = self.read(whole(inner))
            kinds = [row for row in refused if row.name in _KINDS]
            if domain is None or kinds or path in self.options:
                self.left.append(f"{path}: {_what(element)}")
                continue
            for row in refused:
                self._leave(f"{path}.{row.name}", row, element)
            if inner or group is not settings_devices.CPUS:
                self.options[path] = inner or True

    def _boot(self) -> None:
        """The boot order, if every device in it is described."""
        order: dict[int, str | None] = {}
        macs = {str(one.get("mac")): str(one["name"]) for one in _entries(self.options, "nics")}
        disks = {str(one["name"]) for one in _entries(self.options, "disks")}
        for element in self.root.iterfind("devices/*"):
            boot = element.find("boot")
            number = (boot.get("order") or "") if boot is not None else ""
            if not number.isdigit():
                continue
            mac, target = element.find("mac"), element.find("target")
            name = macs.get((mac.get("address") or "").lower()) if mac is not None else None
            dev = target.get("dev") if target is not None else None
            order[int(number)] = dev if name is None and dev in disks else name
        names = [order[number] for number in sorted(order)]
        if names and None not in names:
            self.options["boot"] = list(names)
        elif names:
            self.left.append("boot: the order has a device that is not described")

    def settle(self) -> list[str]:
        """Remove whatever would still differ from what exists; return what differs nevertheless."""
        lines: list[str] = []
        for _line in range(_MOST_LINES):
            domain = self.read(self.options)
            if domain is None:
                return self.problems(self.options)
            lines = self._differences(domain)
            if not lines or not self._take_out(lines[0].partition(":")[0]):
                break
            self.left.append(lines[0])
        return lines

    def _differences(self, domain: Domain) -> list[str]:
        files = difference.sized_disks(domain, self.definition.xml, _ADOPTED)
        sizes = {path: self.definition.sizes.get(target, 0) for target, path in files.items()}
        stored = Metadata(adopted=_ADOPTED.adopted, groups=self.definition.groups)
        existing = difference.Existing(
            self.definition.xml, stored, self.definition.autostart, sizes
        )
        return [str(one) for one in difference.differences(domain, existing)]

    def _take_out(self, path: str) -> bool:
        first, _dot, rest = path.partition("[")[0].partition(".")
        value = self.options.get(first)
        if isinstance(value, list) and rest and isinstance(value[0], dict):
            name, _dot, key = rest.partition(".")
            entry = next((one for one in value if one.get("name") == name), None)
            if entry is None:
                return False
            if key in entry and key not in ("name", "size"):
                del entry[key]
            else:
                value.remove(entry)
            return True
        if isinstance(value, dict) and rest in value:
            del value[rest]
            return True
        if first in self.options and first not in ("name", "disk_profile", "nic_profile"):
            del self.options[first]
            return True
        return False

    def shorten(self) -> None:
        """Leave out what a VM has by default."""
        if self.options.get("arch") == self.host.arch:
            del self.options["arch"]
        if self.options.get("domain_type") == self.host.domain_type:
            del self.options["domain_type"]
        domain = self.read(self.options)
        wanted = self._meaning(self.options)
        for place in _places(self.options):
            shorter = _without(self.options, place)
            made = self.read(shorter)
            if made is not None and (made == domain or self._meant(made) == wanted):
                self.options, domain = shorter, made

    def _meaning(self, options: Options) -> tuple[object, ...] | None:
        """What a specification results in."""
        domain = self.read(options)
        return None if domain is None else self._meant(domain)

    def _meant(self, domain: Domain) -> tuple[object, ...]:
        """The definition, and what is not part of one."""
        disks = tuple((one.name, one.size, one.pool, one.format) for one in domain.disks)
        nics = tuple((one.name, one.mac) for one in domain.nics)
        rest = (domain.start, domain.autostart, domain.groups, domain.boot)
        own = (domain.arch, domain.domain_type)
        text = _lxml.tostring(undescribed.rendered(domain, self.root))
        return (text, disks, nics, rest, own)


# How the definition of an adopted VM is compared
_ADOPTED = Metadata(adopted="yes")


def _stands(row: Setting[object], element: Element) -> bool:
    """Whether there is a value to request; what is missing and has no default is not one."""
    value = row.found(element)
    if isinstance(row.xml, Pair):
        return value is not None
    return bool(row.xml) and value is not None and (row.default, value) != (None, row.absent)


def _has_names(group: Group) -> bool:
    """Whether the entries of a list have names of their own, as disks and NICs do."""
    return any(row.name == "name" and not row.xml for row in group.settings)


def _values(group: Group, element: Element) -> list[object]:
    return [row.found(element) for row in group.settings]


def _entries(options: Options, key: str) -> list[Options]:
    value = options.get(key)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _is_that(group: Group, made: object, element: Element) -> bool:
    """Whether what was described is a device of the same kind, with the same source."""
    kinds = [row for row in group.settings if row.name in ("device", "type", "source", "mac")]
    return all(
        row.same(getattr(made, row.name, None), row.found(element)) for row in kinds if row.xml
    )


def _is_elsewhere(made: object, element: Element) -> bool:
    """Whether a disk that is not a file was described with another source."""
    if element.tag != "disk" or element.get("type", "file") == "file":
        return False
    return not isinstance(made, Disk) or sources.source(made) != sources.source_of(element)


def _what(element: Element) -> str:
    """A device in a few words."""
    words = [str(element.tag), *(element.get(key, "") for key in ("device", "type", "model"))]
    source = element.find("source")
    words += [str(value) for value in source.attrib.values()] if source is not None else []
    return " ".join(word for word in words if word)


def _places(options: Options) -> list[tuple[str | int, ...]]:
    """The path of every option that may be left out, the last first."""
    paths: list[tuple[str | int, ...]] = []
    for key, value in options.items():
        if isinstance(value, list):
            for number, entry in enumerate(value):
                if isinstance(entry, dict):
                    paths += [(key, number, inner) for inner in entry if inner != "name"]
        if isinstance(value, dict):
            paths += [(key, inner) for inner in value]
        if key not in _ALWAYS:
            paths.append((key,))
    return paths[::-1]


def _without(options: Options, place: tuple[str | int, ...]) -> Options:
    remaining = copy.deepcopy(options)
    key, inner = str(place[0]), str(place[-1])
    value = remaining.get(key)
    if len(place) == 1:
        remaining.pop(key, None)
    elif isinstance(value, dict):
        value.pop(inner, None)
        if not value:  # a device that exists, without further options
            remaining[key] = True
    elif isinstance(value, list) and isinstance(place[1], int):
        entry = value[place[1]]
        if isinstance(entry, dict):
            entry.pop(inner, None)
    return remaining
