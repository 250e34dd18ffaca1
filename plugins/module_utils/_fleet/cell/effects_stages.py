# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stages that a hypervisor performs."""

from __future__ import annotations

import typing as t

from ..base import read_caller as caller
from . import effects, read
from .options import ACTIVATE, CONFIGURE, WRITE

_STAGES: dict[str, t.Callable[..., t.Mapping[str, object]]] = {
    WRITE: effects.write,
    ACTIVATE: effects.activate,
    CONFIGURE: effects.configure,
}


def run(options: t.Mapping[str, t.Any], *, check: bool) -> t.Mapping[str, object]:
    """The result of a stage; of a task on its own, the state of this hypervisor."""
    stage = _STAGES.get(options["_stage"])
    if stage is None or not options["_job"]:
        return read.look(caller.host() or "", options["_agents"])
    return stage(effects.job_of(options["_job"], options["_secrets"] or {}), check=check)
