# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The channel of QEMU's guest agent in a definition."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..._lxml import Element

CHANNEL = "org.qemu.guest_agent.0"


def is_connected(domain: Element) -> bool:
    """Whether a program in the guest has opened the channel; ``domain`` is the running VM's."""
    return any(
        target.get("name") == CHANNEL and target.get("state") == "connected"
        for target in domain.iterfind("devices/channel/target")
    )
