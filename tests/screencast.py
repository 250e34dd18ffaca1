# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of a terminal as an SVG picture that plays, by CSS alone: it runs where an image may."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLUMNS, ROWS = 100, 26
_WIDE, _HIGH, _EDGE = 8.43, 18, 14
_LONGEST_PAUSE = 1.5  # seconds
_TYPING = 0.9  # before a command
_LAST = 8.0  # the end stays
_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!--
Copyright (c) 2026 Fleet Virt contributors
GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
Written by tests/recording.py from what the programs printed.
-->
"""
_STYLE = """\
text{font:14px/1 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;
fill:#c9d1d9;white-space:pre}
.command{fill:#7ee787;font-weight:bold}.comment{fill:#ff7b72;font-weight:bold}
"""


@dataclass(frozen=True)
class Line:
    """A line, the moment of it in seconds, and its kind: command, output or comment."""

    moment: float
    kind: str
    text: str


def _rows(lines: Iterable[Line]) -> Iterator[tuple[float, Line]]:
    """Lines as wide as the terminal, with the seconds since the start at which each is seen."""
    now = before = 0.0
    for number, line in enumerate(lines):
        pause = min(line.moment - before, _LONGEST_PAUSE) if number else 0.0
        now += max(pause, _TYPING if line.kind == "command" else 0.0)
        before = line.moment
        text = f"$ {line.text}" if line.kind == "command" else line.text
        for part in textwrap.wrap(text, COLUMNS, drop_whitespace=False) or [""]:
            yield now, Line(line.moment, line.kind, part)


def svg(lines: Iterable[Line]) -> str:
    """The picture. Where nothing moves it is its last screen."""
    rows = list(_rows(lines))
    total = rows[-1][0] + _LAST
    width = round(COLUMNS * _WIDE + 2 * _EDGE)
    height = ROWS * _HIGH + 2 * _EDGE
    moments = sorted({when for when, _line in rows})
    style, body = [_STYLE], []
    scrolled = []
    for number, when in enumerate(moments):
        part = 100 * when / total
        style.append(
            f"@keyframes s{number}{{0%{{opacity:0}}{part:.2f}%,100%{{opacity:1}}}}\n"
            f".s{number}{{animation:s{number} {total:.1f}s step-end infinite}}\n"
        )
        there = sum(1 for other, _line in rows if other <= when)
        scrolled.append((part, max(0, there - ROWS) * _HIGH))
    moves = "".join(f"{part:.2f}%{{transform:translateY(-{by}px)}}" for part, by in scrolled)
    last = scrolled[-1][1]
    style.append(f"@keyframes scroll{{{moves}100%{{transform:translateY(-{last}px)}}}}\n")
    style.append(
        f".screen{{transform:translateY(-{last}px);"
        f"animation:scroll {total:.1f}s step-end infinite}}\n"
        "@media (prefers-reduced-motion:reduce){*{animation:none!important}}\n"
    )
    groups = itertools.groupby(enumerate(rows), key=lambda entry: entry[1][0])
    for number, (_when, entries) in enumerate(groups):
        body.append(f'<g class="s{number}">\n')
        for row, (_moment, line) in entries:
            if line.text:
                y = round(_EDGE + row * _HIGH + 13)
                body.append(
                    f'<text class="{line.kind}" x="{_EDGE}" y="{y}" xml:space="preserve">'
                    f"{escape(line.text)}</text>\n"
                )
        body.append("</g>\n")
    return (
        f'{_HEAD}<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img">\n'
        "<title>A VM is created, moved, its next move is killed, and repaired</title>\n"
        f"<style>\n{''.join(style)}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n'
        f'<svg x="0" y="{_EDGE}" width="{width}" height="{ROWS * _HIGH}"'
        f' viewBox="0 {_EDGE} {width} {ROWS * _HIGH}">\n'
        f'<g class="screen">\n{"".join(body)}</g>\n</svg>\n</svg>\n'
    )
