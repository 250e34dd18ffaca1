# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a VM that exists differs from what this run asks for.

What libvirt knows is compared with libvirt's definition, the one that the next start uses: whoever
changed it by other means changed the VM. What only its creation knew (image, seed) is compared with
the request that is kept with it. What was not written is not compared.

This file is private to the collection.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ... import _lxml
from ..._units import format_size
from ..base import machines
from ..base.metadata import Metadata
from ..machine import domain_info
from . import difference_devices
from .domain import Domain
from .request import as_plain

# Options whose content is one digest in the request that is kept
_SECRET = (
    "password_hash",
    "users",
    "files",
    "ca_certificates",
    "commands",
    "user_data",
)  # fmt: skip
_FIRMWARE = {"uefi": "efi", "bios": "bios"}


@dataclass(frozen=True)
class Existing:
    """A VM as libvirt has it: its definition, ours of it, and what the definition does not say.

    ``sizes`` are bytes by path of the disk, as far as somebody asked for them.
    """

    xml: str
    metadata: Metadata
    autostart: bool
    sizes: Mapping[str, int]


def sized_disks(domain: Domain, xml: str, metadata: Metadata) -> dict[str, str]:
    """Path by target of the disks whose size was asked for, as the definition has them."""
    root = _lxml.parse(xml, f"domain {domain.name}")
    found = {}
    for disk in domain.disks:
        element = difference_devices.disk_element(root, domain, disk, metadata)
        if f"disks.{disk.name}.size" in domain.written and element is not None:
            source, target = element.find("source"), element.find("target")
            path = source.get("file") or source.get("dev") if source is not None else None
            if path and target is not None:
                found[str(target.get("dev"))] = path
    return found


def differences(domain: Domain, existing: Existing) -> list[str]:
    """``memory: asked 1024 MiB, is 512 MiB`` for each difference; empty if there is none."""
    root = _lxml.parse(existing.xml, f"domain {domain.name}")
    facts = domain_info.parse(existing.xml, f"domain {domain.name}")
    found = _Differences(domain)
    found.compare("vcpus", domain.vcpus, facts["vcpus"])
    found.compare("memory", domain.memory, facts["memory_mib"], _mib)
    found.compare("memory_max", domain.memory_max, facts["memory_max_mib"], _mib)
    found.compare("autostart", domain.autostart, existing.autostart)
    found.compare("arch", domain.arch, facts["arch"])
    found.compare("domain_type", domain.domain_type, facts["domain_type"])
    found.compare("title", domain.title, facts["title"])
    found.compare("description", domain.description, facts["description"])
    found.compare("rng", domain.rng, root.find("devices/rng") is not None)
    found.compare("groups", sorted(domain.groups), sorted(existing.metadata.groups), _listed)
    if domain.machine and not machines.is_of(str(facts["machine"]), domain.machine):
        found.add("machine", domain.machine, facts["machine"])
    firmware = facts["firmware"]["type"]
    if domain.firmware and firmware is not None and firmware != _FIRMWARE[domain.firmware]:
        names = {known: name for name, known in _FIRMWARE.items()}
        found.add("firmware", domain.firmware, names.get(firmware, firmware))
    if domain.cpu.mode is not None:
        found.compare("cpu", domain.cpu.mode, facts["cpu_mode"])
        if domain.cpu.model is not None and domain.cpu.mode == facts["cpu_mode"]:
            found.compare("cpu", domain.cpu.model, facts["cpu_model"])
    _console(found, domain, facts["graphics"])
    _watchdog(found, domain, root)
    difference_devices.disks(found, domain, root, existing.metadata, existing.sizes)
    difference_devices.nics(found, domain, facts["nics"], _kept(existing.metadata))
    difference_devices.boot(found, domain, root, existing.metadata)
    _creation(found, domain, _kept(existing.metadata))
    return found.lines


