# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a difference cannot be removed in the running VM, and so waits for the next start."""

from __future__ import annotations

import typing as t

from ..base.json_values import require_type
from ..base.xml_values import number
from ..spec import settings
from ..spec.devices import Nic
from . import definition, hotplug

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.metadata import Metadata
    from ..spec.difference import Difference
    from .definition import DefinitionRequest, Device


class _Facts(t.Protocol):
    @property
    def metadata(self) -> Metadata: ...
    @property
    def running(self) -> bool: ...
    @property
    def balloon(self) -> bool | None: ...


class Obstacles:
    """The running VM ``live``; each device that is asked about takes a place in it.

    ``stored`` are all differences: what they remove makes room for what they add.
    """

    def __init__(
        self,
        facts: _Facts,
        wanted: DefinitionRequest,
        live: Element,
        stored: t.Iterable[Difference],
    ) -> None:
        self.facts, self.wanted, self.live = facts, wanted, live
        self.room = hotplug.Room(live)
        for difference in stored:
            device = definition.device_of(wanted.domain, difference.path)
            if device is None or device.spec is not None:
                continue
            element = definition.located(live, wanted.domain, device, facts.metadata)
            if element is not None and self._unplug(device, element) is None:
                self.room.free(element)

    def of(self, difference: Difference, device: Device | None) -> str | None:
        """Why it cannot be done in the running VM, in words where that is not obvious."""
        domain, running, live = self.wanted.domain, self.facts.running, self.live
        if difference.path == "vcpus":
            most = require_type(settings.Rows.vcpus_max.found(live), int)
            can = running and domain.vcpus <= most and hotplug.can_take_vcpus(live, domain.vcpus)
            return None if can else ""
        if difference.path == "memory":
            most = require_type(settings.Rows.memory_max.found(live), int)
            if not running or domain.memory > most:
                return ""
            return hotplug.memory_obstacle(live, self.facts.balloon)
        if (
            difference.path == "console.password"
        ):  # QEMU accepts one only if it had one at its start
            screens = live.findall(f"devices/graphics[@type='{domain.console.type}']")
            return None if all(screen.get("passwd") for screen in screens) else ""
        if device is None or device.key == "size":
            return None
        element = definition.located(live, domain, device, self.facts.metadata)
        if not device.key:
            return self._plug(device, element)
        if device.kind == "nics":
            if device.key == "source" and element is not None and isinstance(device.spec, Nic):
                kind = device.spec.type
                return None if kind != "direct" and element.get("type") == kind else ""
            return None
        # libvirt changes the medium and limits of a running VM's disk
        can = element is not None and device.key in ("image", *definition.LIMITS)
        return None if can else ""

    def _plug(self, device: Device, element: Element | None) -> str | None:
        """Why a device cannot be added to the running VM, or removed from it."""
        spec, live = device.spec, self.live
        if (element is None) == (spec is None):
            return None  # it is already detached, or attached
        if spec is None:
            return "" if element is None else self._unplug(device, element)
        if isinstance(spec, Nic) and not self.facts.running:
            return ""
        if isinstance(spec, Nic):
            return self.room.nic(spec.model)
        threads = number(live.findtext("iothreads")) or 0
        if spec.device != "disk" or (spec.iothread or 0) > threads:
            return ""
        wanted = definition.target_of(live, self.wanted.domain, spec)
        return self.room.disk(spec.bus, wanted)

    def _unplug(self, device: Device, element: Element) -> str | None:
        """Why a device cannot be removed from the running VM."""
        if not self.facts.running:
            return ""
        if device.kind == "disks":
            target = element.find("target")
            bus = str(target.get("bus")) if target is not None else ""
            if element.get("device") != "disk" or bus not in hotplug.UNPLUGGED:
                return ""
        return None if hotplug.can_be_unplugged(self.live, element) else hotplug.SOLDERED
