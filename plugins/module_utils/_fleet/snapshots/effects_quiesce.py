# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Doing something while a guest's file systems are frozen by its agent.

They thaw even if this process dies: a systemd unit that is started before ensures it.
"""

from __future__ import annotations

import contextlib
import sys
import typing as t

from ..._errors import DeadlineExceeded, LibvirtFailure, PlanRefused
from ..._lxml import parse
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from ..base.effects_connection import Connection
from . import guest_agent
from .facts import ALWAYS, NEVER

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_AGENT_SECONDS = 60.0
_THAW_SECONDS = 90  # after which a guest thaws if this process died; longer than freezing takes
_THAW = """
import libvirt, sys, time
for left in range(300):
    try:
        libvirt.open(sys.argv[1]).lookupByUUIDString(sys.argv[2]).fsThaw(None, 0)
        break
    except libvirt.libvirtError:
        time.sleep(1)
else:
    sys.exit(1)
"""
_AGAIN_SECONDS = 30.0  # in which libvirt answers again


def around(
    connection: Connection, dom: VirDomain, action: t.Callable[[], None], quiesce: str
) -> bool:
    """Do ``action`` with the guest's file systems frozen if possible; whether they were.

    An agent that is not there is told nothing: a freeze that fails may have been begun, and the
    guest is thawed after a while then.
    """
    if quiesce == NEVER or (quiesce != ALWAYS and not _has_agent(connection, dom)):
        action()
        return False
    unit = f"fleet-virt-thaw-{dom.UUIDString()}"
    _guard(connection, dom, unit)
    try:
        frozen = _freeze(connection, dom, quiesce)
    except PlanRefused:
        systemd.clear(f"{unit}.timer")
        raise
    try:
        action()
    finally:
        # where it fails, the timer stays
        with contextlib.nullcontext() if frozen else contextlib.suppress(LibvirtFailure):
            _thaw(connection, dom, insist=frozen)
            systemd.clear(f"{unit}.timer")
    return frozen


def _has_agent(connection: Connection, dom: VirDomain) -> bool:
    name = str(dom.name())
    text = connection.call(f"read domain {name}", dom.XMLDesc, 0)
    return guest_agent.is_connected(parse(str(text), f"domain {name}"))


def _guard(connection: Connection, dom: VirDomain, unit: str) -> None:
    """Schedule a thaw of the guest, in case this process dies."""
    systemd.clear(f"{unit}.timer")
    systemd.clear(f"{unit}.service")
    programs.run(systemd.own_unit(unit, _thawing(connection, dom), after=_THAW_SECONDS))


def _thawing(connection: Connection, dom: VirDomain) -> list[str]:
    return [sys.executable, "-c", _THAW, connection.uri, str(dom.UUIDString())]


def _thaw(connection: Connection, dom: VirDomain, *, insist: bool) -> None:
    """Thaw the guest; ``insist``: also where a libvirtd that is restarted ended the connection."""
    action = f"thaw {dom.name()}"
    try:
        connection.call(action, dom.fsThaw, None, 0, seconds=_AGENT_SECONDS)
    except LibvirtFailure as error:
        if not insist:
            raise
        try:
            programs.run(_thawing(connection, dom), seconds=_AGAIN_SECONDS)
        except (programs.ProgramFailed, DeadlineExceeded):
            raise error from None


def _freeze(connection: Connection, dom: VirDomain, quiesce: str) -> bool:
    name = str(dom.name())
    try:
        connection.call(f"freeze {name}", dom.fsFreeze, None, 0, seconds=_AGENT_SECONDS)
    except LibvirtFailure as error:
        if quiesce == ALWAYS:
            raise PlanRefused(
                f"the file systems of {name!r} could not be frozen: {error}; nothing was copied."
                " Check its guest agent, or leave quiesce at auto"
            ) from None
        return False
    return True
