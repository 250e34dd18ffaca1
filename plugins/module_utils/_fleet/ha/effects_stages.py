# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stages that a hypervisor performs."""

from __future__ import annotations

import typing as t

from ..base import read_caller as caller
from ..base.json_values import as_mapping
from ..cell import read
from ..engine import envelope
from ..fencing import read_metadata
from . import effects
from .options import ACTIVATE, CONFIGURE, WRITE, CellWork

_STAGES: dict[str, t.Callable[..., t.Mapping[str, object]]] = {
    WRITE: effects.write,
    ACTIVATE: effects.activate,
    CONFIGURE: effects.configure,
}


def run(options: t.Mapping[str, object], *, check: bool) -> t.Mapping[str, object]:
    """The result of a stage; of a task on its own, the state of this hypervisor."""
    work = envelope.read(CellWork, options)
    stage = _STAGES.get(work.stage)
    if stage is None:
        look = read.look(caller.host() or "", work.agents)
        return {**look, "unfit": read_metadata.unfit(work.agents)}
    return stage(effects.order_of(work.job, as_mapping(options["_secrets"])), check=check)
