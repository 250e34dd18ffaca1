# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every domain that libvirt tests itself with is read, and what a row reads it writes."""

from __future__ import annotations

import collections
import copy
import os
import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import export as described
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import (
    unsupported as undescribed,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.settings import Group, Setting
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import domain_info
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import definition
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import (
    difference,
    difference_devices,
    leftovers,
    settings,
    settings_devices,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.leftover_rules import (
    Place,
    line_of,
)
from ansible_collections.fleet.virt.tests.contract import _libvirt_source

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.module_utils._lxml import Element

    Fact = tuple[str, str, str]
    Pairs = list[tuple[Setting[object], object, object]]

_HOST = described.Host("x86_64", "qemu")
_ADOPTED = Metadata(adopted="yes")
_BROKEN = "broken-xml-invalid.xml"  # libvirt reads it no more than we
_DEVICES = (settings_devices.DISKS, settings_devices.NICS)
_NO_VALUE: tuple[object, ...] = (None, "", ())
# What a change of the setting itself has to take out: how often it was there is libvirt's word
_REPLACED = ("/vcpus", "/devices/graphics@listen")
_LEAST_COVERED = 0.8


@pytest.fixture(scope="module")
def folder() -> Path:
    """The folder of libvirt's documents."""
    return _libvirt_source.documents()


def _plain(table: t.Iterable[Setting[object]]) -> list[Setting[object]]:
    return [row for row in table if row.xml and not isinstance(row, Group)]


def _groups() -> list[Group]:
    return [row for row in settings.VM if isinstance(row, Group) and row.xml]


def _facts(element: Element, path: str = "") -> Iterator[Fact]:
    """Every element by its way, every attribute, every text."""
    count: collections.Counter[str] = collections.Counter()
    for child in element.iterchildren("*"):
        count[child.tag] += 1
        way = f"{path}/{child.tag}[{count[child.tag]}]"
        yield way, "", (child.text or "").strip()
        for key, value in child.attrib.items():
            yield way, str(key), str(value)
        yield from _facts(child, way)


def _values(root: Element) -> list[object]:
    """What every row reads, of everything in the document."""
    found = [row.found(root) for row in _plain(settings.VM)]
    for group in _groups():
        rows = _plain(group.settings)
        found += [[row.found(one) for row in rows] for one in root.findall(str(group.xml))]
    return found


def _document(text: str, name: str) -> tuple[Element, described.Description]:
    """It is read by all that reads domains."""
    domain_info.parse(text, name)
    root = _lxml.parse(text, name)
    _values(root)
    targets = root.iterfind("devices/disk/target")
    sizes = {str(one.get("dev")): 8 << 20 for one in targets}
    found = described.describe(described.DefinedDomain("v", text, active=True, sizes=sizes), _HOST)
    assert not found.problems, (name, found.problems)
    return root, found


def _pairs(root: Element, made: Element, domain: Domain) -> Pairs:
    """Every value that stands in a document, and what stands there in the one that was rendered."""
    found: Pairs = [(row, row.found(root), row.found(made)) for row in _plain(settings.VM)]
    for group in _groups():
        rows, elements = _plain(group.settings), root.findall(str(group.xml))
        for element in elements:
            other = _same(group, element, root, made, domain)
            found += [
                (row, row.found(element), None if other is None else row.found(other))
                for row in rows
            ]
    return [one for one in found if one[1] not in _NO_VALUE and one[1] != one[0].absent]


def _same(
    group: Group, element: Element, root: Element, made: Element, domain: Domain
) -> Element | None:
    """The device as it was rendered."""
    others = made.findall(str(group.xml))
    if group not in _DEVICES:
        rows = _plain(group.settings)
        asked = [row.found(element) for row in rows]
        return max(
            others, default=None, key=lambda one: sum(map(_equal, rows, asked, _all(rows, one)))
        )
    for number, disk in enumerate(domain.disks if group is settings_devices.DISKS else ()):
        if difference_devices.disk_element(root, domain, disk, _ADOPTED) is element:
            return others[number]
    for number, nic in enumerate(domain.nics if group is settings_devices.NICS else ()):
        if difference_devices.nic_with(root, nic.mac) is element:
            return others[number]
    return None


def _all(rows: t.Iterable[Setting[object]], element: Element) -> list[object]:
    return [row.found(element) for row in rows]


def _equal(row: Setting[object], asked: object, real: object) -> bool:
    return bool(asked == real or row.same(asked, real))


def _mended(domain: Domain, root: Element) -> list[difference.Difference]:
    """What would be written if each setting that is described were to be changed."""
    names = ["cpu", *(row.name for row in _plain(settings.VM))]
    if root.find("memory") is None:  # which is in whatever libvirt says itself
        names.remove("memory")
    for group in _groups():
        whole = getattr(domain, group.name)
        if group.of != "list" and whole is not None and group.change is not None:
            rows = _plain(group.settings)
            if any(getattr(whole, row.name, None) not in (None, ()) for row in rows):
                names.append(group.name)
    paths = [one for one in names if one in domain.written and one not in ("watchdog", "tpm")]
    paths = [one for one in paths if one != "console"]
    paths += [one for one in domain.written if one.startswith(("disks.", "nics.", "console."))]
    found = [difference.Difference(path, "", "") for path in paths]
    return [one for one in found if _may_change(domain, one, root)]


def _may_change(domain: Domain, one: difference.Difference, root: Element) -> bool:
    device = definition.device_of(domain, one.path)
    if device is not None and not device.key:  # the device itself, which is there
        return False
    return definition.change_of(domain, one, root).when != "never"


# Settings write it in KiB; for a CD drive it means nothing; what is in it counts
_TOP = Place(())
_SAID_OTHERWISE = ("cpu/numa/cell/@memory", "devices/disk/driver/@discard", "metadata")


def _not_copied(root: Element, found: described.Description, made: Element) -> list[str]:
    """What a copy would lack without a word: neither there, nor made anew, refused or named."""
    assert found.domain is not None
    copied = copy.deepcopy(made)
    leftovers.merge(copied, found.leftovers.carried, settings.VM, ())
    there = {(re.sub(r"\[\d+\]", "", way), key, value) for way, key, value in _facts(copied)}
    return [
        leftovers.shown(place)
        for place, key, value in _places(root)
        if (f"/{'/'.join(place.names[: len(place.elements)])}", key, value) not in there
        and "/".join(place.names) not in _SAID_OTHERWISE
        and not _has_reason(place, (*found.leftovers.refused, *found.leftovers.left_out))
    ]


def _places(root: Element, place: Place = _TOP) -> Iterator[tuple[Place, str, str]]:
    """Every part of a definition, with what :func:`_facts` has of it."""
    for child in root.iterchildren("*"):
        below = place.below(child)
        yield below, "", (child.text or "").strip()
        for key, value in child.attrib.items():
            yield below.at(str(key)), str(key), str(value)
        yield from _places(child, below)


def _has_reason(place: Place, named: tuple[str, ...]) -> bool:
    """Whether the part, or one that it is in, is made anew or named, as refused or left out."""
    path = leftovers.shown(place)
    if any(path == one or path.startswith((f"{one}/",)) for one in named):
        return True
    parts = [Place(place.elements[:count]) for count in range(1, len(place.elements) + 1)]
    lines = [line_of(one) for one in (*parts, place)]
    return any(line is not None and line.fate == "made" for line in lines)


def test_rendering_what_was_read_changes_nothing(folder: Path) -> None:
    """Neither in a new definition nor in the one that is there, of which nothing else goes.

    All of them with FLEET_VIRT_TRIALS, else each fourth.
    """
    read = whole = values = covered = written = 0
    every = 1 if "FLEET_VIRT_TRIALS" in os.environ else 4
    texts = {path.read_text(encoding="utf-8"): path.name for path in sorted(folder.iterdir())}
    texts = dict(list(texts.items())[::every])
    missing: collections.Counter[str] = collections.Counter()
    problems: list[str] = []
    for text, name in texts.items():
        if name == _BROKEN:
            with pytest.raises(XmlError):
                _document(text, name)
            continue
        root, found = _document(text, name)
        domain = found.domain
        assert domain is not None
        made = undescribed.rendered(domain, root)
        pairs = _pairs(root, made, domain)
        lost = [row.name for row, asked, real in pairs if not _equal(row, asked, real)]
        dropped = _not_copied(root, found, made)
        if dropped:
            problems.append(f"{name}: a copy lacks {dropped}")
        if lost and not found.left:
            problems.append(f"{name}: {lost} are neither described nor named")
        missing.update(lost)
        read, whole = read + 1, whole + (not found.left)
        values, covered = values + len(pairs), covered + len(pairs) - len(lost)

        changes = _mended(domain, root)
        wanted = definition.DefinitionRequest(domain, _lxml.tostring(copy.deepcopy(made)))
        after = _lxml.parse(definition.changed(text, wanted, changes, _ADOPTED), name)
        if _values(after) != _values(root):
            problems.append(f"{name}: what was written is read otherwise")
        gone = [
            f"{way}@{key}={value}" for way, key, value in set(_facts(root)) - set(_facts(after))
        ]
        gone = [one for one in gone if not one.replace("[1]", "").startswith(_REPLACED)]
        if gone:
            problems.append(f"{name}: {sorted(gone)} went with another setting")
        written += len(changes)
    assert not problems, "\n".join(problems)
    assert read > 2000 / every
    share = covered / values
    print(
        f"libvirt {_libvirt_source.VERSION}'s own domains: {read} read, {whole} of them described"
        f" whole; of {values} values that our settings have in them {covered} ({share:.1%}) are"
        f" written again as they are; {written} settings rewritten in place changed nothing else"
    )
    print("most of those that are named and left:", missing.most_common(12))
    assert share > _LEAST_COVERED


def test_what_is_left_out_means_to_us_what_it_means_to_libvirt(folder: Path) -> None:
    """A document without a setting, and what libvirt made of it."""
    seen: collections.Counter[str] = collections.Counter()
    rows = [row for row in _plain(settings.VM) if row.absent not in (None, False)]
    for path in sorted(folder.glob("*.x86_64-latest.xml")):
        before = path.with_name(path.name.replace(".x86_64-latest", ""))
        if not before.exists():
            continue
        asked, made = (
            _lxml.parse(one.read_text(encoding="utf-8"), one.name) for one in (before, path)
        )
        for row in rows:
            if asked.find(str(row.xml)) is None and made.find(str(row.xml)) is not None:
                assert row.found(made) == row.absent, (path.name, row.name)
                seen[row.name] += 1
    print("left out, and as libvirt has it:", dict(seen))
    assert set(seen) >= {"on_poweroff", "on_reboot", "on_crash"}
