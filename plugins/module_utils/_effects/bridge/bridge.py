# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making bridges over the interface that carries the connection, in two calls.

The first plans, arms the rollback and starts the switch; the second, over a new connection, looks
whether all is as it has to be, and confirms.

This file is private to the collection.
"""

from __future__ import annotations

import re
import time
import typing as t
import uuid

from ..._errors import FleetVirtError
from ..._pure.bridge import plan as bridge_plan
from ..._pure.bridge.types import File, Plan, Wanted
from ..base import processes
from . import journal
from . import session as bridge_session
from .facts import gather, network

_LOOK = 2.0  # seconds that one call looks for what is missing
_ROLLING = 60.0  # seconds that a rollback under way is waited for
_SECRET = re.compile(
    r"^(\s*[\w.-]*(?:password|passphrase|psk|secret|pin|wep-key)[\w.-]*\s*[=:]\s*).+$",
    re.IGNORECASE | re.MULTILINE,
)


def begin(wanted: t.Sequence[Wanted], window: int, *, check: bool) -> dict[str, t.Any]:
    """Plan, and unless nothing is to be done (or in check mode) arm and start the switch."""
    if check:
        return _begin(wanted, window, check=True)
    with journal.alone():
        return _begin(wanted, window, check=False)


def _begin(wanted: t.Sequence[Wanted], window: int, *, check: bool) -> dict[str, t.Any]:
    if not check and journal.state() == "rolling-back":
        _wait_rolled_back()
    if journal.state() == "armed" and not check:
        # An earlier run ended between switch and confirmation: this one is the confirmation
        left = max(journal.seconds_left(), 0)
        return {"pending": journal.record()["id"], "window": left, "resumed": True}
    plan = bridge_plan.make(wanted, gather(wanted))
    result: dict[str, t.Any] = {
        "changed": plan.switch is not None,
        "bridges": [dict(entry) for entry in plan.bridges],
        "earlier": _earlier() if plan.switch else None,
        "diff": _diff(plan),
    }
    if plan.switch is None:
        if journal.state() == "confirmed" and not check:
            journal.disarm()  # a run that was killed right after it confirmed
        return result
    if not check:
        result["pending"] = str(uuid.uuid4())
        result["window"] = window
        journal.arm(plan, plan.switch, result["pending"], window)
    return result


def confirm(identifier: str) -> dict[str, t.Any]:
    """What became of a switch; confirms it if all is right and the connection is a new one."""
    with journal.alone():
        if journal.record().get("id") != identifier:
            raise FleetVirtError(f"there is no switch {identifier} here; run again")
        deadline = time.monotonic() + _LOOK
        while True:
            outcome, why = _outcome()
            if outcome != "waiting" or time.monotonic() > deadline:
                return {"changed": False, "outcome": outcome, "why": why}
            time.sleep(0.2)


def _outcome() -> tuple[str, str]:
    state = journal.state()
    if state == "rolled-back":
        return "rolled back", journal.reason()
    if state == "rolling-back":
        return "waiting", "it is being rolled back"
    if state == "confirmed":
        journal.disarm()
        return "confirmed", ""
    mark = journal.applied()
    if not mark:
        return "waiting", "the new configuration is not in place yet"
    started = bridge_session.server_started()
    if started is not None and started < processes.parse(mark).start_time:
        return "old connection", "this connection is from before the switch"
    facts = network()
    lost = [line for one in journal.expected() for line in bridge_plan.missing(one, facts)]
    if lost:
        journal.note(lost)
        return "waiting", "; ".join(lost)
    return ("confirmed", "") if journal.confirm() else ("waiting", "it is being rolled back")


def _wait_rolled_back() -> None:
    deadline = time.monotonic() + _ROLLING
    while journal.state() == "rolling-back":
        if time.monotonic() > deadline:
            raise FleetVirtError(
                "the former network configuration is being put back, and that does not end; see"
                f" {journal.FOLDER}/rollback.log"
            )
        time.sleep(0.2)


def _earlier() -> dict[str, str] | None:
    """What became of the last switch, if it was rolled back."""
    state = journal.state()
    if state == "rolled-back":
        return {
            "outcome": "rolled back",
            "armed": journal.record()["armed"],
            "reason": journal.reason(),
        }
    if state in ("armed", "rolling-back"):
        return {
            "outcome": "under way",
            "armed": journal.record()["armed"],
            "reason": "an earlier run was interrupted",
        }
    return None


def _diff(plan: Plan) -> list[dict[str, str]]:
    return [_file_diff(file) for file in plan.switch.files] if plan.switch else []


def _file_diff(file: File) -> dict[str, str]:
    """A file before and after, without the passwords that a profile may hold."""

    def shown(text: str | None) -> str:
        plain = (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return _SECRET.sub(r"\1(hidden)", plain)

    return {
        "before_header": file.path,
        "after_header": file.path,
        "before": shown(file.before),
        "after": shown(file.after),
    }
