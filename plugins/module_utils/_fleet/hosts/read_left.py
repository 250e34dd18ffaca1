# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Naming the definitions that a hypervisor which was off has of VMs that are elsewhere now."""

from __future__ import annotations

import contextlib
import typing as t

from ..._errors import FleetVirtError
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..cards import leftover, read_leftovers
from . import read_disks

if t.TYPE_CHECKING:
    from ..base.answers import VmIdentity
    from ..base.snapshot import DomainEntry

REASON = "leftover"


def name(connection: Connection, entries: t.Iterable[DomainEntry]) -> None:
    """Say of each leftover that it is one, and what clears it, instead of which disks it lacks.

    Only those that are off and lack something are looked at, on storage that does not hang: a VM
    of a cell that was just shut off differs from its card for a moment, and has its disks. What
    cannot be found out leaves the entry as it was read.
    """
    doubtful = {
        entry["uuid"]: entry
        for entry in entries
        if entry["state"] == "shutoff" and entry["error"]
        if read_disks.SILENT not in entry["error"]
    }
    vms: list[VmIdentity] = [
        {"name": entry["name"], "uuid": uuid, "phase": None} for uuid, entry in doubtful.items()
    ]
    with contextlib.suppress(FleetVirtError):
        read_leftovers.mark(connection, vms)
    for vm in vms:
        left = leftover.refusal(vm["name"], caller.host(), vm)
        if left is not None:
            entry = doubtful[str(vm["uuid"])]
            entry["reason"] = f"{REASON}, by its card on {vm['leftover']}"
            entry["error"] = left
