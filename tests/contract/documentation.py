# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What plugins say about themselves, for tests that hold them to it.

Tests on the laboratory use ``undocumented`` and ``missing`` on what a module really returned.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"

# Playbooks that the controller carries out itself (tests/contract/controller/test_backups.py)
WITHOUT_HYPERVISORS = {"backup_turn", "backups", "export_backup_keys", "prune_backups"}

# What Ansible itself adds to every result.
ANSIBLES = {
    "ansible_facts",
    "changed",
    "deprecations",
    "diff",
    "exception",
    "failed",
    "invocation",
    "msg",
    "skipped",
    "warnings",
}

TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "dict": (dict,),
    "float": (float, int),
    "int": (int,),
    "list": (list,),
    "raw": (object,),
    "str": (str,),
}


@dataclass(frozen=True)
class Example:
    """One task that a module's documentation shows."""

    module: str
    name: str
    task: dict[str, Any]


def texts(plugin: Path) -> dict[str, str]:
    """Return the documentation texts of a plugin or fragment by their names, unread."""
    found = {}
    for node in ast.walk(ast.parse(plugin.read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                named = isinstance(target, ast.Name) and (
                    target.id in {"DOCUMENTATION", "EXAMPLES", "RETURN"}
                    or plugin.parent.name == "doc_fragments"
                )
                if named and isinstance(node.value.value, str):
                    found[target.id] = node.value.value
    return found


@functools.cache
def modules() -> dict[str, Path]:
    """Return the modules by name."""
    return {path.stem: path for path in sorted((PLUGINS / "modules").glob("virt_*.py"))}


@functools.cache
def returned(module: str) -> dict[str, Any]:
    """Return what a module documents to return."""
    return yaml.safe_load(texts(modules()[module]).get("RETURN", "")) or {}


def examples(module: str) -> list[Example]:
    """Return the tasks of a module's examples, in order."""
    tasks = yaml.safe_load(texts(modules()[module])["EXAMPLES"])
    return [Example(module, task["name"], task) for task in tasks]


def undocumented(module: str, result: Mapping[str, Any]) -> list[str]:
    """Return the paths of values that the module returned and its documentation does not know.

    A value of another type than documented counts. A documented dict without ``contains`` is free.
    """
    own = {key: value for key, value in result.items() if key not in ANSIBLES}
    return _compare(returned(module), own, "", unknown=True)


def missing(module: str, result: Mapping[str, Any]) -> list[str]:
    """Return the paths of documented values that a successful result does not have.

    A value is there always unless its ``returned`` says otherwise.
    """
    return _compare(returned(module), result, "", unknown=False)


def _compare(
    documented: Mapping[str, Any], found: Mapping[str, Any], path: str, unknown: bool
) -> list[str]:
    always = {k for k, v in documented.items() if v.get("returned", "success") == "success"}
    here = set(found) - set(documented) if unknown else always - set(found)
    wrong = [f"{path}{key}" for key in sorted(here)]
    for key in sorted(set(found) & set(documented)):
        wrong += _compare_value(documented[key], found[key], f"{path}{key}", unknown)
    return wrong


def _compare_value(
    documented: Mapping[str, Any], value: Any, path: str, unknown: bool
) -> list[str]:
    kind = documented["type"]
    if value is None:
        return []
    if not isinstance(value, TYPES[kind]) or (kind in {"int", "float"} and isinstance(value, bool)):
        return [f"{path} is {type(value).__name__}, documented as {kind}"]
    contains = documented.get("contains")
    if contains is None:
        return []
    if kind == "dict":
        return _compare(contains, value, f"{path}.", unknown)
    return [
        fault
        for index, item in enumerate(value)
        for fault in _compare(contains, item, f"{path}[{index}].", unknown)
    ]
