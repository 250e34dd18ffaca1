# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Screenshots of guests (virDomainScreenshot)."""

from __future__ import annotations

import base64
import contextlib
import typing as t

from ..._errors import FleetVirtError
from ..._libvirt import LibvirtError
from ..._lxml import parse
from ..base.effects_connection import Connection
from ..base.effects_deadline import Failed
from ..base.effects_lookup import list_domains, require_domains, selected_domains
from ..base.selected import Selected
from ..base.states import ACTIVE_STATES, state_name
from . import png
from .facts import CapturedScreen
from .options import ScreenRequest

if t.TYPE_CHECKING:
    from ..._libvirt import VirConnect, VirDomain

_BLOCK = 256 * 1024
_MOST_READ = 256 * 1024 * 1024  # bytes of one screen; the largest supported one, as PPM, is 192 MiB
_BLIND = "it has no screen, only its serial console"
_MOST_RETURNED = 32 * 1024 * 1024  # characters of one result; the controller reads twice as many


def capture(connection: Connection, wanted: ScreenRequest) -> list[CapturedScreen]:
    """A screenshot of each, or why there is none; raises SpecError for unknown names.

    A missing screen is a failure if the domain was named explicitly.
    """
    domains = _domains(connection, wanted)
    outcomes = connection.each(
        lambda domain: picture(connection.conn, domain, wanted.screen),
        domains,
        lambda domain: f"capture the screen of {domain.name()}",
    )
    entries: list[CapturedScreen] = []
    total = 0
    for domain, outcome in zip(domains, outcomes):
        if isinstance(outcome, Failed):
            entries.append(_unseen(domain, str(outcome.error)))
            continue
        if outcome.value is None:
            entries.append({**_unseen(domain, _BLIND), "failed": wanted.names is not None})
            continue
        entry = _entry(domain, outcome.value)
        total += len(entry["content"] or "")
        if total > _MOST_RETURNED:
            entry = _unseen(
                domain,
                f"the screenshots before it exceed {_MOST_RETURNED} characters in total; specify"
                " fewer VMs at once",
            )
        entries.append(entry)
    return entries


def _domains(connection: Connection, wanted: ScreenRequest) -> list[VirDomain]:
    if wanted.names is None:
        listed = list_domains(connection)
        active = [domain for domain in listed if state_name(domain.state(0)[0]) in ACTIVE_STATES]
        return sorted(active, key=lambda domain: str(domain.name()))
    if wanted.ignore_missing:
        selected = Selected.of(wanted.names, wanted.groups)
        return [domain for domain, _stored in selected_domains(connection, selected)]
    return list(require_domains(connection, wanted.names).values())


def picture(dom: VirConnect, domain: VirDomain, screen: int) -> png.Picture | None:
    """A screenshot of the domain, None if it has no screen."""
    state = state_name(domain.state(0)[0])
    if state not in ACTIVE_STATES:
        raise FleetVirtError(f"it is {state}, so it has no screen output; start it first")
    if parse(domain.XMLDesc(0), f"domain {domain.name()}").find("devices/video") is None:
        return None
    stream = dom.newStream(0)
    try:
        domain.screenshot(stream, screen, 0)
        parts, size = [], 0
        while part := stream.recv(_BLOCK):
            parts.append(part)
            size += len(part)
            if size > _MOST_READ:
                raise FleetVirtError(f"its screenshot has more than {_MOST_READ} bytes")
        stream.finish()
    except BaseException:
        with contextlib.suppress(LibvirtError):  # it had not begun
            stream.abort()
        raise
    return png.from_screen(b"".join(parts))


def _entry(domain: VirDomain, picture: png.Picture) -> CapturedScreen:
    return {
        "name": str(domain.name()),
        "uuid": str(domain.UUIDString()),
        "content": base64.b64encode(picture.content).decode("ascii"),
        "width": picture.width,
        "height": picture.height,
        "failed": False,
        "msg": None,
    }


def _unseen(domain: VirDomain, why: str) -> CapturedScreen:
    return {
        "name": str(domain.name()),
        "uuid": str(domain.UUIDString()),
        "content": None,
        "width": None,
        "height": None,
        "failed": True,
        "msg": why,
    }
