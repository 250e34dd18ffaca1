# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A managed block of lines in a configuration file that belongs to the site or distribution.

In its own files, libvirt uses the first of two assignments; a shell uses the last. So our block is
at the top of the former and at the bottom of the latter, and takes effect whatever else they say.
"""

from __future__ import annotations

import re
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass

BEGIN = "# BEGIN fleet.virt: written by Ansible, changes up to END are lost"
END = "# END fleet.virt"
_ASSIGNMENT = re.compile(r"^\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$")
_NAMED = re.compile(r"^\s*#?\s*([a-z]\w*)\s*=", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """The desired content of our block in the file ``path``; no ``lines`` means no block."""

    path: str
    lines: tuple[str, ...]
    top: bool


def split(text: str, path: str) -> tuple[list[str], list[str]]:
    """The lines of our block, and all others.

    Raises PlanRefused for a block without an end: the lines after it may be the site's own.
    """
    ours: list[str] = []
    others: list[str] = []
    inside = False
    for line in text.splitlines():
        if line == BEGIN:
            inside = True
        elif line == END and inside:
            inside = False
        else:
            (ours if inside else others).append(line)
    if inside:
        raise PlanRefused(
            f"{path} has the line {BEGIN!r} without a matching {END!r}; remove that line and"
            " the rest of the block, then run it again"
        )
    return ours, others


def put(text: str, block: Block) -> str:
    """The file's text with the desired block."""
    _ours, others = split(text, block.path)
    body = [BEGIN, *block.lines, END] if block.lines else []
    lines = [*body, *others] if block.top else [*others, *body]
    return "".join(f"{line}\n" for line in lines)


def overruled(text: str, block: Block) -> list[str]:
    """Assignments outside our block that it overrides, as they appear in the file."""
    own = dict(assignments(block.lines))
    _ours, others = split(text, block.path)
    return [
        f"{block.path}: {key} = {value}"
        for key, value in assignments(others)
        if key in own and own[key] != value
    ]


def assignments(lines: t.Iterable[str]) -> list[tuple[str, str]]:
    """What the lines assign, in order."""
    return [(match[1], match[2]) for line in lines if (match := _ASSIGNMENT.match(line))]


def named(text: str) -> frozenset[str]:
    """The settings named in a file, including in comments, as in the files libvirt ships."""
    return frozenset(_NAMED.findall(text))
