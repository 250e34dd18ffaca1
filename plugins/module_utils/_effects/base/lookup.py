# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding domains by their names, and what we keep with them.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..._errors import LibvirtFailure, Problem, SpecError
from ..._libvirt import (
    DOMAIN_AFFECT_CONFIG,
    DOMAIN_AFFECT_LIVE,
    DOMAIN_XML_INACTIVE,
    ERR_NO_DOMAIN,
    ERR_NO_SUPPORT,
)
from ..._lxml import parse, tostring
from ..._pure.base import metadata
from ..._pure.base.metadata import Metadata
from . import domains
from .connection import Connection

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

AFFECT_LIVE = DOMAIN_AFFECT_LIVE
AFFECT_CONFIG = DOMAIN_AFFECT_CONFIG
_SHOWN = 20


def find_domain(connection: Connection, name: str) -> VirDomain | None:
    """libvirt's object for the domain ``name`` (virDomainLookupByName), None if there is none."""
    try:
        found: VirDomain = connection.call(
            f"look for domain {name}", connection.raw.lookupByName, name
        )
    except LibvirtFailure as error:
        if error.code == ERR_NO_DOMAIN:
            return None
        raise
    return found


def require_domains(connection: Connection, names: t.Sequence[str]) -> dict[str, VirDomain]:
    """libvirt's object for each name; raises SpecError with every name that is not there."""
    found = {name: find_domain(connection, name) for name in dict.fromkeys(names)}
    unknown = [name for name, raw in found.items() if raw is None]
    if unknown:
        listed = connection.call("list domains", connection.raw.listAllDomains, 0)
        known = sorted(str(raw.name()) for raw in listed)
        there = ", ".join(known[:_SHOWN]) or "none"
        more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        raise SpecError(
            [
                Problem("names", f"no domain {name!r} on this hypervisor; there are: {there}{more}")
                for name in unknown
            ]
        )
    return {name: raw for name, raw in found.items() if raw is not None}


def kept_metadata(connection: Connection, raw: VirDomain) -> Metadata | None:
    """Our metadata in the persistent definition, None if there is none."""
    text = connection.call(f"read domain {raw.name()}", raw.XMLDesc, DOMAIN_XML_INACTIVE)
    return metadata.parse(parse(text, f"domain {raw.name()}"))


def checkpoints(connection: Connection, raw: VirDomain) -> tuple[str, ...]:
    """Names of the domain's checkpoints, sorted; none of a driver that knows of none."""
    try:
        listed = connection.call(f"list checkpoints of {raw.name()}", raw.listAllCheckpoints, 0)
    except LibvirtFailure as error:
        if error.code != ERR_NO_SUPPORT:
            raise
        return ()
    return tuple(sorted(str(one.getName()) for one in listed))


def is_saved(connection: Connection, raw: VirDomain) -> bool:
    """Whether its memory was saved; no driver without that has any."""
    try:
        return bool(connection.call("look for saved memory", raw.hasManagedSaveImage, 0))
    except LibvirtFailure as error:
        if error.code == ERR_NO_SUPPORT:
            return False
        raise


def restore_metadata(connection: Connection, raw: VirDomain, kept: Metadata | None) -> None:
    """Our metadata in the definition as they were before; None if there were none."""
    if kept is not None:
        write_metadata(connection, raw, kept, AFFECT_CONFIG)
        return
    action = f"remove the metadata of {raw.name()}"
    domains.set_metadata(connection, action, raw, None, AFFECT_CONFIG)


def write_metadata(connection: Connection, raw: VirDomain, kept: Metadata, flags: int) -> None:
    """Replace our metadata and nothing else (virDomainSetMetadata)."""
    element = tostring(metadata.to_plain_element(kept))
    action = f"change the metadata of {raw.name()}"
    domains.set_metadata(connection, action, raw, element, flags)
