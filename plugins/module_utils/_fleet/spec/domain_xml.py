# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM specification, and what its host decides, as libvirt's domain XML.

libvirt: https://libvirt.org/formatdomain.html; every document is checked against the schemas that
come with libvirt by the tests. All text goes through lxml, which escapes it.
"""

from __future__ import annotations

import copy
import dataclasses
import typing as t
from collections.abc import Mapping

from ... import _lxml
from ..base import places
from ..base.settings import write
from . import device_groups, fragment, settings, settings_devices
from .devices_xml import VolumeRef, add_devices
from .domain import Domain
from .settings_peripherals import Video

if t.TYPE_CHECKING:
    from ..._lxml import Element

__all__ = ["VolumeRef", "render"]

_X86 = ("x86_64", "i686")
# libvirt accepts any order; this one is for readers
_TAGS = (
    "name",
    "uuid",
    "title",
    "description",
    "metadata",
    "memory",
    "currentMemory",
    "memoryBacking",
    "vcpu",
    "os",
    "features",
    "cpu",
    "clock",
    "on_poweroff",
    "on_reboot",
    "on_crash",
    "devices",
)
_ORDER = {tag: place for place, tag in enumerate(_TAGS)}
_LATE = _ORDER["vcpu"]


def render(
    domain: Domain,
    *,
    uuid: str,
    domain_type: str,
    machine: str,
    arch: str,
    volumes: Mapping[str, VolumeRef],
    cpu: Element | None = None,
    seed_path: str | None = None,
    metadata: Element | None = None,
    log_path: str | None = None,
    emulator: str | None = None,
) -> str:
    """The domain XML, ready for virDomainDefineXMLFlags.

    ``volumes`` maps disk names to where they are; each disk must be in it, a CD drive that is not
    is empty. ``cpu`` is the ``<cpu>`` element of the fleet's baseline, taken when the VM asks for
    no CPU of its own. ``seed_path`` is the seed medium, ``log_path`` the serial console's log on
    the hypervisor.

    Raises KeyError for a disk without a volume.
    """
    rows: dict[str, t.Any] = {"domain_type": domain_type, "machine": machine, "arch": arch}
    if domain_type == "qemu" and "hyperv" not in domain.written:
        rows["hyperv"] = None  # only KVM has what the system needs
    decided = dataclasses.replace(domain, **rows)
    root = _lxml.new("domain", {"type": domain_type})
    _lxml.add(root, "name", text=domain.name)
    _lxml.add(root, "uuid", text=uuid)
    if metadata is not None:
        _lxml.add(root, "metadata").append(copy.deepcopy(metadata))
    system = _lxml.add(root, "os")
    _lxml.add(system, "type", {"arch": arch, "machine": machine}, "hvm")
    _add_features(root, domain_type, arch, domain.memory_max or domain.memory)
    _add_cpu(root, domain, cpu)
    devices = _lxml.add(root, "devices")
    if emulator:
        _lxml.add(devices, "emulator", text=emulator)
    add_devices(
        devices,
        domain,
        machine=machine,
        arch=arch,
        volumes=volumes,
        seed_path=seed_path,
        log_path=log_path,
    )
    write(settings.VM, root, decided)
    chosen = device_groups.Machine(arch, machine, domain_type)
    if domain.console.type != "none" and domain.video is None:
        decided = dataclasses.replace(decided, video=Video())
    device_groups.add(root, decided, chosen)
    device_groups.clock(root, chosen)
    fragment.merge(root, domain.xml)
    root[:] = sorted(root, key=lambda child: _ORDER.get(child.tag, _LATE))
    return _lxml.tostring(root)


def _tcg_cache_mib(memory: int) -> int:
    """The limit of an emulated VM's translation cache, which QEMU would let grow to 1 GiB even for
    96 MiB of memory. A cache that is too small is flushed repeatedly and all code is translated
    again; QEMU counts that (virsh qemu-monitor-command NAME --hmp 'info jit', TB flush)."""
    return max(32, min(memory // 2, 512))


def _add_features(root: Element, domain_type: str, arch: str, memory: int) -> None:
    features = _lxml.new("features")
    if arch in _X86 or arch == "aarch64":
        _lxml.add(features, "acpi")
    if arch in _X86:
        _lxml.add(features, "apic")
    if domain_type == "qemu":
        cache = str(_tcg_cache_mib(memory))
        _lxml.add(_lxml.add(features, "tcg"), "tb-cache", {"unit": "MiB"}, cache)
    if len(features):
        root.append(features)


def _add_cpu(root: Element, domain: Domain, baseline: Element | None) -> None:
    cpu = domain.cpu
    if cpu.mode is None and baseline is not None:
        root.append(copy.deepcopy(baseline))
    element = places.reach(root, "cpu")
    write(settings_devices.CPU, element, cpu)
    if not len(element) and not element.attrib:
        root.remove(element)
