# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What actions take options to be is what their specifications make of them."""

from __future__ import annotations

import importlib
import types
import typing as t
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins import action
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import packages
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _action

_SIMPLE = {"str": str, "path": str, "bool": bool, "int": int, "float": float, "raw": object}


def _module(name: str) -> t.Any:
    return importlib.import_module(f"{action.__name__}.{name}")


def _class_of_options(name: str) -> str:
    """``virt_console_log`` has ``VirtConsoleLogOptions``."""
    return "".join(part.capitalize() for part in name.split("_")) + "Options"


ACTIONS = [
    path.stem
    for folder in action.__path__
    for path in sorted(Path(folder).glob("virt_*.py"))
    if hasattr(_module(path.stem), _class_of_options(path.stem))
]


def _union(annotation: t.Any) -> tuple[set[t.Any], bool]:
    """The types that a value may have, and whether it may be None."""
    several = t.get_args(annotation) if _is_union(annotation) else (annotation,)
    return {one for one in several if one is not type(None)}, type(None) in several


def _is_union(annotation: t.Any) -> bool:
    return t.get_origin(annotation) in (t.Union, getattr(types, "UnionType", t.Union))


def _require_options(kind: t.Any, specs: Mapping[str, t.Any]) -> None:
    hints = t.get_type_hints(kind)
    assert set(hints) == set(specs), kind
    for name, spec in specs.items():
        (found,), optional = _union(hints[name])
        assert optional == (spec.get("default") is None and not spec.get("required")), name
        _require_option(found, spec, name)


def _require_option(found: t.Any, spec: Mapping[str, t.Any], name: str) -> None:
    if spec["type"] == "list":
        assert t.get_origin(found) is list, name
        inner = {**spec, "type": spec.get("elements", "raw")}
        _require_option(t.get_args(found)[0], inner, name)
    elif spec["type"] == "dict" and t.is_typeddict(found):
        _require_options(found, spec["options"])
    elif spec["type"] == "dict":
        assert found == dict[str, object], name
    else:
        assert found is _SIMPLE[spec["type"]], name


@pytest.mark.parametrize("name", ACTIONS)
def test_options_are_what_the_specification_makes_of_them(name: str) -> None:
    module = _module(name)
    named = {key.strip("_"): value for key, value in vars(module).items()}
    arguments = named.get("ARGUMENTS") or named.get("OPTIONS") or packages.ARGUMENTS
    internal = named.get("INTERNAL", {})
    options = getattr(module, _class_of_options(name))
    _require_options(options, {**arguments, **_action._CONNECTION, **internal})


def test_every_action_that_reads_options_says_what_they_are() -> None:
    assert len(ACTIONS) > 15
