# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a machine accepts connections at all."""

from __future__ import annotations

import contextlib
import socket
import typing as t

from ..._errors import DeadlineExceeded
from . import effects_deadline as deadline

PORTS = (16514, 22)  # libvirt's TLS, SSH
_CONNECT_SECONDS = 3.0
_ASK_SECONDS = 30.0


def answering(addresses: t.Sequence[str], *more: int) -> str | None:
    """Where the machine accepts a connection on one of PORTS or ``more``; None if nowhere."""

    def ask() -> str | None:
        for address in addresses:
            for port in dict.fromkeys((*PORTS, *more)):
                with contextlib.suppress(OSError):
                    socket.create_connection((address, port), timeout=_CONNECT_SECONDS).close()
                    return f"{address} (port {port})"
        return None

    # a name that does not resolve in time counts as not answering
    with contextlib.suppress(DeadlineExceeded):
        return deadline.call(ask, seconds=_ASK_SECONDS, what="look for an open port")
    return None
