# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Definitions with a user's XML fragment: libvirt's schema, and whether libvirt keeps it."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ... import _lxml
from ..._errors import PlanRefused
from ..._libvirt import DOMAIN_XML_INACTIVE, DOMAIN_XML_SECURE
from ..spec import fragment

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.effects_connection import Connection
    from ..spec.domain import Domain

SCHEMA = Path("/usr/share/libvirt/schemas/domain.rng")


def require_valid(whose: str, xml: str) -> None:
    """Raise PlanRefused if the definition ``xml`` violates its schema; ``whose`` part may.

    Where the schemas are not installed, libvirt itself reports it when the VM is defined.
    """
    if not SCHEMA.exists():
        return
    problem = _lxml.schema_problem(SCHEMA, xml)
    if problem is not None:
        raise PlanRefused(f"{whose} does not match libvirt's schema: {problem}")


def require_kept(connection: Connection, dom: VirDomain, domain: Domain) -> None:
    """Raise PlanRefused if libvirt does not keep the fragment as it was written."""
    if domain.xml is None:
        return
    text = connection.call(
        f"read domain {domain.name}", dom.XMLDesc, DOMAIN_XML_INACTIVE | DOMAIN_XML_SECURE
    )
    lost = fragment.missing(_lxml.parse(text, f"domain {domain.name}"), domain.xml)
    if lost:
        raise PlanRefused(
            f"libvirt does not keep {', '.join(lost)} of the fragment xml of {domain.name!r} as"
            " written; write it as virsh dumpxml shows it, or leave it out"
        )
