# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deleting what a plan names from a repository, and nothing else; read back afterwards."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError
from . import effects_borg, read_repositories

if t.TYPE_CHECKING:
    from .effects_borg import Access
    from .keep import Pruning
    from .listing import Repository
    from .places import BackupPlace

# Deleting counts the chunks of all archives, if this controller has not done so before
SECONDS = 6 * 3600.0
_AT_ONCE = 100  # archives; each is an argument


def prune(place: BackupPlace, before: Repository, pruning: Pruning, access: Access) -> Repository:
    """Delete what goes, free its space, and return what is there now; raises FleetVirtError."""
    address = place.repository(before.uuid)
    names = pruning.deleted
    for first in range(0, len(names), _AT_ONCE):
        effects_borg.run(
            access, ["delete", address, *names[first : first + _AT_ONCE]], seconds=SECONDS
        )
    after = read_repositories.repository(place, before.uuid, access)
    left = sorted({*names} & {*after.names})
    lost = sorted({*before.names} - {*names} - {*after.names})
    replaced = sorted(
        name
        for name, archive_id in before.ids.items()
        if name in after.names and name not in names and after.ids.get(name) != archive_id
    )
    if left or lost or replaced:
        raise FleetVirtError(
            "; ".join(
                [f"{name} is still there after it was deleted" for name in left]
                + [f"{name} is missing, and was not to be deleted" for name in lost]
                + [f"{name} was replaced by another of its name meanwhile" for name in replaced]
            )
            + "; the space of what was deleted was not freed. Look with 'borg list'"
        )
    effects_borg.run(access, ["compact", address], seconds=SECONDS)
    return after
