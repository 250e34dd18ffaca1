# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading many hypervisors from one process.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base import deadline
from ..base.connection import connect
from .domains import Wanted, read_domains

if t.TYPE_CHECKING:
    from ..._pure.machine.snapshot import DomainEntry

_PARALLEL = 64


@dataclass(frozen=True)
class Target:
    """A hypervisor by its name in the inventory and the URI to open."""

    name: str
    uri: str


def read_fleet(
    targets: t.Sequence[Target], wanted: Wanted, *, call_timeout: float, host_timeout: float
) -> list[deadline.Outcome[list[DomainEntry]]]:
    """Domains of every target, in the order of ``targets``.

    ``call_timeout`` (seconds) limits a single call to libvirt, ``host_timeout`` all of one
    hypervisor: a dead one costs that much, whatever it does, and is an outcome like any other.
    """

    def read(target: Target) -> list[DomainEntry]:
        with connect(target.uri, call_timeout) as connection:
            return read_domains(connection, wanted)

    return deadline.each(
        read,
        targets,
        seconds=host_timeout,
        what=lambda target: f"read {target.name}",
        parallel=_PARALLEL,
    )
