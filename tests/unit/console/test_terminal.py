# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a guest can make an administrator's terminal do."""

from __future__ import annotations

import random
import re
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import TURNING
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.terminal import (
    RESET,
    Filter,
)


@pytest.mark.parametrize(
    "text",
    [
        "web1 login: \a\b\t\r\n",
        "Grüße, 日本語",
        "\x1b[2J\x1b[H\x1b[1;31mred\x1b[0m\x1b[38;5;12m\x1b[38:2:1:2:3m",
        "\x1b[?25l\x1b[?1049h\x1b[?1h\x1b=\x1b[4l",
        "\x1b7\x1b[10;20H\x1b8\x1b(0lqk\x1b(B\x1bM",
        RESET,
    ],
)
def test_what_passes(text: str) -> None:
    assert Filter().feed(text.encode()) == text
    apart = Filter()
    assert "".join(apart.feed(bytes([byte])) for byte in text.encode()) == text


@pytest.mark.parametrize(
    "evil",
    [
        "\x1b]0;title\a",
        "\x1b]52;c;Y3VybCBldmlsIHwgc2g=\x1b\\",  # the clipboard
        "\x1b]8;;http://evil\x1b\\",
        "\x1bP$qm\x1b\\",  # answers, so types
        "\x1b[6n\x1b[c\x1b[>c\x1b[0x\x1b[21t\x1b[?6n\x1b[18t",
        "\x1b[5i\x1b[4i",  # the printer
        "\x1b[?2004h\x1b[?1000h\x1b[?1003;1006h\x1b[?9001h",
        "\x1bc\x1b[!p\x1bZ\x1b#8\x1bn",
        "\x1b_Gevil\x1b\\\x1b^evil\x1b\\\x1bXevil\x1b\\",
        "\x1b]1337;File=name=x:AAAA\a",
        "\x1b[20;1;3y\x1b[1$}",
        "\u009b6n"[:1] + "\u009d\u0090\u009f",  # C1
        "\u202e\u2066",
        "\x05\x00\x7f",  # ENQ answers, too
        "\x1b%G\x1b)X\x1b[?7;1000h",
    ],
)
def test_what_does_not(evil: str) -> None:
    assert Filter().feed(f"a{evil}b".encode()) == "ab"
    apart = Filter()
    assert "".join(apart.feed(bytes([one])) for one in f"a{evil}b".encode()) == "ab"


def test_a_string_ends_and_a_long_sequence_is_none() -> None:
    assert Filter().feed(b"\x1b]0;never ended\x1b[1mbold") == "\x1b[1mbold"
    assert Filter().feed(b"\x1b[" + b"1" * 500 + b"m") != ""
    assert "\x1b" not in Filter().feed(b"\x1b[" + b"1" * 500 + b"m")
    assert Filter().feed(b"\xff\x1b[1") == "\ufffd"


def test_noise() -> None:
    """Whatever comes, all that is left of sequences is what is listed."""
    chance = random.Random(19)  # noqa: S311
    alphabet = b"\x1b\x1b\x1b[[]PX_?;0123456789hlmnct\\\a\x9b ab\xc2\x9b"
    listed = re.compile(r"\x1b(\[[0-9;:]*[@-Z`adefmr]|\[(4|\?[0-9]+)[hl]|[78DEM=>]|\([0AB])")
    for _ in range(2000):
        text = Filter().feed(bytes(chance.choices(alphabet, k=60)))
        assert "\x1b" not in listed.sub("", text), text
        assert not re.search("[\x00-\x06\x80-\x9f]", text)


def _allowed(sequences: t.Iterable[str]) -> list[str]:
    return [text for text in sequences if Filter().feed(text.encode()) == text]


def test_every_mode_that_passes_is_reset() -> None:
    """All modes of ECMA-48 and of terminals' own, set and reset, alone."""
    numbers = [f"{mark}{number}" for mark in ("", "?", ">", "=", "<") for number in range(2_100)]
    passing = {
        number
        for number in numbers
        for text in _allowed(f"\x1b[{number}{end}" for end in "hl")
        if text
    }
    assert {"?1", "?7", "?25", "?1049", "4"} <= passing
    reset = set(re.findall(r"\x1b\[([?]?\d+)[hl]", RESET))
    assert passing - reset == {"?1048"}, "which saves the cursor's place, and sets nothing"
    assert reset <= passing


def test_every_other_state_that_passes_is_reset() -> None:
    """Final bytes of control sequences, and escapes of one or two characters."""
    finals = {chr(code) for code in range(0x40, 0x7F)}
    passing = {final for final in finals if _allowed([f"\x1b[1{final}"])}
    # movement, erasing, insertion and scrolling leave no state behind
    assert passing == set("@ABCDEFGHJKLMPSTXZ`adefmr")
    assert "\x1b[0m" in RESET
    assert "\x1b[r" in RESET
    every = [chr(code) for code in range(0x20, 0x7F)]
    # one that begins with 0x20 to 0x2f goes on
    longer = [f"\x1b{first}{second}" for first in every[:16] for second in every]
    assert set(_allowed([f"\x1b{one}" for one in every] + longer)) == {
        *("\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bM", "\x1b=", "\x1b>"),
        *("\x1b(0", "\x1b(A", "\x1b(B"),
    }
    assert {"\x1b>", "\x1b(B", "\x0f"} <= set(re.findall(r"\x1b>|\x1b\(B|\x0f", RESET))


def test_no_change_of_direction_passes() -> None:
    for character in TURNING:
        assert Filter().feed(f"a{character}b".encode()) == "ab"
