# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that are up to date, found while the hypervisor is read for placement.

A batch without changes needs nothing else. Doubtful cases are left to the claim stage.
"""

from __future__ import annotations

import base64
import json
import typing as t

from ..base import read_caller as caller
from ..cards import leftover
from ..hosts import read_placement_facts as placement_facts
from ..notes import handed
from ..notes import read as read_notes

if t.TYPE_CHECKING:
    from ..base.effects_connection import Connection
    from ..base.snapshot import DefinedEntry, PlacementEntry
    from . import effects as init
    from .facts import MadeVm
    from .work import ProvisionWork

    class Options(init.ProvisionOptions):
        """With the connection, and the batch as the controller packed it; empty if it is not to be
        compared."""

        uri: str
        timeout: float
        _asked: str


class _Found(t.TypedDict, total=False):
    noted: dict[str, str]
    unnoted: str
    added_macs: dict[str, list[str]]
    vms: list[MadeVm]


class UpToDateResult(_Found):
    """The module's result of the stages that read."""

    changed: bool
    host: PlacementEntry
    warnings: list[str]


def facts(connection: Connection, params: Options, work: ProvisionWork) -> UpToDateResult:
    """This hypervisor's facts for placement, and the VMs of the batch that are up to date."""
    base = params["base_pool"]
    path = str(params["pool_paths"].get(base, ""))
    unnoted, notes = None, handed.unpacked(params["_notes"])
    if notes.claims or notes.readings:
        from . import effects_noting as noting

        unnoted = noting.keep(connection, notes)
    host = placement_facts.read(connection, base, path, work.image_paths)
    answer: UpToDateResult = {
        "changed": False,
        "host": host,
        "warnings": leftover.warnings(caller.host(), host["vms"]),
    }
    if unnoted is not None:
        answer["unnoted"] = unnoted
    if notes.answering:
        answer["noted"] = read_notes.texts(connection, notes.answering)
    if params["_asked"]:
        asked = here(params["_asked"], answer["host"]["vms"])
        answer["vms"] = []
        if asked:
            from . import read_unchanged as unchanged  # few hypervisors have one of them

            answer["vms"], added = unchanged.read(connection, params, work.home, asked)
            if added:
                answer["added_macs"] = added
    return answer


def here(asked: str, defined: t.Sequence[DefinedEntry]) -> list[dict[str, object]]:
    """The VMs of the batch, as the controller packed it, that were created on this hypervisor."""
    complete = {vm["name"] for vm in defined if vm["managed"] and vm["phase"] != "creating"}
    if not complete:
        return []
    batch: list[dict[str, object]] = json.loads(base64.b64decode(asked))
    return [vm for vm in batch if vm.get("name") in complete]
