# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stages that a hypervisor performs."""

from __future__ import annotations

import typing as t

from ..base import read_caller as caller
from ..base.json_values import as_list, as_mapping
from . import effects, read
from .options import ACTIVATE, CONFIGURE, WRITE

_STAGES: dict[str, t.Callable[..., t.Mapping[str, object]]] = {
    WRITE: effects.write,
    ACTIVATE: effects.activate,
    CONFIGURE: effects.configure,
}


def run(options: t.Mapping[str, object], *, check: bool) -> t.Mapping[str, object]:
    """The result of a stage; of a task on its own, the state of this hypervisor."""
    stage, job = _STAGES.get(str(options["_stage"])), as_mapping(options["_job"])
    if stage is None or not job:
        return read.look(caller.host() or "", [*map(str, as_list(options["_agents"]))])
    return stage(effects.job_of(job, as_mapping(options["_secrets"])), check=check)
