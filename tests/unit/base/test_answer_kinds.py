# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controller takes answers to be allows all that their shapes allow."""

from __future__ import annotations

import types
import typing as t
from collections.abc import Mapping

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.answer_shapes import (
    SHAPES,
    Every,
    NotEmpty,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _answer_kinds

_TOPMOST = {"changed", "failed", "unreachable", "msg"}  # Ansible's own, of any answer
KINDS = [one for one in vars(_answer_kinds).values() if isinstance(one, _answer_kinds.AnswerKind)]


def _union(annotation: t.Any) -> tuple[set[t.Any], bool]:
    """The types that a value may have, and whether it may be None."""
    several = t.get_args(annotation) if _is_union(annotation) else (annotation,)
    return {one for one in several if one is not type(None)}, type(None) in several


def _is_union(annotation: t.Any) -> bool:
    return t.get_origin(annotation) in (t.Union, getattr(types, "UnionType", t.Union))


def _require_shape(found: t.Any, shape: t.Any, path: str) -> None:
    if found is object:
        return
    several, optional = _union(found)
    shapes = list(shape) if isinstance(shape, tuple) else [shape]
    assert optional or type(None) not in shapes, path
    shapes = [one for one in shapes if one is not type(None)]
    if all(isinstance(one, type) for one in shapes):
        assert several >= set(shapes), path
        return
    (one,) = several
    if t.is_typeddict(one):
        _require_keys(one, _merged(shapes), path)
    elif t.get_origin(one) is list:
        for inner in shapes:
            assert isinstance(inner, list), path
            if inner:
                _require_shape(t.get_args(one)[0], inner[0], f"{path}[]")
    else:
        assert t.get_origin(one) is dict, path
        assert isinstance(shapes[0], Every), path
        _require_shape(t.get_args(one)[1], shapes[0].value, f"{path}.*")


def _merged(shapes: list[Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """The shape of what has one of several: of each key those that it may have."""
    found: dict[str, list[t.Any]] = {}
    for shape in shapes:
        for key, inner in shape.items():
            several = inner if isinstance(inner, tuple) else (inner,)
            found.setdefault(key, []).extend(str if isinstance(i, NotEmpty) else i for i in several)
    return {key: tuple(inner) for key, inner in found.items()}


def _require_keys(kind: t.Any, shape: Mapping[str, t.Any], path: str) -> None:
    required = {key for key in shape if not key.endswith("?")}
    hints = t.get_type_hints(kind)
    assert kind.__required_keys__ <= required, path
    for key, inner in shape.items():
        if key.rstrip("?") in hints:
            _require_shape(hints[key.rstrip("?")], inner, f"{path}.{key}")
    assert set(hints) <= {key.rstrip("?") for key in shape}, path


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_answers_are_what_their_shape_is(kind: _answer_kinds.AnswerKind[t.Any]) -> None:
    hints = t.get_type_hints(kind.answer)
    assert not kind.answer.__required_keys__
    for key, found in hints.items():
        if key in _TOPMOST or found is object:
            continue
        shape = SHAPES[kind.name][key]
        (several, optional) = _union(found)
        assert optional, key
        given = shape if isinstance(shape, tuple) else (shape, type(None))
        _require_shape(found, given, key)
        assert several, key
