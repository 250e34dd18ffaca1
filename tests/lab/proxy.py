# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proxy through which hosts fetch Debian packages: our own child, on the lab's address only."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from . import processes
from .record import Record
from .roots import apt_proxy

__all__ = ["PORT", "address", "start"]

PORT = 8888

_CONFIGURATION = """\
User nobody
Group nogroup
Port {port}
Listen {gateway}
Timeout 60
MaxClients 50
LogLevel Warning
Allow {network}
ConnectPort 443
DisableViaHeader Yes
"""


def address(record: Record) -> str:
    """Its address for apt."""
    return f"http://{record.gateway}:{PORT}"


def start(record: Record) -> None:
    """Start it unless it runs."""
    directory = Path(record.directory)
    if processes.find(directory, "proxy"):
        return
    text = _CONFIGURATION.format(port=PORT, gateway=record.gateway, network=record.network)
    upstream = apt_proxy()
    if upstream:  # this machine has no other way out itself
        parts = urlsplit(upstream if "//" in upstream else f"//{upstream}")
        login = f"{parts.username}:{parts.password}@" if parts.username else ""
        text += f"Upstream http {login}{parts.hostname}:{parts.port or 3128}\n"
    configuration = directory / "proxy.conf"
    configuration.touch(mode=0o600)
    configuration.write_text(text)
    processes.spawn(
        directory,
        "proxy",
        'exec tinyproxy -d -c "$1"',
        [str(configuration)],
        directory / "proxy.log",
    )
