# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starting daemons that failed for lack of valid keys, once new ones are deployed.

systemd gives up on a unit that fails a few times, and on its sockets; nothing starts it then.
"""

from __future__ import annotations

import time

from ..._errors import FleetVirtError
from ..base import effects_systemd as systemd
from ..hosts.listeners import TLS_PORT
from ..preflight import read_host as preflight_machine
from ..preflight import read_tls as preflight_tls
from . import effects_reload as key_reload

_ENDS = ("", "-ro", "-admin", "-tls")


def failed(daemon: str) -> list[str]:
    """Failed units of the daemon; none if it is not installed, running or inactive."""
    return [
        name
        for name, unit in systemd.units(_names(daemon)).items()
        if unit["ActiveState"] == "failed" or unit["SubState"] == "auto-restart"
    ]


def listens(daemon: str) -> bool:
    """Whether the daemon is configured to serve TLS on a systemd socket."""
    unit = systemd.units([f"{daemon}-tls.socket"]).get(f"{daemon}-tls.socket")
    return unit is not None and (unit["UnitFileState"] == "enabled" or _up(unit))


def start(daemon: str, timeout: float) -> None:
    """Start the failed units and check that the daemon responds, over TLS if so configured.

    :raises FleetVirtError: it does not; with errors from its log.
    """
    began = int(time.time())
    units = systemd.units(_names(daemon))
    service = f"{daemon}.service"
    sockets = [
        name
        for name, unit in units.items()
        if name != service and (_up(unit) or unit["UnitFileState"] == "enabled")
    ]
    try:
        systemd.restart(service, sockets)
        with key_reload.a_client(daemon, timeout):
            pass
        if f"{daemon}-tls.socket" in sockets:
            _require_tls()
    except FleetVirtError as error:
        complaint = systemd.complaints(began, str(error))
        raise FleetVirtError(
            f"{service} had failed and does not start with the keys that are now deployed: {error}"
            f"{complaint and '; its log: '}{complaint}. Fix the cause (journalctl -u {service})"
            " and run it again"
        ) from error


def _names(daemon: str) -> list[str]:
    return [f"{daemon}.service", *(f"{daemon}{end}.socket" for end in _ENDS)]


def _up(unit: dict[str, str]) -> bool:
    return unit["ActiveState"] in ("active", "failed")


def _require_tls() -> None:
    places = [
        str(listener["address"])
        for listener in preflight_machine.open_sockets()
        if listener["port"] == TLS_PORT
    ]
    if not places:
        raise FleetVirtError(f"port {TLS_PORT} is not open")
    problem = preflight_tls.own_problem(places[0])
    if problem is not None:
        raise FleetVirtError(f"TLS on this machine, {places[0]}:{TLS_PORT}: {problem}")
