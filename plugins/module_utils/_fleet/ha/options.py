# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of ``virt_cell``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..cell.corosync import CellSettings
from ..cell.facts import FenceResource
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

LOOK, DECIDE, WRITE, ACTIVATE, CONFIGURE = "look", "decide", "write", "activate", "configure"

ARGUMENTS: Spec = {
    "keys_dir": {"type": "path"},
    "token": {"type": "int", "default": 3000, "no_log": False},
    "system": {"type": "dict", "default": {}},
}
# Keys of the cell by their program, and passwords by the fence resource and the parameter
INTERNAL: Spec = {"_secrets": {"type": "dict", "no_log": True}}


@dataclass(frozen=True)
class CellJob:
    """What one hypervisor is to do: ``host`` is its name in the inventory, ``agent`` the resource
    agent's text, ``leave`` whether it leaves the cell. The secrets are apart."""

    host: str = ""
    settings: CellSettings = field(default_factory=CellSettings)
    agent: str = ""
    devices: list[FenceResource] = field(default_factory=list)
    leave: bool = False


@dataclass(frozen=True)
class CellWork(Work):
    """A stage of making and changing cells; ``agents`` are the fence agents to look for."""

    STAGES = ("all", LOOK, DECIDE, WRITE, ACTIVATE, CONFIGURE)

    agents: list[str] = field(default_factory=list)
    job: CellJob = field(default_factory=CellJob)
