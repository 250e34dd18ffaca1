# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order in which VMs are started and stopped."""

from __future__ import annotations

import typing as t

from ..engine.steps import Plan
from .actions import StateFacts
from .plan import StateRequest, starts

Vm = t.TypeVar("Vm")

_LAST = float("inf")


def rounds(
    vms: t.Sequence[Vm], order: t.Callable[[Vm], int | None], wanted: StateRequest
) -> list[list[Vm]]:
    """``vms`` in successive rounds, those of a round at the same time.

    For state running, those without an order come last; for every other state they come first.
    If nothing is started or stopped, all are in one round.
    """
    if wanted.end is None:
        return [list(vms)] if vms else []
    places: dict[float, list[Vm]] = {}
    for vm in vms:
        number = order(vm)
        places.setdefault(_LAST if number is None else number, []).append(vm)
    return [places[place] for place in sorted(places, reverse=wanted.end != "running")]


def delay(done: t.Iterable[tuple[StateFacts, Plan[StateFacts]]]) -> int:
    """Seconds to wait after a round, by its VMs and what was done to them."""
    return max((facts.delay for facts, plan in done if starts(plan)), default=0)


def not_begun(name: str, failed: t.Sequence[str]) -> str:
    """Why ``name`` was left as it was."""
    return (
        f"{name!r} was not tried: {', '.join(map(repr, failed))}, before it by start_order,"
        " failed; fix that and run the same command again"
    )
