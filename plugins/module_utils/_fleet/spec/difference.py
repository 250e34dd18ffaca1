# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How an existing VM differs from what this run requests.

What libvirt knows is compared with its persistent definition, the one used at the next start: a
change made by other means is a change of the VM. What only the creation knew (image, seed) is
compared with the request stored with the VM. Options that were not written are not compared.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ... import _lxml
from ..._records import dataclass, field
from ..base.metadata import Metadata
from ..base.options import join
from ..base.settings import Group, Table, names
from ..base.settings import shown as show
from ..base.xml_values import mib_up
from ..seed.types import HIDDEN
from . import (
    device_groups,
    difference_devices,
    fragment,
    settings,
    settings_devices,
    settings_tuning,
)
from .domain import Domain
from .request import Made, as_plain, made_as

if t.TYPE_CHECKING:
    from ..._lxml import Element


@dataclass(frozen=True)
class Existing:
    """A VM as libvirt has it: its definition, our metadata, and what the definition does not say.

    ``sizes`` are bytes by disk path, where a size was requested; ``bases`` the paths of base images
    by image as it was written, where known.
    """

    xml: str
    metadata: Metadata
    autostart: bool
    sizes: Mapping[str, int]
    bases: Mapping[str, str] = field(default_factory=dict)


def sized_disks(domain: Domain, xml: str, metadata: Metadata) -> dict[str, str]:
    """Paths by target of the disks whose size was requested, from the definition."""
    root = _lxml.parse(xml, f"domain {domain.name}")
    paths = {}
    for disk in domain.disks:
        element = difference_devices.disk_element(root, domain, disk, metadata)
        if f"disks.{disk.name}.size" in domain.written and element is not None:
            source, target = element.find("source"), element.find("target")
            path = source.get("file") or source.get("dev") if source is not None else None
            if path and target is not None:
                paths[str(target.get("dev"))] = path
    return paths


def growing(domain: Domain, xml: str, metadata: Metadata, sizes: Mapping[str, int]) -> list[str]:
    """Paths of the disks in the definition that are requested larger than they are."""
    root = _lxml.parse(xml, f"domain {domain.name}")
    paths = []
    for disk in domain.disks:
        element = difference_devices.disk_element(root, domain, disk, metadata)
        source = element.find("source") if element is not None else None
        path = (source.get("file") or source.get("dev")) if source is not None else None
        real = mib_up(sizes.get(path or ""))
        if path and real is not None and disk.size is not None and disk.size > real:
            paths.append(path)
    return paths


@dataclass(frozen=True)
class Difference:
    """One setting, by its path in the request, with both values in readable form."""

    path: str
    asked: str
    real: str

    def __str__(self) -> str:
        return f"{self.path}: requested {self.asked}, is {self.real}"


def differences(domain: Domain, existing: Existing) -> list[Difference]:
    """Every setting that was written and has another value in ``existing``."""
    root = _lxml.parse(existing.xml, f"domain {domain.name}")
    comparison = _Differences(domain)
    comparison.rows("", settings.VM, domain, root)
    comparison.compare("autostart", domain.autostart, existing.autostart)
    comparison.compare("ha", domain.ha, existing.metadata.in_cell)
    comparison.compare("groups", sorted(domain.groups), sorted(existing.metadata.groups), _listed)
    for name in ("start_order", "start_delay"):
        comparison.compare(name, getattr(domain, name), getattr(existing.metadata, name))
    _places(comparison, domain, existing.metadata)
    _cpu(comparison, domain, root)
    _console(comparison, domain, root)
    for kind in device_groups.KINDS:
        compare = _several if kind.several else _optional_device
        compare(comparison, kind.group, getattr(domain, kind.group.name), root)
    difference_devices.disks(comparison, domain, root, existing.metadata, existing.sizes)
    difference_devices.media(comparison, domain, root, existing, made_as(existing.metadata))
    difference_devices.nics(comparison, domain, root, made_as(existing.metadata))
    difference_devices.boot(comparison, domain, root, existing.metadata)
    difference_devices.absent(
        comparison, domain, root, existing.metadata, made_as(existing.metadata)
    )
    _creation(comparison, domain, made_as(existing.metadata))
    lost = fragment.missing(root, domain.xml)
    if lost:
        comparison.add("xml", ", ".join(lost), "not there")
    return comparison.all


class _Differences(difference_devices.Comparison):
    def __init__(self, domain: Domain) -> None:
        self.all: list[Difference] = []
        self._written = domain.written

    def written(self, path: str) -> bool:
        return path in self._written

    def add(self, path: str, asked: object, real: object) -> None:
        self.all.append(Difference(path, show(asked), show(real)))

    def compare(
        self, path: str, asked: object, real: object, shown: t.Callable[[t.Any], str] = show
    ) -> None:
        if self.written(path) and asked != real:
            self.add(path, shown(asked), shown(real))

    def rows(self, path: str, table: Table, asked: object, element: Element) -> None:
        for row in table:
            key = next((key for key in names([row]) if self.written(join(path, key))), None)
            if key is None or not row.xml or isinstance(row, Group) or not row.applies(asked):
                continue
            wanted, real = getattr(asked, row.name), row.found(element)
            if not row.same(wanted, real):
                self.add(join(path, key), row.show(wanted), row.show(real))


