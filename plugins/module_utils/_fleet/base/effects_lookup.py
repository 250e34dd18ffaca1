# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding domains by name, and reading and writing our metadata in them."""

from __future__ import annotations

import typing as t

from ..._errors import LibvirtFailure, PlanRefused, Problem, SpecError
from ..._libvirt import (
    DOMAIN_AFFECT_CONFIG,
    DOMAIN_AFFECT_LIVE,
    DOMAIN_XML_INACTIVE,
    ERR_NO_DOMAIN,
    ERR_NO_SUPPORT,
)
from ..._lxml import parse, tostring
from . import effects_definitions as domains
from . import metadata
from .effects_connection import Connection
from .metadata import Metadata
from .names import is_proof
from .selected import Selected

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

AFFECT_LIVE = DOMAIN_AFFECT_LIVE
AFFECT_CONFIG = DOMAIN_AFFECT_CONFIG
_SHOWN = 20


def list_domains(connection: Connection, flags: int = 0) -> list[VirDomain]:
    """libvirt's object for every domain (virConnectListAllDomains), but for those that run from
    backups to prove them: they are none of the fleet."""
    listed = connection.call("list domains", connection.conn.listAllDomains, flags)
    return [dom for dom in listed if not is_proof(str(dom.name()))]


def find_domain(connection: Connection, name: str) -> VirDomain | None:
    """libvirt's object for the domain ``name`` (virDomainLookupByName), None if it is missing."""
    if is_proof(name):
        return None
    try:
        domain: VirDomain = connection.call(
            f"find domain {name}", connection.conn.lookupByName, name
        )
    except LibvirtFailure as error:
        if error.code == ERR_NO_DOMAIN:
            return None
        raise
    return domain


def find_uuid(connection: Connection, uuid: str) -> VirDomain | None:
    """libvirt's object for the domain with this UUID, None if it is missing."""
    try:
        domain: VirDomain = connection.call(
            f"find domain {uuid}", connection.conn.lookupByUUIDString, uuid
        )
    except LibvirtFailure as error:
        if error.code == ERR_NO_DOMAIN:
            return None
        raise
    return domain


def require_domains(connection: Connection, names: t.Sequence[str]) -> dict[str, VirDomain]:
    """libvirt's object for each name; raises SpecError listing every name that does not exist."""
    by_name = {name: find_domain(connection, name) for name in dict.fromkeys(names)}
    unknown = [name for name, dom in by_name.items() if dom is None]
    if unknown:
        known = sorted(str(dom.name()) for dom in list_domains(connection))
        there = ", ".join(known[:_SHOWN]) or "none"
        more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        raise SpecError(
            [
                Problem("names", f"no domain {name!r} on this hypervisor; there are: {there}{more}")
                for name in unknown
            ]
        )
    return {name: dom for name, dom in by_name.items() if dom is not None}


def selected_domains(
    connection: Connection, selected: Selected
) -> list[tuple[VirDomain, Metadata | None]]:
    """The domains here that may be meant, each once, with our metadata.

    All are read only where a pattern or a group may mean any of them.
    """
    if selected.plural:
        listed = list_domains(connection)
        if not selected.groups:  # names tell
            listed = [dom for dom in listed if selected.takes(str(dom.name()))]
    else:
        sought = [find_domain(connection, name) for name in selected.names]
        listed = [dom for dom in sought if dom is not None]

    def read(dom: VirDomain) -> Metadata | None:
        text = dom.XMLDesc(DOMAIN_XML_INACTIVE)
        return metadata.parse(parse(text, f"domain {dom.name()}"))

    here = connection.each_there(
        read, listed, lambda dom: f"read domain {dom.name()}", ERR_NO_DOMAIN
    )
    return [
        (dom, stored)
        for dom, stored in here
        if selected.takes(str(dom.name()), stored.groups if stored is not None else ())
    ]


def read_metadata(connection: Connection, dom: VirDomain) -> Metadata | None:
    """Our metadata from the persistent definition, None if there is none."""
    text = connection.call(f"read domain {dom.name()}", dom.XMLDesc, DOMAIN_XML_INACTIVE)
    return metadata.parse(parse(text, f"domain {dom.name()}"))


def checkpoints(connection: Connection, dom: VirDomain) -> tuple[str, ...]:
    """Names of the domain's checkpoints, sorted; empty if the driver does not support them."""
    try:
        listed = connection.call(f"list checkpoints of {dom.name()}", dom.listAllCheckpoints, 0)
    except LibvirtFailure as error:
        if error.code != ERR_NO_SUPPORT:
            raise
        return ()
    return tuple(sorted(str(checkpoint.getName()) for checkpoint in listed))


def is_saved(connection: Connection, dom: VirDomain) -> bool:
    """Whether the domain has saved memory; false if the driver does not support that."""
    try:
        return bool(connection.call("look for saved memory", dom.hasManagedSaveImage, 0))
    except LibvirtFailure as error:
        if error.code == ERR_NO_SUPPORT:
            return False
        raise


def restore_metadata(connection: Connection, dom: VirDomain, stored: Metadata | None) -> None:
    """Restore our metadata in the definition; None removes it."""
    if stored is not None:
        write_metadata(connection, dom, stored, AFFECT_CONFIG)
        return
    action = f"remove the metadata of {dom.name()}"
    domains.set_metadata(connection, action, dom, None, AFFECT_CONFIG)


def write_metadata(connection: Connection, dom: VirDomain, stored: Metadata, flags: int) -> None:
    """Replace our metadata and nothing else (virDomainSetMetadata).

    Raises PlanRefused for metadata that were read from the domain and cannot be used.
    """
    if stored.broken:
        raise PlanRefused("; ".join(metadata.metadata_problems(str(dom.name()), stored)))
    element = tostring(metadata.to_plain_element(stored))
    action = f"change the metadata of {dom.name()}"
    domains.set_metadata(connection, action, dom, element, flags)
