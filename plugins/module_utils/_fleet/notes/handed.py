# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notes as the controller hands them to a hypervisor, in one option that is never shown."""

from __future__ import annotations

import base64
import dataclasses
import json
import typing as t

from ..._records import dataclass, field


@dataclass(frozen=True)
class Handed:
    """``claims`` to keep, by their volumes, and ``readings`` with their content. Where machines are
    ``answering``, the hypervisor tells what it has noted of others. ``macs`` are the MAC addresses
    that existing VMs get and that were compared with the fleet."""

    claims: t.Sequence[str] = ()
    readings: t.Mapping[str, str] = field(default_factory=dict)
    answering: t.Sequence[str] = ()
    macs: t.Sequence[str] = ()


def packed(handed: Handed) -> str:
    """The option's value; empty if there is nothing in it."""
    given = {key: value for key, value in dataclasses.asdict(handed).items() if value}
    if not given:
        return ""
    return base64.b64encode(json.dumps(given).encode("utf-8")).decode("ascii")


def unpacked(text: str) -> Handed:
    """What :func:`packed` made."""
    return Handed(**json.loads(base64.b64decode(text))) if text else Handed()
