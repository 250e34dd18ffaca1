# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress lines of a move."""

from __future__ import annotations

import json
import typing as t

from ..._units import MIB
from ..base.tables import clean

SECONDS = 3.0  # between two lines of a VM; a move that is shorter has none
MOST_SAID = 4096  # bytes of a line on its way to the controller
_LONG = 24 * 3600  # seconds; more is no estimate
_LONGEST = 200  # characters of a line
_FASTEST = SECONDS / 2  # seconds between two lines, whatever a hypervisor says


def line(name: str, stats: t.Mapping[str, int | str]) -> str:
    """One line from libvirt's job statistics, as far as there are any."""
    parts = [_part(word, stats) for word in ("memory", "disk")]
    told = [part for part in parts if part]
    total, left = _number(stats, "data_total"), _number(stats, "data_remaining")
    sizes = ", ".join(told) or _sizes("data", stats)
    seconds = max(1, _number(stats, "time_elapsed")) / 1000
    rate = _number(stats, "data_processed") / seconds
    percent = 100 * max(0, total - left) // total if total else 0
    text = f"{name}: {percent} %, {sizes}, {rate / MIB:.1f} MiB/s"
    if "memory_dirty_rate" in stats and "memory_page_size" in stats:
        dirty = _number(stats, "memory_dirty_rate") * _number(stats, "memory_page_size")
        text += f", changes {dirty / MIB:.1f} MiB/s"
    if rate > 0 and left <= rate * _LONG:  # else it has hardly begun, and nobody knows
        text += f", {left / rate:.0f} s left"
    return text


def _part(word: str, stats: t.Mapping[str, int | str]) -> str:
    return f"{word} {_sizes(word, stats)}" if _number(stats, f"{word}_total") else ""


def _sizes(word: str, stats: t.Mapping[str, int | str]) -> str:
    """How much of the total is copied; pages that the guest changes again count as not copied."""
    total, left = (_number(stats, f"{word}_{which}") for which in ("total", "remaining"))
    return f"{max(0, total - left) / MIB:.1f} of {total / MIB:.1f} MiB"


def _number(stats: t.Mapping[str, int | str], key: str) -> int:
    return int(stats.get(key, 0))


def encode(name: str, text: str) -> bytes:
    """A line as it is sent to the controller."""
    return json.dumps({"name": name, "line": text}).encode() + b"\n"


class News:
    """Lines of the moves of ``names`` as a hypervisor sends them, one after another.

    Anything else is ignored, and so are lines that come faster than they should.
    """

    def __init__(self, names: t.Iterable[str]) -> None:
        self.told: dict[str, str] = dict.fromkeys(names, "")
        self._at: dict[str, float] = {}
        self._rest = b""

    def take(self, data: bytes, now: float) -> list[str]:
        """What to show of ``data``, which came at ``now``."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-MOST_SAID:]
        return [text for one in whole for text in self._line(one, now)]

    def late(self, name: object, lines: t.Sequence[object], most: int = 3) -> list[str]:
        """The last of all lines of a move that has ended, without those that were shown."""
        texts = [_shown(str(one)) for one in lines]
        told = self.told.get(str(name), "")
        if told in texts:
            texts = texts[len(texts) - texts[::-1].index(told) :]
        return texts[-most:]

    def _line(self, sent: bytes, now: float) -> list[str]:
        try:
            entry = json.loads(sent) if len(sent) <= MOST_SAID else None
        except (ValueError, RecursionError):
            return []
        name, text = (
            (entry.get("name"), entry.get("line")) if isinstance(entry, dict) else (None, None)
        )
        if not (isinstance(name, str) and isinstance(text, str) and name in self.told):
            return []
        shown = _shown(text)
        at = self._at.get(name)
        early = at is not None and now - at < _FASTEST
        if early or shown == self.told[name] or not text.startswith(f"{name}: "):
            return []
        self.told[name], self._at[name] = shown, now
        return [shown]


def _shown(text: str) -> str:
    return clean(text)[:_LONGEST]
