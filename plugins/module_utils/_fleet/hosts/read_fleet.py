# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading many hypervisors from one process."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError, error_message
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection, connect
from .read_domains import DomainQuery, read_domains

if t.TYPE_CHECKING:
    from ..base.snapshot import DomainEntry

_PARALLEL = 64

Value = t.TypeVar("Value")


@dataclass(frozen=True)
class Target:
    """A hypervisor by its name in the inventory and the URI to open."""

    name: str
    uri: str


def read_each(
    targets: t.Sequence[Target],
    function: t.Callable[[Connection], Value],
    *,
    call_timeout: float,
    host_timeout: float,
) -> list[deadline.Outcome[Value]]:
    """What ``function`` reads of every target, in the order of ``targets``.

    ``call_timeout`` (seconds) limits a single call to libvirt, ``host_timeout`` all of one
    hypervisor: a dead one costs at most that, and is an outcome like any other. So is one whose
    replies make our own code fail, or that has more to say than any hypervisor.
    """

    def read(target: Target) -> Value:
        try:
            with connect(target.uri, call_timeout) as connection:
                budget = connection.limit(host_timeout)
                value = function(connection)
                budget.require()  # one of many errors until here
                return value
        except FleetVirtError:
            raise
        except Exception as error:
            raise FleetVirtError(error_message(error)) from None

    return deadline.each(
        read,
        targets,
        seconds=host_timeout,
        what=lambda target: f"read {target.name}",
        parallel=_PARALLEL,
    )


def read_fleet(
    targets: t.Sequence[Target], wanted: DomainQuery, *, call_timeout: float, host_timeout: float
) -> list[deadline.Outcome[list[DomainEntry]]]:
    """Domains of every target, as :func:`read_each` has them."""
    return read_each(
        targets,
        lambda connection: read_domains(connection, wanted),
        call_timeout=call_timeout,
        host_timeout=host_timeout,
    )
