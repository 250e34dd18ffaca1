# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output to the screen or a file, as a table or in a machine-readable format."""

from __future__ import annotations

import json
import os
import stat
import typing as t

import yaml
from ansible.utils.display import Display
from ansible_collections.fleet.virt.plugins.module_utils._errors import visible
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import outcomes
from ansible_collections.fleet.virt.plugins.plugin_utils.base._files import write_if_changed

# Choices of the option ``output``
FORMS = ["table", "json", "yaml", "csv"]


def render(
    form: str,
    data: t.Mapping[str, object],
    table: t.Callable[[], str],
    records: t.Callable[[], str],
) -> str:
    """``data`` as JSON or YAML, the text of ``table``, or the CSV of ``records``."""
    if form == "json":
        return json.dumps(data, indent=2, sort_keys=True) + "\n"
    if form == "yaml":
        text = str(yaml.safe_dump(dict(data), sort_keys=True, allow_unicode=True))
        if visible(text) == text:
            return text
        return str(yaml.safe_dump(dict(data), sort_keys=True))  # escapes all but ASCII
    return records() if form == "csv" else table()


def columns() -> int | None:
    """How many columns the terminal has that Ansible writes to; None if it writes to none.

    A task runs in a process of its own, which may have been detached from the terminal.
    """
    for process in (os.getpid(), os.getppid()):
        path = f"/proc/{process}/fd/1"
        try:
            if not stat.S_ISCHR(os.stat(path).st_mode):  # a pipe or a file
                return None
            terminal = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            return os.get_terminal_size(terminal).columns or None
        except OSError:  # another device
            continue
        finally:
            os.close(terminal)
    return None


def say(text: str) -> None:
    """Show lines of text on the screen, whoever wrote what is in them."""
    Display().display(visible(text).rstrip("\n"))


def warn(text: str) -> None:
    """Show a warning."""
    Display().warning(visible(text))


_SHOWN = ("msg", "error", "errors", "reason", "warnings", "steps")


def shown(result: object, *, is_text: bool = False) -> object:
    """A result with all texts for people as they may be shown; names and other data stay exact."""
    if isinstance(result, outcomes.Failure):
        result = result.plain
    if isinstance(result, str):
        return visible(result) if is_text else result
    if isinstance(result, dict):
        return {key: shown(value, is_text=key in _SHOWN) for key, value in result.items()}
    if isinstance(result, (list, tuple)):
        return [shown(item, is_text=is_text) for item in result]
    return result


def deliver(text: str, path: str | None, *, check: bool, diff: bool) -> dict[str, object]:
    """Print ``text`` or write it to ``path``; returns the keys for the task's result."""
    if not path:
        if text:
            say(text)
        return {"changed": False}
    before = write_if_changed(path, text, check=check)
    result: dict[str, object] = {"changed": before is not None}
    if diff and before is not None:
        headers = {"before_header": path, "after_header": path}
        result["diff"] = {**headers, "before": before, "after": text}
    return result
