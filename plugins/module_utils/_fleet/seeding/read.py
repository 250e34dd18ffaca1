# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what the planner of seeding an existing VM needs to know.

How the VM would be seeded is read only if it will be: its disk is inspected for that, which takes
half a minute.
"""

from __future__ import annotations

import dataclasses
import os
import typing as t
from pathlib import Path

from ... import _lxml
from ..._libvirt import DOMAIN_XML_INACTIVE, DOMAIN_XML_SECURE
from ..._records import dataclass
from ..base import effects_lookup as lookup
from ..base import metadata
from ..base.effects_connection import Connection
from ..engine import effects_lease_holder as owners
from ..seed import effects_nocloud as seed_nocloud
from ..seed.types import Seed
from ..storage import effects_storage as storage
from ..storage import read_file_users as ownership
from . import medium as seed_domain
from . import plan as planning
from .plan import SeedingFacts, WritableDisk

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from ..base.metadata import Owner, OwnVolume
    from ..seed.guest_image import Seeded


@dataclass(frozen=True)
class SeedingVm:
    """The VM, its definition with passwords, since it is defined again, and the facts."""

    dom: VirDomain
    root: Element
    facts: SeedingFacts
    pool: storage.Pool | None = None  # for a new medium


def read(connection: Connection, name: str, me: Owner | None = None) -> SeedingVm:
    """The VM as it is; ``me`` does not count as another owner. Raises SpecError without one."""
    dom = lookup.require_domains(connection, [name])[name]
    flags = DOMAIN_XML_INACTIVE | DOMAIN_XML_SECURE
    text = connection.call(f"read {name}", dom.XMLDesc, flags)
    root = _lxml.parse(text, f"domain {name}")
    stored = metadata.parse(root)
    owner = stored.owner if stored is not None else None
    facts = SeedingFacts(
        name,
        stored,
        persistent=bool(connection.call(f"read {name}", dom.isPersistent)),
        active=bool(connection.call(f"read the state of {name}", dom.isActive)),
        saved=lookup.is_saved(connection, dom),
        holder=owners.holder(owner) if owner != me else None,
    )
    drive = seed_domain.drive_with(root, [volume.path for volume in facts.media])
    source = drive.find("source") if drive is not None else None
    facts = dataclasses.replace(
        facts,
        drive=source.get("file") if source is not None else None,
        files=frozenset(volume.path for volume in facts.media if os.path.exists(volume.path)),
        started=_started_since(root, facts.media),
    )
    return SeedingVm(dom, root, facts)


def _started_since(root: Element, media: t.Sequence[OwnVolume]) -> bool | None:
    """Whether the VM was started with its medium; None if unknown.

    QEMU recreates the log of its console with each start.
    """
    logs = [element.get("file") for element in root.findall("devices/serial/log")]
    started: bool | None = None
    for volume in media:
        for log in filter(None, logs):
            try:
                made = os.stat(volume.path).st_mtime
            except OSError:
                continue
            try:
                started = bool(started) or os.stat(log).st_mtime >= made
            except FileNotFoundError:
                started = bool(started)
            except OSError:
                continue
    return started


def with_method(
    connection: Connection, vm: SeedingVm, seed: Seed, pool_name: str | None, *, check: bool
) -> SeedingVm:
    """The VM with what matters to how it will be seeded.

    Raises DependencyMissing if a program for that is not installed here.
    """
    facts = dataclasses.replace(vm.facts, chosen=_choose(seed, vm.root, check=check))
    if facts.chosen is not None and facts.chosen["method"] == "offline":
        from ..seed import effects_guest_disk as guest_disk

        guest_disk.require()
        seed_nocloud.require_keys()
        disks = _disks(connection, str(vm.dom.UUIDString()), vm.root)
        return dataclasses.replace(vm, facts=dataclasses.replace(facts, disks=disks))
    seed_nocloud.require_programs()
    wanted, folder = _place(facts, vm.root, pool_name)
    pool = storage.find_pool(connection, wanted, folder)
    if pool is None:
        return dataclasses.replace(vm, facts=dataclasses.replace(facts, pool=wanted))
    volume = planning.new_volume(facts, pool.name, pool.volume_path)
    own = {medium.path for medium in facts.media}  # one that an earlier call of ours has left
    taken = volume.path not in own and storage.is_taken(connection, pool, volume.name)
    facts = dataclasses.replace(facts, pool=pool.name, volume=volume, taken=taken)
    return dataclasses.replace(vm, facts=facts, pool=pool)


def _choose(seed: Seed, root: Element, *, check: bool) -> Seeded:
    """How to seed the VM: for method auto, and in check mode, its disk is inspected."""
    if seed.method == "nocloud":
        return seed_nocloud.CHOSEN
    if seed.method != "auto" and not check:
        return {**seed_nocloud.CHOSEN, "method": "offline"}
    from ..seed import effects_offline as offline

    return offline.look(seed, _disks_of(root)).shown()


def _disks_of(root: Element) -> list[tuple[str, str]]:
    """Path and format of the VM's writable, file-based disks."""
    disks = []
    for disk in root.findall("devices/disk"):
        source, driver = disk.find("source"), disk.find("driver")
        path = source.get("file") if source is not None else None
        excluded = disk.find("readonly") is not None or disk.find("shareable") is not None
        if path and disk.get("device", "disk") == "disk" and not excluded:
            kind = driver.get("type") if driver is not None else None
            disks.append((path, kind or "raw"))
    return disks


def _disks(connection: Connection, uuid: str, root: Element) -> tuple[WritableDisk, ...]:
    """The disks to be written to, and what else uses them or is an overlay on them."""
    disks = _disks_of(root)
    references = ownership.read(connection) if disks else None
    entries = []
    for path, kind in disks:
        users = references.users(path) if references is not None else ()
        others = sorted(user.text for user in users if user.uuid != uuid)
        locked = not others and ownership.is_locked(path)
        entries.append(WritableDisk(path, kind, tuple(others), locked))
    return tuple(entries)


def _place(facts: SeedingFacts, root: Element, name: str | None) -> tuple[str, str | None]:
    """The named pool, else that of the VM's own volumes, else that of the first disk: its name, and
    the folder of one that has another name."""
    own = next(iter(facts.noted.volumes), None)
    if name is None and own is not None:
        name = own.pool
    if name is not None:
        return name, None
    sources = [source.get("file") for source in root.findall("devices/disk/source")]
    return "default", next((str(Path(source).parent) for source in sources if source), None)
