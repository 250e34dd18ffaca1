# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last lines of guests' serial consoles."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError
from ..base.effects_connection import Connection
from ..base.effects_deadline import Failed
from ..base.effects_lookup import require_domains, selected_domains
from ..base.selected import Selected
from ..hosts import domain_info
from ..hosts import read_serial_output as consoles
from ..hosts import serial_output as console
from .facts import ConsoleOutput
from .options import WantedLines

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_NO_LOG = (
    "its definition has no serial console log; VMs created by this collection have one, and"
    " virsh console shows new output"
)
_NOTHING = "its serial console has had no output since it was started"


def read(connection: Connection, wanted: WantedLines) -> list[ConsoleOutput]:
    """The last lines of each, or why there are none; raises SpecError for unknown names."""
    if not connection.local:
        raise FleetVirtError(
            f"uri {connection.uri}: console logs are files on the hypervisor and can only be read"
            " there; use qemu:///system on it"
        )
    if wanted.ignore_missing:
        selected = Selected.of(wanted.names, wanted.groups)
        domains = [domain for domain, _stored in selected_domains(connection, selected)]
    else:
        domains = list(require_domains(connection, wanted.names).values())
    outcomes = connection.each(
        lambda domain: _entry(domain, wanted), domains, lambda domain: f"console of {domain.name()}"
    )
    return [
        _failed(domain, str(outcome.error)) if isinstance(outcome, Failed) else outcome.value
        for domain, outcome in zip(domains, outcomes)
    ]


def _entry(domain: VirDomain, wanted: WantedLines) -> ConsoleOutput:
    facts = domain_info.parse(domain.XMLDesc(0), f"domain {domain.name()}")
    logs = [device["log"] for device in facts["consoles"] if device["log"]]
    if not logs:
        return _failed(domain, _NO_LOG)
    path, text = consoles.first_log(logs)
    since = wanted.since.get(str(domain.name()))
    recent, read_to = consoles.lines_since(path or logs[0], since or 0)
    lines = console.end(text, wanted.lines)
    if since is not None:
        lines = [line for line in console.lines(recent) if line]
    return {
        "name": str(domain.name()),
        "uuid": str(domain.UUIDString()),
        "lines": lines,
        "log": path or logs[0],
        "read_to": read_to,
        "failed": False,
        "msg": None if text else _NOTHING,
    }


def _failed(domain: VirDomain, why: str) -> ConsoleOutput:
    return {
        "name": str(domain.name()),
        "uuid": str(domain.UUIDString()),
        "lines": [],
        "log": None,
        "read_to": 0,
        "failed": True,
        "msg": why,
    }
