# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seeding an existing VM through its own disk: ``virt_seed`` with method offline, or auto.

While its disk is written to, the VM cannot be started: its definition has phase ``seeding`` and a
drive whose medium never exists. A killed call leaves that state, with a record of what it was to
write; only the same call may run again, and rewrites all of it: another seed would leave parts of
this one.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import typing as t
import uuid as uuids
from pathlib import Path

from ... import _lxml
from ..._errors import FleetVirtError, PlanRefused
from ..._pure.base import metadata
from ..._pure.base.metadata import Metadata
from ..._pure.domain import request, seed_domain, unstartable
from ..._pure.seed import first_boot
from ..._pure.seed.types import Seed, SeededNic
from ..base import domains
from ..base import owner as owners
from ..base.connection import Connection
from ..machine import ownership
from . import guest_disk
from . import nocloud as seed_nocloud
from . import offline as seed_offline

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element

PHASE = "seeding"
_MARKER = ".fleet-virt-seeding"


def disks_of(domain: Element) -> list[tuple[str, str]]:
    """Path and format of the VM's writable, file-based disks."""
    found = []
    for disk in domain.findall("devices/disk"):
        source, driver = disk.find("source"), disk.find("driver")
        path = source.get("file") if source is not None else None
        excluded = disk.find("readonly") is not None or disk.find("shareable") is not None
        if path and disk.get("device", "disk") == "disk" and not excluded:
            kind = driver.get("type") if driver is not None else None
            found.append((path, kind or "raw"))
    return found


def unfinished(stored: Metadata | None, seed: Seed, name: str) -> bool:
    """Whether a killed call left this seed partially written; raises PlanRefused for another."""
    if stored is None or stored.phase != PHASE:
        return False
    if owners.is_alive(stored.owner):
        raise PlanRefused(f"{name!r} is being seeded by another run; wait for it to finish")
    if request.compare(seed_domain.recorded(stored) or {}, seed_domain.as_plain(seed, name)):
        raise PlanRefused(
            f"an interrupted run left {name!r} partially seeded with another seed; repeat that run,"
            " or recreate the VM"
        )
    return True


def choose(seed: Seed, domain: Element, *, check: bool) -> seed_offline.Chosen:
    """How to seed the VM: for method auto, and in check mode, its disk is inspected."""
    if seed.method != "auto" and not check:
        return seed_offline.Chosen(seed.method, seed_nocloud.CHOSEN["reason"], None, None)
    return seed_offline.look(seed, disks_of(domain))


def require_own(connection: Connection, name: str, uuid: str, domain: Element) -> None:
    """Raise PlanRefused unless the VM's disks are files with no other users and no overlays."""
    disks = disks_of(domain)
    if not disks:
        raise PlanRefused(
            f"{name!r} has no file-based disk of its own that a seed could be written to"
        )
    references = ownership.read(connection)
    for path, _kind in disks:
        others = sorted(user.text for user in references.users(path) if user.uuid != uuid)
        if others:
            raise PlanRefused(f"refusing to write to {path}: {', '.join(others)}; copy it first")
        if ownership.is_locked(path):
            raise PlanRefused(f"{path} is in use by a running QEMU process; stop it first")


def write(
    connection: Connection,
    dom: VirDomain,
    domain: Element,
    stored: Metadata | None,
    seed: Seed,
    nics: t.Sequence[SeededNic],
) -> tuple[Metadata, seed_offline.Chosen]:
    """Write the seed into the VM's disks; returns its new metadata and what was found."""
    name, uuid = str(dom.name()), str(dom.UUIDString())
    disks = disks_of(domain)
    final = dataclasses.replace(
        seed_domain.with_record(stored or Metadata(), seed, name),
        phase=None,
        owner=None,
        first_boot=first_boot.expected(dataclasses.replace(seed, method="offline")),
    )
    claim = dataclasses.replace(final, phase=PHASE, owner=owners.myself(str(uuids.uuid4())))
    before = _lxml.tostring(domain)
    unstartable.unmark(domain)
    plain = _lxml.tostring(domain)
    marker = f"{Path(disks[0][0]).parent}/{name}{_MARKER}"
    domains.define(connection, f"define {name}", unstartable.marked(domain, claim, marker))
    try:
        if connection.call(f"read the state of {name}", dom.isActive):
            raise PlanRefused(f"{name!r} was started meanwhile; nothing was changed")
        chosen = seed_offline.seed_disks(
            dataclasses.replace(seed, method="offline"), name, uuid, nics, disks
        )
    except guest_disk.IncompleteWrite:
        raise  # the VM stays as it is and cannot be started
    except FleetVirtError:  # a bug of ours leaves it as a killed call does
        domains.define(connection, f"define {name}", before)
        raise
    final = dataclasses.replace(final, host_key=chosen.host_key)
    root = _lxml.parse(plain, f"domain {name}")
    metadata.put(root, final)
    domains.define(connection, f"define {name}", _lxml.tostring(root))
    return final, chosen
