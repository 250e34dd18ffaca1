# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_screenshot``, for the module and its controller half.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..._errors import Problem, SpecError
from ..base.arguments import Spec
from ..base.json_values import as_list

_MOST_SCREENS = 16  # what one graphics adapter of QEMU's has at most

ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "aliases": ["name"]},
    "ignore_missing": {"type": "bool", "default": False},
    "dest": {"type": "path", "required": True},
    "screen": {"type": "int", "default": 0},
}
INTERNAL: Spec = {
    "_stage": {"type": "str", "choices": ["all", "report"], "default": "all"},
    "_results": {"type": "str"},
    "_expected": {"type": "list", "elements": "str"},
    "_lost": {"type": "list", "elements": "str", "default": []},
}


@dataclass(frozen=True)
class Wanted:
    """Whose screens: ``names`` (None: those of all that run), and which of several screens."""

    names: tuple[str, ...] | None
    ignore_missing: bool
    screen: int


def wanted(options: t.Mapping[str, object]) -> Wanted:
    """What the module's options ask for; raises SpecError for what cannot be meant."""
    names, screen = options["names"], options["screen"]
    if not isinstance(screen, int) or not 0 <= screen < _MOST_SCREENS:
        rule = f"they are numbered from 0 to {_MOST_SCREENS - 1}"
        raise SpecError([Problem("screen", f"{screen} is no screen; {rule}")])
    found = None if names is None else tuple(map(str, as_list(names)))
    return Wanted(found, bool(options["ignore_missing"]), screen)
