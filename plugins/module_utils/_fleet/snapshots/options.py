# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_snapshot``, for the module and its action plugin."""

from __future__ import annotations

import re
import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass
from ..base.arguments import Spec
from ..base.json_values import as_text
from ..engine.envelope import SelectingWork
from .facts import ABSENT, ALWAYS, AUTO, NEVER, PRESENT, REVERTED, SnapshotRequest

_MOST_KEPT = 1000
# libvirt's name for it is a file name too: it stores the snapshot's metadata under it
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}")

ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
    "snapshot": {"type": "str"},
    "state": {"type": "str", "choices": [PRESENT, REVERTED, ABSENT], "default": PRESENT},
    "children": {"type": "bool", "default": False},
    "keep": {"type": "int"},
    "disk_only": {"type": "bool", "default": False},
    "quiesce": {"type": "str", "choices": [AUTO, ALWAYS, NEVER], "default": AUTO},
}


@dataclass(frozen=True)
class SnapshotWork(SelectingWork):
    """A stage of working on snapshots, or of listing them."""

    STAGES = (*SelectingWork.STAGES, "list")


def wanted_of(options: t.Mapping[str, object]) -> SnapshotRequest:
    """The options as a request; raises SpecError for invalid ones."""
    name, state, keep = as_text(options["snapshot"]) or "", str(options["state"]), options["keep"]
    problems = []
    if not name:
        rule = "none is named; give one (in a playbook virt_snapshot=before-upgrade)"
        problems.append(Problem("snapshot", rule))
    elif state == PRESENT and not _NAME.fullmatch(name):
        rule = "use at most 63 letters, digits and _.+-, the first a letter or digit"
        problems.append(Problem("snapshot", f"{name!r} is no snapshot name; {rule}"))
    if keep is not None and (not isinstance(keep, int) or not 1 <= keep <= _MOST_KEPT):
        rule = f"give a number from 1 to {_MOST_KEPT}"
        problems.append(Problem("keep", f"{keep} is no number of snapshots to keep; {rule}"))
    if keep is not None and state != PRESENT:
        rule = "only taking a snapshot removes old ones; leave it out"
        problems.append(Problem("keep", f"given with state {state}; {rule}"))
    if options["children"] and state != ABSENT:
        rule = "only deleting a snapshot can include its children; leave it out"
        problems.append(Problem("children", f"given with state {state}; {rule}"))
    disk_only, quiesce = bool(options["disk_only"]), str(options["quiesce"])
    if disk_only and state != PRESENT:
        rule = "an existing snapshot's kind is known; leave it out"
        problems.append(Problem("disk_only", f"given with state {state}; {rule}"))
    if quiesce == ALWAYS and not disk_only:
        rule = "only a disk-only snapshot (disk_only) needs it; leave it out"
        problems.append(Problem("quiesce", f"{ALWAYS} is given without disk_only; {rule}"))
    if problems:
        raise SpecError(problems)
    most = keep if isinstance(keep, int) else None
    return SnapshotRequest(name, state, bool(options["children"]), most, disk_only, quiesce)