class _Differences(difference_devices.Found):
    def __init__(self, domain: Domain) -> None:
        self.lines: list[str] = []
        self._written = domain.written

    def written(self, path: str) -> bool:
        return path in self._written

    def add(self, path: str, asked: t.Any, real: t.Any) -> None:
        self.lines.append(f"{path}: asked {_show(asked)}, is {_show(real)}")

    def compare(
        self, path: str, asked: t.Any, real: t.Any, show: t.Callable[[t.Any], str] | None = None
    ) -> None:
        if self.written(path) and asked != real:
            shown = show or _show
            self.add(path, shown(asked), "unknown" if real is None and show else shown(real))


def _console(found: _Differences, domain: Domain, graphics: t.Sequence[t.Any]) -> None:
    if not found.written("console"):
        return
    wanted = domain.console
    types = [one["type"] for one in graphics]
    if wanted.type not in (types or ["none"]):
        found.add("console", wanted.type, ", ".join(types) or "none")
    elif wanted.type != "none" and found.written("console.listen"):
        listens = [one["listen"] for one in graphics if one["type"] == wanted.type]
        if wanted.listen not in listens:
            found.add("console.listen", wanted.listen, ", ".join(filter(None, listens)) or None)


def _watchdog(found: _Differences, domain: Domain, root: t.Any) -> None:
    """libvirt adds the one that a machine type has anyway, so one of several may be it."""
    wanted = domain.watchdog
    if wanted is None or not found.written("watchdog"):
        return
    real = [(one.get("model"), one.get("action")) for one in root.findall("devices/watchdog")]
    models = [wanted.model] if wanted.model else [model for model, _action in real]
    if not any((model, wanted.action) in real for model in models):
        asked = " ".join(filter(None, (wanted.model, wanted.action)))
        shown = ", ".join(f"{model} {action or 'reset'}" for model, action in real)
        found.add("watchdog", asked, shown or None)


def _kept(metadata: Metadata) -> Mapping[str, t.Any]:
    """The request that made the VM, its ``disks`` and ``nics`` by name.

    Empty if it cannot be read.
    """
    try:
        kept = json.loads(metadata.request or "{}")
    except ValueError:
        return {}
    if not isinstance(kept, dict):
        return {}
    return {**kept, "disks": _by_name(kept.get("disks")), "nics": _by_name(kept.get("nics"))}


def _by_name(entries: t.Any) -> dict[str, Mapping[str, t.Any]]:
    found = entries if isinstance(entries, list) else []
    return {str(one.get("name")): one for one in found if isinstance(one, dict)}


def _creation(found: _Differences, domain: Domain, kept: Mapping[str, t.Any]) -> None:
    """What only the creation of the VM knew."""
    for disk in domain.disks:
        old = kept.get("disks", {}).get(disk.name)
        if old is None or disk.device != "disk":
            continue
        path = f"disks.{disk.name}"
        image = (old.get("image") or {}).get("value")
        asked = disk.image.value if disk.image else None
        written = found.written(f"{path}.image") or found.written("image")
        if written and asked is not None and asked != image:
            found.add(f"{path}.image", asked, image)
        written = found.written(f"{path}.overlay") or bool(asked and found.written("overlay"))
        if written and "overlay" in old and disk.overlay != old["overlay"]:
            found.add(f"{path}.overlay", disk.overlay, old["overlay"])
    if not found.written("seed") or "seed" not in kept:
        return
    seed, now = kept["seed"], as_plain(domain)["seed"]
    if not isinstance(seed, dict) or not isinstance(now, dict):
        if (seed is None) != (now is None):
            found.add("seed", now is not None, seed is not None)
        return
    for key in sorted(now):
        hidden = key == "secrets" and any(found.written(f"seed.{one}") for one in _SECRET)
        plain = found.written(f"seed.{key}") and (key not in _SECRET or key == "users")
        if (hidden or plain) and key in seed and seed[key] != now[key]:
            if hidden:
                found.lines.append("seed.secrets: asked for others than it was made with")
            else:
                found.add(f"seed.{key}", now[key], seed[key])


def _mib(value: int) -> str:
    return f"{value} MiB" if value < 1024 or value % 1024 else format_size(value) + "iB"


def _listed(value: t.Sequence[str]) -> str:
    return ", ".join(value) or "none"


def _show(value: t.Any) -> str:
    return "none" if value is None else str(value) if isinstance(value, str) else json.dumps(value)
