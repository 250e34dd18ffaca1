# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starting existing VMs whose request says that they run, as ``virt_state`` would."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError, error_message
from ..base.json_values import as_mappings
from ..state import effects as state
from ..state.plan import StateRequest

if t.TYPE_CHECKING:
    from ..base.effects_connection import Connection
    from .effects_batch import ProvisionJob

_RUNNING = StateRequest(state="running")


def carry_out(connection: Connection, jobs: t.Sequence[ProvisionJob]) -> None:
    """Start the VMs of ``jobs``, in their order of start; a failure is that of its job.

    What was changed of a VM before stays changed, and its next run starts it.
    """
    names = [job.domain.name for job in jobs]
    try:
        result = state.run(connection, names, _RUNNING, check=False)
    except FleetVirtError as error:
        for job in jobs:
            _fail(job, error_message(error))
        return
    entries = {str(one["name"]): one for one in as_mappings(result["vms"])}
    for job in jobs:
        entry = entries[job.domain.name]
        if entry["failed"]:
            _fail(job, str(entry["msg"]))
        else:
            job.changed = job.changed or bool(entry["changed"])


def _fail(job: ProvisionJob, reason: str) -> None:
    changed = "; its settings are changed" if job.changed else ""
    job.fail(f"it was not started: {reason}{changed}")
