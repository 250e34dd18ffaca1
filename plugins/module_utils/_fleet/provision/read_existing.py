# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Comparing an existing VM with its specification."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError, PlanRefused, error_message
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..base.json_values import as_list
from ..spec import request
from ..spec.domain import Domain
from ..storage import effects_storage as storage
from . import effects_changing as changing
from . import read_fleet_cpu as fleet_cpu
from .effects_batch import SEED_SUFFIX, BatchSettings, Host
from .pending import pending
from .plan_creation import occupied

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.metadata import Metadata
    from .facts import TakenVm
    from .power import Power


def read(
    connection: Connection, domains: t.Sequence[Domain], settings: BatchSettings
) -> dict[str, object]:
    """What the plan needs of ``domains``: those that exist, and those that cannot be created."""
    return {
        "vms": compare(connection, domains, settings),
        "taken": taken(connection, domains, settings),
    }


def compare(
    connection: Connection, domains: t.Sequence[Domain], settings: BatchSettings
) -> list[dict[str, object]]:
    """How each of ``domains`` that is defined here differs from its specification.

    ``differences`` is None for one that this collection did not create, or has not finished.
    ``drift``: it was created to this specification, so the change was made outside the collection.
    ``pending`` are the settings that wait for its next start, changed by any means. ``condition``
    says what state it is in and what becomes of that, empty if there is nothing to tell;
    ``not_running``: its specification says that it runs, and it does not. ``added_macs`` are the
    MAC addresses that it would get, if there are any.
    """
    host = Host(connection, settings)
    entries: list[dict[str, object]] = []
    changes: dict[str, changing.ChangeJob] = {}
    for domain in domains:
        dom = find_domain(host.connection, domain.name)
        if dom is None:
            continue
        stored = read_metadata(host.connection, dom)
        entry: dict[str, object] = {"name": domain.name, "differences": None, "drift": False}
        entry["pending"] = []
        entry.update(condition="", not_running=False)
        if stored is not None and stored.request is not None and stored.phase is None:
            lines, entry["pending"], power = _differences(host, dom, stored, domain, changes)
            entry["differences"] = lines
            entry["drift"] = bool(lines) and request.repeats(stored.request, domain)
            if power is not None:
                entry.update(condition=power.text, not_running=power.differs)
        entries.append(entry)
    no_room = changing.require_room(host, list(changes.values()))
    for entry in entries:
        reason = no_room.get(str(entry["name"]))
        if reason is not None:
            entry["differences"] = [*as_list(entry["differences"]), _refused(reason)]
        added = changes[str(entry["name"])].added_macs if entry["name"] in changes else []
        if added:
            entry["added_macs"] = added
    return entries


def taken(
    connection: Connection, domains: t.Sequence[Domain], settings: BatchSettings
) -> list[TakenVm]:
    """Those of ``domains`` that are not defined here and would be refused: their volumes have files
    in the way, as those of a VM that was undefined by hand, or the fleet's CPU is not supported."""
    host = Host(connection, settings)
    entries: list[TakenVm] = []
    for domain in domains:
        if find_domain(connection, domain.name) is None:
            reasons = []
            paths = _taken(host, domain)
            if paths:
                reasons += [occupied(path) for path in paths]
            new = fleet_cpu.given(host, domain)
            if new is not domain:
                reasons += fleet_cpu.problems(host, new)
            if reasons:
                entries.append({"name": domain.name, "reasons": reasons})
    return entries


def _taken(host: Host, domain: Domain) -> list[str]:
    paths = []
    own = [disk for disk in domain.disks if disk.device == "disk" and not disk.exists]
    volumes = [(disk.pool, domain.volume_name(disk)) for disk in own]
    if own and domain.seed is not None and domain.seed.method != "offline":
        volumes.append((own[0].pool, f"{domain.name}{SEED_SUFFIX}"))
    for name, volume in volumes:
        try:
            pool = host.pool(name)
        except PlanRefused:
            continue  # placement says so
        if storage.is_taken(host.connection, pool, volume):
            paths.append(pool.volume_path(volume))
    return paths


def _differences(
    host: Host,
    dom: VirDomain,
    stored: Metadata,
    domain: Domain,
    changes: dict[str, changing.ChangeJob],
) -> tuple[list[str], list[str], Power | None]:
    """What would be changed or refused, what already waits for the next start, and what its state
    means; None if that could not be read.

    A change that is not refused is added to ``changes``.
    """
    try:
        change = changing.look(host, dom, stored, domain)
    except FleetVirtError as error:
        return [_refused(error_message(error))], [], None
    texts = [difference.text for difference in change.changes]
    refused = [_refused(refusal) for refusal in change.plan.refusals if refusal not in texts]
    if change.plan.steps:
        changes[domain.name] = change
    xml_unchanged = "xml" not in {difference.path for difference in change.changes}
    waits = pending(change.facts.inactive, change.facts.live, domain.xml if xml_unchanged else None)
    return texts + refused, waits, change.power


def _refused(reason: str) -> str:
    return f"refused: {reason}"
