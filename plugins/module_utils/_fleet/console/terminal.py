# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of a guest's serial console that reaches a terminal: text, movement and colours.

A terminal can be told to do more than show text: to answer (and so to type), set clipboards and
titles, write files, download. So only what is listed here passes; the rest is left out.

Source: ECMA-48; xterm's ctlseqs.
"""

from __future__ import annotations

import codecs
import re

from ..._errors import TURNING

ENDS = b"\x1d"  # Ctrl-], as of virsh and telnet
_CONTROLS = frozenset("\a\b\t\n\v\f\r\x0e\x0f")
# Modes that a guest's program needs, and how a terminal has them before: insertion, cursor keys,
# wrapping, blinking and visibility of the cursor, the other screens (which restore the cursor)
_MODES = {"4": "l", "?1": "l", "?7": "h", "?12": "l", "?25": "h"}
_MODES.update({"?47": "l", "?1047": "l", "?1049": "l"})
# What passes after ESC, and what undoes it at the end: the only list of both
_SEQUENCES = {
    r"\[[0-9;:]{0,64}[@A-HJ-MPSTXZ`adef]": "",  # cursor, erasing, inserting, scrolling
    r"[78DEM]|\[\?1048[hl]": "",  # the cursor's place, which the guest's text moves anyway
    r"\[[0-9;:]{0,64}m": "\x1b[0m",  # colours
    r"\([0AB]": "\x1b(B\x0f",  # character set, with SO and SI
    r"[=>]": "\x1b>",  # numeric keys
    r"\[[0-9;:]{0,64}r": "\x1b[r",  # margins of scrolling
    **{rf"\[{re.escape(mode)}[hl]": f"\x1b[{mode}{usual}" for mode, usual in _MODES.items()},
}
_PASSING = re.compile("|".join(_SEQUENCES))
# A terminal as it was
RESET = "".join(_SEQUENCES.values()) + "\r\n"
_LONGEST = 128  # characters of a sequence; anything longer is not one
_STRINGS = "PX]^_"  # DCS, SOS, OSC, PM, APC: up to their end


class Filter:
    """Convert bytes from a guest to text for a terminal, however they are split."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._string = False

    def feed(self, data: bytes) -> str:
        """The part of the next data that may be shown."""
        return "".join(map(self._next, self._decoder.decode(data)))

    def _next(self, char: str) -> str:
        if self._string:
            return self._within_string(char)
        if char == "\x1b" or char in "\x18\x1a":  # starts again, or is aborted
            self._pending = char if char == "\x1b" else ""
            return ""
        if not self._pending:
            return char if char in _CONTROLS or _is_text(char) else ""
        if not " " <= char <= "~":  # controls within a sequence are left out
            return ""
        self._pending += char
        return self._sequence()

    def _within_string(self, char: str) -> str:
        if char in "\a\x9c\x18\x1a" or (self._pending == "\x1b" and char == "\\"):
            self._string, self._pending = False, ""
        elif self._pending == "\x1b":  # a new sequence ends it, too
            self._string, self._pending = False, "\x1b"
            return self._next(char)
        else:
            self._pending = "\x1b" if char == "\x1b" else ""
        return ""

    def _sequence(self) -> str:
        """The pending sequence, if it is complete and may pass."""
        kind, rest = self._pending[1], self._pending[2:]
        if kind in _STRINGS:
            self._string, self._pending = True, ""
            return ""
        if kind == "[":
            if not rest or not "@" <= rest[-1] <= "~":
                self._pending = "" if len(rest) > _LONGEST else self._pending
                return ""
        elif " " <= self._pending[-1] <= "/":  # one more follows
            self._pending = "" if len(rest) > _LONGEST else self._pending
            return ""
        allowed = _PASSING.fullmatch(self._pending[1:])
        sequence, self._pending = self._pending, ""
        return sequence if allowed else ""


def _is_text(char: str) -> bool:
    """Whether it is neither a C0 or C1 control nor a change of text direction."""
    return char >= " " and not "\x7f" <= char <= "\x9f" and char not in TURNING
