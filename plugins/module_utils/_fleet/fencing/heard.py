# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor keeps of addresses behind a router that have answered it: empty volumes in its
pool of notes, ``heard.ADDRESS`` in hexadecimal digits.

Of such an address silence says something only to one that the address has answered before. They are
of their own hypervisor alone, and no notes in the sense of the folder ``notes``.
"""

from __future__ import annotations

import ipaddress
import typing as t

_PREFIX = "heard."


def volume(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """The name of the volume that says that the address answered."""
    return f"{_PREFIX}{address.packed.hex()}"


def is_known(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, volumes: t.Collection[str]
) -> bool:
    """Whether one of these says that the address answered."""
    return volume(address) in volumes
