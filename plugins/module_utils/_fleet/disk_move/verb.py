# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moving a disk to another pool, as a verb on VMs."""

from __future__ import annotations

from ..base.answers import GroupedLook, GroupedVm
from ..engine.declaration import Verb
from .facts import DiskMoved, DiskMovedVm
from .options import ARGUMENTS, wanted_of


def _kept(vm: DiskMovedVm | None) -> str:
    kept = vm["kept"] if vm is not None else None
    return f"{kept['path']}: {kept['reason']}" if kept is not None else ""


VERB: Verb[GroupedVm, DiskMovedVm] = Verb(
    arguments=ARGUMENTS,
    request=wanted_of,
    look=GroupedLook,
    vm=GroupedVm,
    done=DiskMoved,
    entry=DiskMovedVm,
    words=("moved", "would be moved"),
    columns={"DISK": lambda vm: vm["path"] if vm is not None else None, "KEPT": _kept},
)
