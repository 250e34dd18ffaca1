# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_rolling``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

NEEDED, ALWAYS, NEVER = "needed", "always", "never"
ARGUMENTS: Spec = {
    "tasks": {"type": "path"},
    "host": {"type": "str"},
    "reboot": {"type": "str", "choices": [NEEDED, ALWAYS, NEVER], "default": NEEDED},
    "reboot_timeout": {"type": "int", "default": 900},
    "serial": {"type": "int", "default": 1},
    "skip_unmovable": {"type": "bool", "default": False},
    "resume": {"type": "bool", "default": True},
    "relax": {"type": "bool", "default": False},
}


@dataclass(frozen=True)
class RollingWork(Work):
    """A stage of rolling work; ``round`` is the number of the turn, ``digest`` that of the tasks;
    ``turn`` are the hypervisors that are worked on at the same time.

    ``look`` reads, ``claim`` marks as begun, ``begin`` requires that no VM runs, ``check`` is the
    health gate, ``finish`` ends a turn, ``clear`` the whole; ``note`` says which task failed.
    """

    STAGES: t.ClassVar[tuple[str, ...]] = (
        *(
            "all",
            "look",
            "decide",
            "prepare",
            "claim",
            "begin",
            "reboot",
            "check",
            "finish",
            "note",
        ),
        *("report", "clear", "summary"),
    )

    digest: str = ""
    turn: list[str] = field(default_factory=list)
