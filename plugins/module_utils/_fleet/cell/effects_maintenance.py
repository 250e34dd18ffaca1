# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The maintenance of a member, as its cell knows it: a permanent attribute of its node.

The hypervisor's own mark is set or removed whatever becomes of this: who does so may be about to
mend the cell. What the cell was not told is said.
"""

from __future__ import annotations

import time
import typing as t

from ..._errors import DeadlineExceeded
from ..base import effects_config_files as config_files
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from . import corosync, read
from .cib import MAINTENANCE
from .files import SERVICES

_SECONDS = 20.0
_NO_SUCH = 105  # crm_attribute: there is no such attribute
_QUORUM = 45.0  # a member that has booted needs half of it
_PAUSE = 1.0
_QUERY = ("--query", "--quiet")


def mark(result: t.Mapping[str, object], wanted: bool, *, check: bool) -> dict[str, object]:
    """Have the cell know of the maintenance, too; the result of setting the hypervisor's mark with
    what that changed. ``cell`` in it is what the cell was not told."""
    cell = corosync.read(config_files.read(corosync.PATH)).cell
    if cell is None:
        return {**result}
    reason = _without_quorum()
    if reason:
        return {**result, "cell": not_told(cell, reason, wanted=wanted)}
    known, reason = _known()
    changed = not reason and known != ("true" if wanted else None)
    if changed and not check:
        reason = _write(wanted)
    if reason:
        return {**result, "cell": not_told(cell, reason, wanted=wanted)}
    return {**result, **with_attribute(result, wanted)} if changed else {**result}


def with_attribute(result: t.Mapping[str, object], wanted: bool) -> dict[str, object]:
    """What changes in ``result`` with the attribute."""
    line = f"node attribute {MAINTENANCE}=true\n"
    diff = result.get("diff")
    before, after = (
        (str(diff["before"]), str(diff["after"])) if isinstance(diff, dict) else ("", "")
    )
    lines = (before, after + line) if wanted else (before + line, after)
    return {"changed": True, "diff": dict(zip(("before", "after"), lines))}


def not_told(cell: str, reason: str, *, wanted: bool) -> str:
    """What to say if the cell does not know."""
    what = "may still start its VMs here" if wanted else "still starts none of its VMs here"
    return (
        f"{reason}, so cell {cell!r} was not told, and {what}; run this again once that is mended"
    )


def _without_quorum() -> str:
    """Why nothing can be written, empty if it can; waits for a member that has just booted."""
    end = time.monotonic() + _QUORUM
    while True:
        seen = read.monitored()
        if seen is not None and seen.quorate:
            return ""
        if not systemd.is_active(SERVICES[-1]):
            return "Pacemaker does not run here"
        if time.monotonic() > end:
            return "Pacemaker does not answer here" if seen is None else "there is no quorum here"
        time.sleep(_PAUSE)


def _write(wanted: bool) -> str:
    """Why the attribute is not as it is to be now, empty if it is."""
    how = ("--update", "true") if wanted else ("--delete",)
    status, text = _attribute(*how)
    known, reason = _known()
    if reason or known == ("true" if wanted else None):
        return reason
    return f"crm_attribute failed ({status}): {text}"


def _known() -> tuple[str | None, str]:
    """The attribute's value, and why it cannot be read."""
    status, text = _attribute(*_QUERY)
    if status in (0, _NO_SUCH):
        return (text if status == 0 else None), ""
    return None, f"crm_attribute failed ({status}): {text}"


def _attribute(*words: str) -> tuple[int, str]:
    command = ["crm_attribute", "--name", MAINTENANCE, "--lifetime", "forever", *words]
    try:
        done = programs.attempt(command, seconds=_SECONDS)
    except DeadlineExceeded as error:
        return 1, str(error)
    if done is None:
        return 127, "it is not installed"
    return done.status, (done.out if done.status == 0 else done.error_text).strip()
