# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_restore_disk``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..engine.envelope import Work
from .options import SavedVm

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "disk": {"type": "str", "required": True},
    "archive": {"type": "str"},
    "place": {"type": "str", "required": True},
    "passphrase": {"type": "str", "required": True, "no_log": True},
    "ssh_key": {"type": "path", "no_log": False},
    "pool": {"type": "str"},
}


class RestoreDiskOptions(t.TypedDict):
    """What :data:`ARGUMENTS` makes of a task's options."""

    name: str
    disk: str
    archive: str | None
    place: str
    passphrase: str
    ssh_key: str | None
    pool: str | None


def disk_options(params: t.Mapping[str, object]) -> RestoreDiskOptions:
    """The validated options of the module, without those of the connection."""
    return t.cast("RestoreDiskOptions", {name: params[name] for name in ARGUMENTS})


@dataclass(frozen=True)
class RestoreDiskWork(Work):
    """A stage of restoring a disk of a VM beside it."""

    STAGES = ("all", "find", "look", "decide", "act", "report")

    vms: list[SavedVm] = field(default_factory=list)
