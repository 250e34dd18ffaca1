# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of settings, made from their tables."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator

import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.settings import (
    Group,
    Setting,
    Table,
)

WIDTH = 100
_CHANGES = {
    "live": "In an existing VM, a change takes effect at once where libvirt supports that.",
    "boot": "In an existing VM, a change takes effect at the next start.",
    "never": "Cannot be changed in an existing VM ({}).",
}
# Between these comments of a documentation stands what is made here.
BEGIN = "# written by tests/contract/test_settings.py"
END = "# end of what is written"
_OPTION = re.compile(r"O\((\w+)")


def document(table: Table, path: str = "", depth: int = 2) -> str:
    """Return the options of a table as YAML; ``path`` is that of the option that has them."""
    own = {setting.name for setting in table}
    lines: list[str] = []
    for setting in table:
        below = " " * (depth + 2)
        lines += [f"{' ' * depth}{setting.name}:", f"{below}description:"]
        for text in _paragraphs(setting):
            named = _OPTION.sub(
                lambda found: f"O({path}{found[1]}" if found[1] in own else found[0], text
            )
            lines += textwrap.wrap(
                named,
                WIDTH,
                initial_indent=f"{below}  - ",
                subsequent_indent=f"{below}    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        for key, value in _facts(setting):
            line = f"{below}{key}: {_plain(value)}"
            if len(line) > WIDTH and isinstance(value, list):
                line = "\n".join(
                    [f"{below}{key}:", *(f"{below}  - {_plain(item)}" for item in value)]
                )
            lines.append(line)
        if isinstance(setting, Group):
            inner = f"{path}{setting.name}{'[]' if setting.of == 'list' else ''}."
            lines += [f"{below}suboptions:", document(setting.settings, inner, depth + 4)]
    return "\n".join(lines)


def _paragraphs(setting: Setting[object]) -> list[str]:
    text = setting.description
    paragraphs = [text] if isinstance(text, str) else list(text)
    if setting.limits():
        paragraphs[0] = f"{paragraphs[0]} {setting.limits()}"
    change = setting.change
    if change is not None and not isinstance(setting, Group):
        paragraphs.append(_CHANGES[change.when].format(change.reason))
    return paragraphs


def _facts(setting: Setting[object]) -> Iterator[tuple[str, object]]:
    argument = setting.argument()
    for key in ("type", "elements", "choices", "required", "default", "aliases"):
        if key in argument:
            yield key, argument[key]


def _plain(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_plain(item) for item in value)}]"
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z/]\S*", value) and value != "none":
        return value if yaml.safe_load(value) == value else json.dumps(value)
    return json.dumps(value)


def replaced(text: str, made: str) -> str:
    """Return ``text`` with ``made`` between the two comments."""
    before, found, rest = text.partition(f"  {BEGIN}\n")
    _old, ended, after = rest.partition(f"  {END}\n")
    if not (found and ended):
        raise ValueError(f"no {BEGIN!r} and {END!r}")
    return f"{before}{found}{made}\n{ended}{after}"
