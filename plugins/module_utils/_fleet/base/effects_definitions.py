# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changing definitions: the only module that calls libvirt for that."""

from __future__ import annotations

import typing as t

from ... import _libvirt, _lxml
from ..._errors import LibvirtFailure
from . import metadata, systems
from .effects_connection import Connection

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain, VirSecret

_UNDEFINE = (
    _libvirt.DOMAIN_UNDEFINE_MANAGED_SAVE
    | _libvirt.DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | _libvirt.DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
)


def define(connection: Connection, action: str, xml: str, flags: int = 0) -> VirDomain:
    """Define the domain, replacing any former definition, and return libvirt's object for it."""
    defined: VirDomain = connection.call(action, connection.conn.defineXMLFlags, xml, flags)
    return defined


def undefine(
    connection: Connection, dom: VirDomain, *, keep_nvram: bool = False, missing_ok: bool = True
) -> None:
    """Undefine the domain, with everything that libvirt itself stores for it.

    ``missing_ok``: a domain that no longer exists is not an error.
    """
    flags = _UNDEFINE
    flags |= _libvirt.DOMAIN_UNDEFINE_KEEP_NVRAM if keep_nvram else _libvirt.DOMAIN_UNDEFINE_NVRAM
    try:
        connection.call(f"undefine {dom.name()}", dom.undefineFlags, flags)
    except LibvirtFailure as error:
        if error.code != _libvirt.ERR_NO_DOMAIN or not missing_ok:
            raise


def undefine_secret(connection: Connection, action: str, secret: VirSecret) -> None:
    """Remove a secret with its value; one that no longer exists is not an error."""
    try:
        connection.call(action, secret.undefine)
    except LibvirtFailure as error:
        if error.code != _libvirt.ERR_NO_SECRET:
            raise


def rename(connection: Connection, dom: VirDomain, name: str) -> None:
    """Rename a domain that is shut off."""
    connection.call(f"rename {dom.name()} to {name}", dom.rename, name, 0)


def set_metadata(
    connection: Connection, action: str, dom: VirDomain, element: str | None, flags: int
) -> None:
    """Replace our metadata and nothing else; None removes them."""
    kind, where = _libvirt.DOMAIN_METADATA_ELEMENT, (metadata.PREFIX, metadata.NAMESPACE, flags)
    connection.call(action, dom.setMetadata, kind, element, *where)


def set_system(connection: Connection, dom: VirDomain, system: str | None) -> None:
    """Replace the operating system in a running domain's metadata; None removes it."""
    element = None if system is None else _lxml.tostring(systems.to_plain_element(system))
    kind = _libvirt.DOMAIN_METADATA_ELEMENT
    where = (systems.PREFIX, systems.NAMESPACE, _libvirt.DOMAIN_AFFECT_LIVE)
    action = f"change the operating system of {dom.name()}"
    connection.call(action, dom.setMetadata, kind, element, *where)


def set_text(
    connection: Connection, dom: VirDomain, which: t.Literal["title", "description"], text: str
) -> None:
    """Replace the title or description of a running domain; an empty text removes it."""
    kind = {
        "title": _libvirt.DOMAIN_METADATA_TITLE,
        "description": _libvirt.DOMAIN_METADATA_DESCRIPTION,
    }[which]
    where = (None, None, _libvirt.DOMAIN_AFFECT_LIVE)
    action = f"change the {which} of {dom.name()}"
    connection.call(action, dom.setMetadata, kind, text or None, *where)
