# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Marks of maintenance, as tasks hand them on: what the others note of a marked hypervisor."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base import answers
from ..engine.envelope import Work
from ..notes.note import MaintenanceMark, parse


@dataclass(frozen=True)
class MaintenanceWork(Work):
    """Setting a hypervisor's own mark, or noting the ``marks`` of others, by their volumes."""

    STAGES: t.ClassVar[tuple[str, ...]] = ("all", "act", "note")

    marks: list[str] = field(default_factory=list)


class Marked(answers.Result, total=False):
    """Whether a hypervisor is in maintenance now, its machine UUID, and when it said so, by its own
    clock, in milliseconds since 1970. ``cell``: what its cell was not told of that."""

    maintenance: bool | None
    cell: str | None
    machine: str | None
    at: int | None


def volumes(marked: t.Mapping[str, Marked], but: str) -> list[str]:
    """What the hypervisor ``but`` notes of the others; a name that fits no volume is left out."""
    names = [
        MaintenanceMark(machine, at, present, host).volume
        for host, answer in marked.items()
        if host != but
        if (machine := answer.get("machine")) and (at := answer.get("at")) is not None
        if (present := answer.get("maintenance")) is not None
    ]
    return [name for name in names if parse(name) is not None]
