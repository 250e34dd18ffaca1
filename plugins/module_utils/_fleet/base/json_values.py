# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values from outside: what JSON, YAML and the answers of modules may hold.

``Json`` is for values known to be of these types. Where not even that is known, use ``object``.
Either is checked with ``isinstance``, or with the readers here, before it is used.

Anyone who may define domains can write the JSON that is kept in their metadata. Python reads more:
NaN and infinite numbers, integers of any length, and lists so deep that reading, comparing or
writing them fails; :func:`stored_problem` says what makes such a text unusable.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping

from ..._records import dataclass
from ..._units import MOST

_MAX_SIZE = 1 << 43  # MiB, of a disk: 8 EiB, where libvirt's own numbers end
_MAX_DEPTH = 32  # levels; a request with network configuration has about ten
_MAX_DIGITS = 400  # of an integer; Python limits conversion to 4,300 in some versions only
Value = t.TypeVar("Value")
Json = t.Union[None, bool, int, float, str, t.Sequence["Json"], t.Mapping[str, "Json"]]


def as_mapping(value: object) -> Mapping[str, object]:
    """The mapping, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    """The list or tuple as a list, an empty one for anything else, including text."""
    return list(value) if isinstance(value, (list, tuple)) else []


def as_mappings(value: object) -> list[Mapping[str, object]]:
    """The mappings in a list; anything else in it is left out."""
    return [mapping for mapping in as_list(value) if isinstance(mapping, Mapping)]


def as_text(value: object) -> str | None:
    """The text, None for anything else."""
    return value if isinstance(value, str) else None


def as_number(value: object) -> int | None:
    """The integer, None for anything else, including a boolean."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def require_type(value: object, kind: type[Value]) -> Value:
    """``value``, which this collection itself has put where any object may be.

    Raises TypeError, a bug, if it is no ``kind``.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} in place of {kind.__name__}")
    return value


class _UnusableError(ValueError):
    """A value that is not JSON, or out of any plausible range."""


def stored_problem(text: str) -> str | None:
    """Why ``text`` is not a usable JSON object; None if it is one."""
    try:
        value: Json = json.loads(text, parse_constant=_constant, parse_int=_integer)
    except _UnusableError as error:
        return str(error)
    except RecursionError:
        return _too_deep()
    except ValueError:
        return "not JSON"
    if not isinstance(value, dict):
        return "not a JSON object"
    return _value_problem(value) or _disk_problem(value.get("disks"))


def disk_sizes(text: str | None) -> dict[str, int]:
    """MiB by disk name in a request; empty if it cannot be read."""
    if text is None or stored_problem(text) is not None:
        return {}
    disks = json.loads(text).get("disks") or ()
    return {disk["name"]: disk.get("size") or 0 for disk in disks}


def _constant(name: str) -> t.NoReturn:
    raise _UnusableError(f"{name} is not a number")


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _UnusableError(f"a number of {len(digits)} digits")
    return int(digits)


def _too_deep() -> str:
    return f"nested deeper than {_MAX_DEPTH} levels"


def _value_problem(value: Json) -> str | None:
    """The first value out of range, or the depth; not recursive, since the depth may be any."""
    level: list[Json] = [value]
    for _depth in range(_MAX_DEPTH + 1):
        below: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, (int, float)) and not -MOST <= item <= MOST:
                return "a number out of any plausible range"
        if not below:
            return None
        level = below
    return _too_deep()


def _disk_problem(disks: Json) -> str | None:
    """What is wrong with the disks of a request, whose sizes count while it is being created."""
    if disks is None:
        return None
    if not isinstance(disks, list):
        return "disks is not a list"
    for number, disk in enumerate(disks):
        if not isinstance(disk, dict) or not isinstance(disk.get("name"), str):
            return f"disks[{number}] has no name"
        size = disk.get("size")
        is_integer = isinstance(size, int) and not isinstance(size, bool)
        if size is not None and not (is_integer and 0 <= size <= _MAX_SIZE):
            return f"disks[{number}].size is not a size in MiB"
    return None


@dataclass(frozen=True)
class Every:
    """A mapping of text to values of one shape, with at least these keys."""

    value: Shape
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotEmpty:
    """Text that is more than spaces."""


# Several types are a tuple, a list is a list: both are sequences to the type checker
Shape = t.Union[type, Every, NotEmpty, t.Sequence["Shape"], t.Mapping[str, "Shape"]]
Fields = t.Mapping[str, Shape]


def shape_problem(value: object, shape: Shape, path: str) -> str | None:
    """The first part of ``value`` that does not match ``shape``; ``path`` names it."""
    if isinstance(shape, tuple):
        if any(shape_problem(value, alternative, path) is None for alternative in shape):
            return None
        nested = [alternative for alternative in shape if not isinstance(alternative, type)]
        return shape_problem(value, nested[0], path) if nested else _wrong(value, path)
    if isinstance(shape, NotEmpty):
        return None if isinstance(value, str) and value.strip() else _wrong(value, path)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _wrong(value, path)
        if not shape:
            return f"{path} is not empty" if value else None
        return _first(
            shape_problem(element, shape[0], f"{path}[{i}]") for i, element in enumerate(value)
        )
    if isinstance(shape, Every):
        if not isinstance(value, Mapping):
            return _wrong(value, path)
        missing = [key for key in shape.keys if key not in value]
        if missing:
            return f"{path}.{missing[0]} is missing"
        return _first(
            shape_problem(member, shape.value, f"{path}.{key}") for key, member in value.items()
        )
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            return _wrong(value, path)
        return _first(
            shape_problem(value[name], inner, f"{path}.{name}")
            if name in value
            else None
            if optional
            else f"{path}.{name} is missing"
            for name, optional, inner in _keys(shape)
        )
    fits = (
        isinstance(shape, type)
        and isinstance(value, shape)
        and (shape is bool or not isinstance(value, bool))
    )
    if fits and isinstance(value, (int, float)) and not -MOST <= value <= MOST:  # nor is NaN
        return f"{path} is a number out of any plausible range"
    return None if fits else _wrong(value, path)


def _keys(shape: Fields) -> t.Iterator[tuple[str, bool, Shape]]:
    """Each key, whether it may be missing, and the shape of its value."""
    for key, inner in shape.items():
        yield key.rstrip("?"), key.endswith("?"), inner


def _first(problems: t.Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem), None)


def _wrong(value: object, path: str) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean"}
    return f"{path} is {names.get(type(value), 'null' if value is None else 'a number')}"
