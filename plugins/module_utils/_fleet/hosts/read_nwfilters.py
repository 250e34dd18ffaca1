# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's network filters, which it looks for only when a NIC that names one is started."""

from __future__ import annotations

from ..._errors import LibvirtFailure
from ..base.effects_connection import Connection


def known(connection: Connection) -> list[str] | None:
    """The names of all; None if libvirt does not report them."""
    try:
        listed = connection.call("list network filters", connection.conn.listAllNWFilters, 0)
    except LibvirtFailure:
        return None
    return sorted(str(nwfilter.name()) for nwfilter in listed)
