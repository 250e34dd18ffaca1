# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A picture of a terminal shows every line as it was printed, in its order, and plays."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ansible_collections.fleet.virt.tests.screencast import COLUMNS, ROWS, Line, svg

_TEXT = "{http://www.w3.org/2000/svg}text"


def _lines(picture: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(picture).iter(_TEXT)]


def test_svg_shows_every_line_as_it_is() -> None:
    hostile = "a  <b> & \"c\" ]]> 'd'"
    long = "word " * 50
    picture = svg(
        [Line(1, "command", "ls -l"), Line(2, "output", hostile), Line(3, "output", long)]
    )
    shown = _lines(picture)
    assert shown[:2] == ["$ ls -l", hostile]
    assert "".join(shown[2:]) == long
    assert max(map(len, shown)) <= COLUMNS


def test_svg_shortens_pauses_and_scrolls_to_the_end() -> None:
    count = 3 * ROWS
    picture = svg([Line(100.0 * number, "output", f"line {number}") for number in range(count)])
    assert len(_lines(picture)) == count
    (total,) = set(re.findall(r"animation:\w+ ([\d.]+)s", picture))
    assert float(total) < 2 * count
    moments = [float(part) for part in re.findall(r"opacity:0}([\d.]+)%", picture)]
    assert moments == sorted(moments)
    assert moments[-1] < 100
    places = [int(by) for by in re.findall(r"translateY\(-(\d+)px\)}", picture)]
    assert places == sorted(places)
    # where nothing moves, that is what is seen
    assert f".screen{{transform:translateY(-{places[-1]}px)" in picture
