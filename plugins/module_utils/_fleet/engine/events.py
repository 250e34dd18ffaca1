# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What others are told of an outcome: a hook of the user's, and the journals.

Who it was is what the controller calls its user: a claim, as is all that a hypervisor is told.
"""

from __future__ import annotations

import json
import typing as t

from ..._records import dataclass
from ..base.tables import clean
from .outcomes import Answer, Outcome

FAILED, CHANGED, UNCHANGED, NOT_TRIED = "failed", "changed", "unchanged", "not_tried"
_LONG = 400


@dataclass(frozen=True)
class Caller:
    """Who runs what: the ``person`` at the controller, the ``run`` and its ``verb``."""

    person: str
    run: str
    verb: str


@dataclass(frozen=True)
class Event:
    """What came of a verb: ``host`` is the hypervisor that did it, ``vm`` is None where a
    hypervisor itself was changed."""

    caller: Caller
    host: str
    vm: str | None
    outcome: str
    message: str | None = None

    @property
    def is_news(self) -> bool:
        """Whether a journal has to have it."""
        return self.outcome in (CHANGED, FAILED)

    @property
    def json(self) -> str:
        """One line of ASCII, whatever is in it."""
        message = None if self.message is None else self.message[:_LONG]
        return json.dumps(
            {
                "event": "outcome",
                "verb": self.caller.verb,
                "vm": self.vm,
                "host": self.host,
                "outcome": self.outcome,
                "message": message,
                "person": self.caller.person[:_LONG],
                "run": self.caller.run,
            }
        )


def of_outcome(caller: Caller, outcome: Outcome[Answer]) -> Event:
    """What is told of the outcome for a VM."""
    entry = outcome.entry or {}
    word = CHANGED if entry.get("changed") else UNCHANGED
    if outcome.problem is not None:
        word = FAILED
    elif entry.get("not_tried"):
        word = NOT_TRIED
    message = None if outcome.problem is None else clean("".join(outcome.problem))
    return Event(caller, outcome.host, outcome.name, word, message)


def of_module(caller: Caller, host: str, result: Answer) -> list[Event]:
    """What is told of the result of a module that changed something, or failed to: by VM, if it is
    of VMs. A stage that reads does neither, even if it cannot read one."""
    if not (result.get("changed") or result.get("failed")):
        return []
    entries = result.get("vms")
    events: list[Event] = []
    for entry in entries if isinstance(entries, list) else ():
        problem = str(entry.get("msg") or entry.get("error")) if _failed(entry) else None
        name = str(entry.get("name"))
        events.append(of_outcome(caller, Outcome(host, name, entry, problem)))
    news = [event for event in events if event.is_news]
    if news or not result.get("changed"):
        return news
    return [Event(caller, host, None, CHANGED)]


def _failed(entry: t.Mapping[str, object]) -> bool:
    return bool(entry.get("failed") or entry.get("error"))
