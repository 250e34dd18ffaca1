# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating bridges over the interface that carries the connection, in two calls.

The first plans, arms the rollback and starts the switch; the second, over a new connection, checks
that everything is as required, and confirms.
"""

from __future__ import annotations

import re
import time
import typing as t
import uuid

from ..._errors import FleetVirtError
from ..base import read_processes as processes
from . import effects_journal as journal
from . import plan as bridge_plan
from . import read_session as bridge_session
from .read import gather, network
from .types import BridgeEntry, BridgePlan, FileChange, RequestedBridge

if t.TYPE_CHECKING:
    from ..base.results import Diff

_LOOK = 2.0  # seconds that one call checks for what is missing
_ROLLING = 60.0  # seconds to wait for a rollback in progress
_SECRET = re.compile(
    r"^(\s*[\w.-]*(?:password|passphrase|psk|secret|pin|wep-key)[\w.-]*\s*[=:]\s*).+$",
    re.IGNORECASE | re.MULTILINE,
)


class Earlier(t.TypedDict):
    """An earlier switch that was rolled back or did not finish."""

    outcome: str
    armed: str
    reason: str


class Pending(t.TypedDict, total=False):
    """A switch that waits for its confirmation; ``resumed``: an earlier run started it."""

    pending: str
    window: float
    resumed: bool


class Begun(Pending):
    """What was done, or in check mode would be done."""

    changed: bool
    bridges: list[BridgeEntry]
    earlier: Earlier | None
    diff: list[Diff]


class Confirmed(t.TypedDict):
    """The outcome of a switch, and the reason."""

    changed: bool
    outcome: str
    why: str


def begin(wanted: t.Sequence[RequestedBridge], window: int, *, check: bool) -> Begun | Pending:
    """Plan the switch; if there is something to do (and not in check mode), arm and start it."""
    if check:
        return _begin(wanted, window, check=True)
    with journal.exclusive():
        return _begin(wanted, window, check=False)


def _begin(wanted: t.Sequence[RequestedBridge], window: int, *, check: bool) -> Begun | Pending:
    if not check and journal.state() == "rolling-back":
        _wait_rolled_back()
    armed = journal.record() if journal.state() == "armed" else None
    if armed is not None and not check:
        # An earlier run ended between switch and confirmation: this one is the confirmation
        left = max(journal.seconds_left(armed), 0)
        return {"pending": armed["id"], "window": left, "resumed": True}
    plan = bridge_plan.make(wanted, gather(wanted))
    result: Begun = {
        "changed": plan.switch is not None,
        "bridges": list(plan.bridges),
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


def confirm(identifier: str) -> Confirmed:
    """The outcome of a switch; confirms it if all is as expected over a new connection."""
    with journal.exclusive():
        record = journal.record()
        if record is None or record["id"] != identifier:
            raise FleetVirtError(f"this machine has no pending switch {identifier}; run again")
        deadline = time.monotonic() + _LOOK
        while True:
            outcome, why = _outcome(record)
            if outcome != "waiting" or time.monotonic() > deadline:
                return {"changed": False, "outcome": outcome, "why": why}
            time.sleep(0.2)


def _outcome(record: journal.Record) -> tuple[str, str]:
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
        return "old connection", "this connection was opened before the switch"
    facts = network()
    lost = [
        line
        for one in journal.expected(record["expected"])
        for line in bridge_plan.missing(one, facts)
    ]
    if lost:
        journal.note(lost)
        return "waiting", "; ".join(lost)
    return ("confirmed", "") if journal.confirm() else ("waiting", "it is being rolled back")


def _wait_rolled_back() -> None:
    deadline = time.monotonic() + _ROLLING
    while journal.state() == "rolling-back":
        if time.monotonic() > deadline:
            raise FleetVirtError(
                "the rollback to the previous network configuration does not finish; see"
                f" {journal.FOLDER}/rollback.log"
            )
        time.sleep(0.2)


def _earlier() -> Earlier | None:
    """The outcome of the last switch, if it was rolled back or is in progress."""
    state, record = journal.state(), journal.record()
    if record is None:
        return None
    if state == "rolled-back":
        return {"outcome": "rolled back", "armed": record["armed"], "reason": journal.reason()}
    if state in ("armed", "rolling-back"):
        why = "an earlier run was interrupted"
        return {"outcome": "under way", "armed": record["armed"], "reason": why}
    return None


def _diff(plan: BridgePlan) -> list[Diff]:
    return [_file_diff(file) for file in plan.switch.files] if plan.switch else []


def _file_diff(file: FileChange) -> Diff:
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
