# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading how old the backups of the VMs are that a list shows."""

from __future__ import annotations

import typing as t
from datetime import datetime, timezone

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    ages,
    read_repositories,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.ages import OverdueVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.listing import Repository
from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _repositories


def overdue(
    vms: t.Sequence[tuple[str, str]], given: t.Sequence[str], access: Access, hours: float
) -> tuple[list[OverdueVm], list[str]]:
    """The VMs, names with UUIDs, without a backup of the last ``hours``, and what of the places
    could not be read; if a place could not be, nothing is said to be overdue."""
    repositories: list[Repository] = []
    problems = []
    try:
        for place in _repositories.parsed(given):
            there = {*read_repositories.uuids(place, access)}
            wanted = [uuid for _name, uuid in vms if uuid in there]
            repositories += read_repositories.repositories(place, wanted, access, sizes=False)
    except FleetVirtError as error:
        return [], [f"how old backups are is not known: {error}"]
    problems = [why for repository in repositories for why in repository.problems]
    return ages.overdue(vms, repositories, hours, datetime.now(timezone.utc)), problems