def _places(comparison: _Differences, domain: Domain, stored: Metadata) -> None:
    """Compare the placement rules, which may be written beside ``placement`` or in it."""
    place = domain.placement
    asked = {
        "affinity": place.affinity,
        "anti_affinity": place.anti_affinity,
        "tags": place.tags,
        "zone": place.zone,
    }
    for key, value in asked.items():
        real = getattr(stored, key)
        inside = comparison.written("placement") and bool(value)
        if (inside or comparison.written(key)) and value != real:
            listed = not isinstance(value, str) and key != "zone"
            comparison.add(
                key, _listed(value or ()) if listed else value, _listed(real) if listed else real
            )


def _cpu(comparison: _Differences, domain: Domain, root: Element) -> None:
    """Compare the CPU; without a mode, only what was requested."""
    element, wanted = root.find("cpu"), domain.cpu
    if not comparison.written("cpu"):
        return
    for row in settings_devices.CPU:
        asked, real = getattr(wanted, row.name), row.found(element)
        if asked not in (None, ()) and asked != real:
            comparison.add("cpu", asked, real)
            return


def _console(comparison: _Differences, domain: Domain, root: Element) -> None:
    if not comparison.written("console"):
        return
    wanted, row = domain.console, settings_devices.ConsoleSettings
    graphics = root.findall("devices/graphics")
    types = [str(row.type.found(screen)) for screen in graphics]
    if wanted.type not in (types or ["none"]):
        comparison.add("console", wanted.type, ", ".join(types) or "none")
        return
    further = settings_tuning.ConsoleTuning
    for setting, asked in ((further.port, wanted.port), (further.keymap, wanted.keymap)):
        path = f"console.{setting.name}"
        real = [setting.found(each) for each, kind in zip(graphics, types) if kind == wanted.type]
        if comparison.written(path) and asked not in (None, *real):
            comparison.add(path, asked, real[0] if real else None)
    if wanted.type != "none" and comparison.written("console.listen"):
        listens = [
            row.listen.found(screen) for screen, kind in zip(graphics, types) if kind == wanted.type
        ]
        if wanted.listen not in listens:
            shown = ", ".join(str(address) for address in listens if address)
            comparison.add("console.listen", wanted.listen, shown or None)
    if wanted.type in types and wanted.password and comparison.written("console.password"):
        passwords = [row.password.found(screen) for screen in graphics]
        if wanted.password not in passwords:
            comparison.add("console.password", "a different one", "not shown")


def _optional_device(comparison: _Differences, group: Group, wanted: object, root: Element) -> None:
    """Compare an optional device.

    libvirt adds the watchdog built into a machine type, so any one of several may match.
    """
    if wanted is None or not comparison.written(group.name):
        return
    asked = [getattr(wanted, row.name) for row in group.settings]
    devices = root.findall(str(group.xml))
    real = [[row.found(device) for row in group.settings] for device in devices]
    if not any(_as_asked(group, asked, values) for values in real):
        shown = ", ".join(_words(values) for values in real)
        comparison.add(group.name, _words(asked) or True, shown or None)


def _several(
    comparison: _Differences, group: Group, wanted: t.Sequence[object], root: Element
) -> None:
    """Compare a list of devices: each must exist. Others, such as libvirt's, are ignored."""
    if not comparison.written(group.name):
        return
    devices = root.findall(str(group.xml))
    real = [[row.found(device) for row in group.settings] for device in devices]
    for number, spec in enumerate(wanted):
        asked = [getattr(spec, row.name) for row in group.settings]
        if not any(_as_asked(group, asked, other) for other in real):
            shown = ", ".join(_words(other) for other in real)
            comparison.add(f"{group.name}[{number}]", _words(asked), shown or None)


def _as_asked(group: Group, asked: t.Sequence[object], real: t.Sequence[object]) -> bool:
    rows = zip(group.settings, asked, real)
    return all(one in (None, ()) or row.same(one, other) for row, one, other in rows)


def _words(values: t.Sequence[object]) -> str:
    return " ".join(
        " ".join(value) if isinstance(value, tuple) else str(value)
        for value in values
        if value not in (None, ())
    )


def _creation(comparison: _Differences, domain: Domain, kept: Made) -> None:
    """Compare what only the creation of the VM knew."""
    for disk in domain.disks:
        old = kept.get("disks", {}).get(disk.name)
        if old is None or disk.device != "disk":
            continue
        path = f"disks.{disk.name}"
        image = (old.get("image") or {}).get("value")
        asked = disk.image.value if disk.image else None
        written = comparison.written(f"{path}.image") or comparison.written("image")
        if written and asked is not None and asked != image:
            comparison.add(f"{path}.image", asked, image)
        written = comparison.written(f"{path}.overlay") or bool(
            asked and comparison.written("overlay")
        )
        if written and "overlay" in old and disk.overlay != old["overlay"]:
            comparison.add(f"{path}.overlay", disk.overlay, old["overlay"])
    if not comparison.written("seed") or "seed" not in kept:
        return
    seed, now = kept["seed"], as_plain(domain)["seed"]
    if not isinstance(seed, dict) or not isinstance(now, dict):
        if (seed is None) != (now is None):
            comparison.add("seed", now is not None, seed is not None)
        return
    for key in sorted(now):
        hidden = key == "secrets" and any(comparison.written(f"seed.{option}") for option in HIDDEN)
        plain = comparison.written(f"seed.{key}") and (key not in HIDDEN or key == "users")
        if (hidden or plain) and key in seed and seed[key] != now[key]:
            if hidden:
                comparison.add("seed.secrets", "others", "those it was created with")
            else:
                comparison.add(f"seed.{key}", now[key], seed[key])


def _listed(value: t.Sequence[str]) -> str:
    return ", ".join(value) or "none"
