# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_screenshot`` and ``virt_console_log``, for the modules and their action
plugins.
"""

from __future__ import annotations

import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass, field
from ..base.arguments import Spec
from ..base.json_values import as_list, as_mapping
from ..engine.envelope import SelectingWork

_MOST_SCREENS = 16  # maximum of one QEMU graphics adapter

ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "aliases": ["name"]},
    "ignore_missing": {"type": "bool", "default": False},
    "dest": {"type": "path", "required": True},
    "screen": {"type": "int", "default": 0},
}
LOG_ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
    "ignore_missing": {"type": "bool", "default": False},
    "lines": {"type": "int", "default": 30},
    "follow": {"type": "int", "default": 0},
}
# The groups whose VMs are meant too
INTERNAL: Spec = {"_groups": {"type": "list", "elements": "str", "default": []}}
# The position up to which each log was read, in bytes, by VM name
LOG_INTERNAL: Spec = {**INTERNAL, "_since": {"type": "dict", "default": {}}}
_MOST_LINES = 2000
_LONGEST = 86400  # seconds


@dataclass(frozen=True)
class ConsoleWork(SelectingWork):
    """A stage of showing what guests show: reading it on hypervisors, and reporting it."""

    STAGES = ("all", "read", "report")


@dataclass(frozen=True)
class WantedLines:
    """The VMs whose consoles to show, by names or patterns and by groups, and how many of their
    last lines."""

    names: tuple[str, ...]
    ignore_missing: bool
    lines: int
    since: t.Mapping[str, int] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


def wanted_lines(options: t.Mapping[str, object]) -> WantedLines:
    """The request in the module's options; raises SpecError for invalid values."""
    names, lines = tuple(map(str, as_list(options["names"]))), options["lines"]
    if not isinstance(lines, int) or not 0 < lines <= _MOST_LINES:
        rule = f"give a number from 1 to {_MOST_LINES}"
        raise SpecError([Problem("lines", f"{lines} is not a number of lines to show; {rule}")])
    follow = options.get("follow", 0)
    if not isinstance(follow, int) or not 0 <= follow <= _LONGEST:
        rule = f"give a number of seconds from 0 (not at all) to {_LONGEST}"
        raise SpecError([Problem("follow", f"{follow} is not a time to follow; {rule}")])
    groups = tuple(map(str, as_list(options.get("_groups"))))
    if not (names or groups):
        raise SpecError([Problem("names", "no VM is named; name at least one (vm_name=web1)")])
    since = {
        name: at for name, at in as_mapping(options.get("_since")).items() if isinstance(at, int)
    }
    return WantedLines(names, bool(options["ignore_missing"]), lines, since, groups)


@dataclass(frozen=True)
class ScreenRequest:
    """The VMs whose screens to show: ``names``, names or patterns, and ``groups`` (None and none:
    all running), and which screen."""

    names: tuple[str, ...] | None
    ignore_missing: bool
    screen: int
    groups: tuple[str, ...] = ()


def wanted(options: t.Mapping[str, object]) -> ScreenRequest:
    """The request in the module's options; raises SpecError for invalid values."""
    names, screen = options["names"], options["screen"]
    if not isinstance(screen, int) or not 0 <= screen < _MOST_SCREENS:
        rule = f"screens are numbered from 0 to {_MOST_SCREENS - 1}"
        raise SpecError([Problem("screen", f"{screen} is not a screen; {rule}")])
    groups = tuple(map(str, as_list(options.get("_groups"))))
    vm_names = None if names is None and not groups else tuple(map(str, as_list(names)))
    return ScreenRequest(vm_names, bool(options["ignore_missing"]), screen, groups)
