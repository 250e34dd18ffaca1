# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether rolling work may reboot this hypervisor now, so that nothing is to be started on it.

Its mark counts together with that of maintenance alone, as for rolling itself: before that it has
not looked yet which VMs run, and afterwards, or once somebody has ended the maintenance, it reboots
no more. Every verb that starts a VM asks here when it plans, and once more directly before.
"""

from __future__ import annotations

from ..._errors import PlanRefused
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..storage.read_shared_pools import volumes_of_notes
from . import rolling_marks
from .read_host import MAINTENANCE_VOLUME


def refusals(
    connection: Connection, name: str, *, force: bool = False, new: bool = False
) -> list[str]:
    """Why ``name`` is not started here now; empty if it may be, also if the user insists.

    ``new``: it is being created."""
    if force or caller.is_forced():
        return []
    volumes = volumes_of_notes(connection)
    if MAINTENANCE_VOLUME in volumes and rolling_marks.is_begun(volumes):
        return [rolling_marks.no_start(name, caller.host(), new=new)]
    return []


def require_startable(
    connection: Connection, name: str, *, force: bool = False, new: bool = False
) -> None:
    """Raise PlanRefused if ``name`` is not to be started here now."""
    problems = refusals(connection, name, force=force, new=new)
    if problems:
        raise PlanRefused(problems[0])
