# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bridges of a hypervisor, which NICs of VMs may be on."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..._errors import FleetVirtError
from ..._libvirt import ERR_NO_INTERFACE
from ..base.effects_connection import Connection
from . import network_info

if t.TYPE_CHECKING:
    from ..._libvirt import VirInterface

_BRIDGE = "bridge"


def bridges(connection: Connection) -> list[str] | None:
    """Names of the hypervisor's bridges, sorted; None if they are unknown.

    This machine's kernel knows all of them. Another's are read through libvirt, if it has its
    interface driver, a package of its own in Debian 13. What cannot be read there may be the bridge
    that a VM needs, and which interfaces the driver sees differs between its backends: so neither
    an unreadable interface nor a list without a bridge proves that there is none.
    """
    if connection.local:
        kernel = Path("/sys/class/net")  # not there where /sys is not mounted
        names = sorted(path.parent.name for path in kernel.glob("*/bridge"))
        return names if kernel.is_dir() else None

    def kind(interface: VirInterface) -> str | None:
        what = f"interface {interface.name()}"
        return network_info.interface(interface.XMLDesc(0), what)["type"]

    try:
        kinds = connection.each_there(
            kind,
            connection.call("list interfaces", connection.conn.listAllInterfaces, 0),
            lambda interface: f"read interface {interface.name()}",
            ERR_NO_INTERFACE,
        )
    except FleetVirtError:
        return None
    return sorted(str(interface.name()) for interface, of in kinds if of == _BRIDGE) or None
