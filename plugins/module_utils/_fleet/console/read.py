# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The consoles of domains."""

from __future__ import annotations

import typing as t

from ..._libvirt import DOMAIN_XML_INACTIVE
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, require_domains
from ..base.states import ACTIVE_STATES, state_name
from ..cards import read_leftovers
from ..hosts import domain_info
from .facts import ConsoleVm

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain


def look(
    connection: Connection, names: t.Sequence[str], *, ignore_missing: bool
) -> list[ConsoleVm]:
    """The consoles of each domain; raises SpecError for unknown names unless ``ignore_missing``."""
    if ignore_missing:
        sought = [find_domain(connection, name) for name in dict.fromkeys(names)]
        domains = [domain for domain in sought if domain is not None]
    else:
        domains = list(require_domains(connection, names).values())
    entries = [
        connection.call(f"read the consoles of {domain.name()}", _entry, domain)
        for domain in domains
    ]
    read_leftovers.mark(connection, entries)
    return entries


def _entry(domain: VirDomain) -> ConsoleVm:
    state = state_name(domain.state(0)[0])
    flags = 0 if state in ACTIVE_STATES else DOMAIN_XML_INACTIVE
    facts = domain_info.parse(domain.XMLDesc(flags), f"domain {domain.name()}")
    return {
        "name": str(domain.name()),
        "uuid": str(domain.UUIDString()),
        "state": state,
        "phase": facts["metadata"]["phase"],
        "screens": [str(screen["type"]) for screen in facts["graphics"]],
        "serial": bool(facts["consoles"]),
    }
