# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns: which of several controllers backs up now.

A turn is an archive with a number in a repository of its own, ``PLACE/turns``. borg makes no second
archive of a name, so of several controllers that want the next number, one gets it; no lock is left
by one that dies. How long ago the last turn was decides whether the next may be taken.
"""

from __future__ import annotations

import json
import re
import typing as t
from datetime import datetime, timedelta

from ..._records import dataclass
from ..base.json_values import as_mapping, as_text
from . import archives

REPOSITORY = "turns"
KEPT = 30  # turns; older ones are removed
_NAME = re.compile(r"turn-([0-9]{8})")


@dataclass(frozen=True)
class Turn:
    """A turn that ``by`` took."""

    number: int
    by: str
    at: str

    @property
    def archive(self) -> str:
        """Its archive's name."""
        return f"turn-{self.number:08}"

    @property
    def comment(self) -> str:
        """What its archive says."""
        return json.dumps({"fleet.virt": archives.VERSION, "turn": self.by, "at": self.at})


def read(listed: str) -> list[Turn]:
    """The turns in what ``borg list --json`` says, oldest first; what is none is left out."""
    try:
        document = as_mapping(json.loads(listed))
    except (ValueError, RecursionError):
        return []
    entries = document.get("archives")
    turns = [_turn(as_mapping(entry)) for entry in (entries if isinstance(entries, list) else ())]
    return sorted((turn for turn in turns if turn is not None), key=lambda turn: turn.number)


def _turn(entry: t.Mapping[str, object]) -> Turn | None:
    match = _NAME.fullmatch(as_text(entry.get("name")) or "")
    if match is None:
        return None
    try:
        said = as_mapping(json.loads(as_text(entry.get("comment")) or ""))
    except (ValueError, RecursionError):
        said = {}
    return Turn(int(match[1]), as_text(said.get("turn")) or "?", as_text(said.get("at")) or "")


def holder(turns: t.Sequence[Turn], now: datetime, hours: float) -> Turn | None:
    """The last turn, if it was within so many hours; None if the next may be taken.

    A moment that is none, or ahead of us, is no reason to back up nothing.
    """
    if not turns:
        return None
    at = archives.parse_moment(turns[-1].at)
    if at is None or archives.is_ahead(turns[-1].at, now) or now - at >= timedelta(hours=hours):
        return None
    return turns[-1]


def following(turns: t.Sequence[Turn], by: str, now: datetime) -> Turn:
    """The next turn, for the controller ``by``."""
    return Turn(turns[-1].number + 1 if turns else 1, by, archives.moment(now))
