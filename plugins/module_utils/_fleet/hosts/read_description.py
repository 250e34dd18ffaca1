# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain as it is now, with the metadata of its definition.

A change, a move or a removal of a running VM is noted in its definition only: whoever looks at the
running VM alone does not see that a run is at work on it, or was interrupted.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ... import _libvirt
from ..._errors import LibvirtFailure
from ..base import metadata as own_metadata
from ..base.metadata import Metadata
from ..base.xml_values import read_root

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element


def read(domain: VirDomain) -> tuple[Element, Metadata | None]:
    """The ``<domain>`` as it is now, and our metadata: one call, and one more while it runs.

    Metadata of the running VM that cannot be used are returned instead of those of its definition:
    nothing may be done to it either way.
    """
    root, live, defined = _both(domain)
    return root, live if live is not None and live.broken else defined


def shown(domain: VirDomain) -> tuple[Element, Metadata | None]:
    """The same for people and the inventory, who see the running VM: its own metadata, but the
    phase and whose work that is from its definition."""
    root, live, defined = _both(domain)
    if defined is None or (live is not None and live.broken):
        return root, live
    if live is None or defined.broken:
        return root, defined if defined.phase or defined.broken else None
    return root, dataclasses.replace(
        live, phase=defined.phase, owner=defined.owner, move=defined.move
    )


def _both(domain: VirDomain) -> tuple[Element, Metadata | None, Metadata | None]:
    """The ``<domain>``, its own metadata, and those of its definition."""
    what = f"domain {domain.name()}"
    root = read_root(domain.XMLDesc(0), "domain", what)
    live = own_metadata.parse(root)
    if root.get("id") is None or (live is not None and live.broken):
        return root, live, live
    return root, live, _defined(domain, what, live)


def _defined(domain: VirDomain, what: str, live: Metadata | None) -> Metadata | None:
    """The metadata of the definition, which is all that libvirt is asked for; ``live`` are those of
    the running VM, and of one that has no definition."""
    try:
        with _libvirt.calling(f"read the metadata of {what}"):
            text = domain.metadata(
                _libvirt.DOMAIN_METADATA_ELEMENT,
                own_metadata.NAMESPACE,
                _libvirt.DOMAIN_AFFECT_CONFIG,
            )
    except LibvirtFailure as error:
        if error.code == _libvirt.ERR_NO_DOMAIN_METADATA:
            return None
        if error.code in (_libvirt.ERR_OPERATION_INVALID, _libvirt.ERR_NO_SUPPORT):
            return live
        raise
    return own_metadata.parse(read_root(text, own_metadata.ELEMENT, what))
