# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which settings wait for the next start: the live definition compared with the stored one."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..base.settings import AT_BOOT, Group, Setting, Table
from ..spec import fragment, settings, settings_devices

if t.TYPE_CHECKING:
    from ..._lxml import Element

# libvirt shows these of a running VM as resolved: the host's CPU in place of host-model
_CHOSEN_AT_START = ("host-model", None)
# The maximum stands for the number: the guest may have given memory back by itself
_ROWS = ("vcpus", "vcpus_max", "memory_max", "machine", "rng", "domain_type", "firmware")
_LISTS = ((settings_devices.DISKS, "target", "dev"), (settings_devices.NICS, "mac", "address"))


def pending(inactive: str, live: str | None, xml: str | None = None) -> list[str]:
    """Paths of settings that differ; those of devices by the target or MAC address.

    ``xml`` is the requested fragment.
    """
    if live is None:
        return []
    stored, runs = _lxml.parse(inactive, "definition"), _lxml.parse(live, "what runs")
    paths = [row.name for row in settings.VM if row.name in _ROWS and _differ(row, stored, runs)]
    if settings_devices.CpuSettings.mode.found(stored.find("cpu")) not in _CHOSEN_AT_START:
        rows = (settings_devices.CpuSettings.mode, settings_devices.CpuSettings.model)
        if any(_differ(row, stored.find("cpu"), runs.find("cpu")) for row in rows):
            paths.append("cpu")
    groups = [row for row in settings.VM if isinstance(row, Group) and row.xml]
    single = [group for group in groups if group.of != "list" and group.name != "cpu"]
    paths += [group.name for group in single if _devices(group, stored) != _devices(group, runs)]
    for group, tag, key in _LISTS:
        paths += _listed(group, tag, key, stored, runs)
    if _order(stored) != _order(runs):
        paths.append("boot")
    if fragment.missing(runs, xml):
        paths.append("xml")
    return paths


def _differ(row: Setting[object], stored: Element | None, runs: Element | None) -> bool:
    return bool(row.found(stored) != row.found(runs))


def _waits(table: Table) -> list[Setting[object]]:
    """Rows whose change waits for the next start, and the one that may have to.

    libvirt chooses a console's port when it is started.
    """
    late, chosen = settings_devices.ConsoleSettings.password, ("port",)
    waiting = [row for row in table if row.xml and row.change is AT_BOOT]
    return [row for row in table if row is late or (row in waiting and row.name not in chosen)]


def _devices(group: Group, root: Element) -> list[list[object]]:
    rows = _waits(group.settings)
    return [[row.found(one) for row in rows] for one in root.findall(str(group.xml))]


def _listed(group: Group, tag: str, key: str, stored: Element, runs: Element) -> list[str]:
    before, now = _by(group, tag, key, runs), _by(group, tag, key, stored)
    paths = [
        f"{group.name}.{name}" for name in (*now, *before) if (name in now) != (name in before)
    ]
    for name, element in now.items():
        rows = _waits(group.settings) if name in before else []
        differing = [row.name for row in rows if _differ(row, element, before[name])]
        paths += [f"{group.name}.{name}.{row}" for row in differing]
    return paths


def _by(group: Group, tag: str, key: str, root: Element) -> dict[str, Element]:
    elements = {}
    for element in root.findall(str(group.xml)):
        place = element.find(tag)
        if place is not None:
            elements[str(place.get(key))] = element
    return elements


def _order(root: Element) -> list[tuple[str, str]]:
    order = []
    for boot in root.iterfind("devices/*/boot"):
        above = boot.getparent()
        place = above.find("target") if above is not None else None
        place = above.find("mac") if above is not None and place is None else place
        if place is not None:
            name = place.get("dev") or place.get("address") or ""
            order.append((boot.get("order") or "", name))
    return sorted(order)
