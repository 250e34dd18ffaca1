# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM that exists, read to be compared with what is asked for.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError, told
from ..._pure.change.pending import pending
from ..._pure.domain import request
from ..._pure.domain.domain import Domain
from ..base.connection import Connection
from ..base.lookup import find_domain, read_metadata
from . import changing
from .creation_types import Host, Settings

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._pure.base.metadata import Metadata


def compare(
    connection: Connection, domains: t.Sequence[Domain], settings: Settings
) -> list[dict[str, object]]:
    """How each of ``domains`` that is defined here differs from what is asked for.

    ``differences`` is None for one that this collection did not make, or has not finished.
    ``drift`` is whether it was made as it is asked for, so that somebody else has changed it.
    ``pending`` are the settings that wait for its next start, whoever changed them.
    """
    host = Host(connection, settings)
    found: list[dict[str, object]] = []
    for domain in domains:
        dom = find_domain(host.connection, domain.name)
        if dom is None:
            continue
        stored = read_metadata(host.connection, dom)
        entry: dict[str, object] = {"name": domain.name, "differences": None, "drift": False}
        entry["pending"] = []
        if stored is not None and stored.request is not None and stored.phase is None:
            lines, entry["pending"] = _differences(host, dom, stored, domain)
            entry["differences"] = lines
            entry["drift"] = bool(lines) and not request.differences(stored.request, domain)
        found.append(entry)
    return found


def _differences(
    host: Host, dom: VirDomain, kept: Metadata, domain: Domain
) -> tuple[list[str], list[str]]:
    """What would be changed, how, and what is refused; and what waits for the next start now."""
    try:
        change = changing.look(host, dom, kept, domain)
    except FleetVirtError as error:
        return [told(error)], []
    told_already = [one.text for one in change.converged.changes]
    refused = [one for one in change.converged.plan.refusals if one not in told_already]
    stored = "xml" not in {one.path for one in change.converged.changes}
    waits = pending(change.facts.inactive, change.facts.live, domain.xml if stored else None)
    return told_already + refused, waits
