# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why libvirt would not start a domain: read before it is tried, so that check mode says it too."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..hosts import read_host_names
from ..storage import host_names

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from ..base.effects_connection import Connection

_QEMU = "QEMU"


def read(
    connection: Connection,
    dom: VirDomain,
    text: str | None = None,
    incoming: t.Collection[str] = (),
) -> list[str]:
    """The reasons, each with its remedy; empty if libvirt may start the domain.

    Files and interfaces are looked for only on this machine's hypervisor. ``text`` is the
    definition that it will have, if it changes first, ``incoming`` the files created until then.
    """
    if connection.conn.getType() != _QEMU:
        return []
    name = str(dom.name())
    if text is None:
        text = connection.call(f"read domain {name}", dom.XMLDesc, DOMAIN_XML_INACTIVE)
    return of_root(connection, _lxml.parse(text, f"domain {name}"), incoming)


def of_root(connection: Connection, root: Element, incoming: t.Collection[str] = ()) -> list[str]:
    """The same of a definition that no domain may have yet."""
    names = host_names.of_definition(root)
    return read_host_names.missing(connection, names, incoming, uuid=root.findtext("uuid"))
