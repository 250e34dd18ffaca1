# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs of a cell that are off and defined nowhere: the cell starts them, where it finds best."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError
from ..base.effects_connection import Connection
from ..base.results import json_diff
from ..base.selected import Selected
from ..cards import leftover
from ..cell import effects_hold as cells
from ..cell import hold, read_nowhere
from .facts import BroughtVm
from .plan import StateRequest

if t.TYPE_CHECKING:
    from ..cell.facts import CellVm

_OFF, _RUNNING, _UNKNOWN = "shutoff", "running", "unknown"


def bring(
    connection: Connection, names: t.Sequence[str], wanted: StateRequest, *, check: bool
) -> dict[str, object]:
    """The module's result for those of ``names`` that are nowhere, without those that are here."""
    vms: list[BroughtVm] = []
    diff: list[object] = []
    for cell, card, vm in read_nowhere.vms(connection, Selected.of(names)):
        entry = _bring(connection, cell, card.name, vm, wanted, check=check)
        vms.append(entry)
        if entry["changed"]:
            diff.append(json_diff(card.name, {"state": _OFF}, {"state": entry["state"]}))
    problems = [str(vm["msg"]) for vm in vms if vm["failed"]]
    failed = {"failed": True, "msg": "; ".join(problems)} if problems else {}
    changed = any(vm["changed"] for vm in vms)
    return {"changed": changed, "vms": vms, "diff": diff, **failed}


def _bring(
    connection: Connection,
    cell: str,
    name: str,
    vm: CellVm,
    wanted: StateRequest,
    *,
    check: bool,
) -> BroughtVm:
    only_state = not wanted.operations and wanted.autostart is None
    starts = only_state and wanted.state == _RUNNING
    doubt = read_nowhere.doubt(vm)
    problem = None
    if doubt is not None:
        problem = leftover.refusal(name, "", {"nowhere": cell, "error": doubt})
    elif not (starts or (only_state and wanted.state == _OFF)):
        problem = leftover.refusal(name, "", {"nowhere": cell})
    else:
        problem = (hold.no_start if starts else hold.no_rest)(name, cell, vm)
    if starts and problem is None and not check:
        try:
            cells.start(connection, name, vm)
        except FleetVirtError as error:
            problem = str(error)
    changed = starts and problem is None
    state = _OFF if doubt is None else _UNKNOWN
    return {
        "name": name,
        "uuid": vm.uuid,
        "changed": changed,
        "state": _RUNNING if changed else state,
        "before": state,
        "autostart": False,
        "steps": [f"have the cell {cell!r} start it"] if changed else [],
        "not_tried": False,
        "failed": problem is not None,
        "msg": problem,
    }
