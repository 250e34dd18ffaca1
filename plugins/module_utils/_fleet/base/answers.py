# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers of hypervisors: each is declared once, as a TypedDict, and is checked against that.

A hypervisor may return anything. What the controller reads of an answer is what its type declares:
keys of a class with ``total=False`` may be missing, ``X | None`` may be null, ``object`` is not
checked, and any other keys are ignored. At the top any key may be missing or null: that is no
answer, which the reader has to handle.

A VM in a list that is not as declared fails alone: the rest of its list stays usable, and its name,
UUID and MAC addresses stay taken, see :func:`read`.
"""

from __future__ import annotations

import functools
import types
import typing as t
from collections.abc import Mapping

from ..._errors import FleetVirtError
from ..._units import MOST

# Of a VM: without one, nothing is known of it, and its hypervisor is silent
VmName = t.Annotated[str, "more than spaces"]
A = t.TypeVar("A", bound=Mapping[str, object])
_Keys = Mapping[str, "tuple[object, bool]"]  # by key its type, and whether it must be there

_UNIONS = (t.Union, getattr(types, "UnionType", t.Union))
_NONE = type(None)
_WORDS = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", _NONE: "null"}


class Result(t.TypedDict, total=False):
    """Keys that Ansible or any module may return."""

    changed: object
    failed: object
    unreachable: object
    msg: object
    warnings: object


class Unreadable(t.TypedDict, total=False):
    """A VM; ``error`` says why the rest of it, but for its name, is not to be relied on."""

    error: str | None


class InPages(t.TypedDict):
    """Memory of a VM in huge pages of one size in KiB, 0 for the hypervisor's default."""

    size_kib: int
    memory_mib: int


class Paged(t.TypedDict, total=False):
    """A VM; ``hugepages`` only of one whose memory is in some."""

    hugepages: list[InPages]


class LeftBehind(t.TypedDict, total=False):
    """``leftover``: which hypervisor has the VM by its card, if the definition here is only what is
    left of it from before it was restarted there. ``nowhere``: the cell of a VM that is defined
    nowhere, as each member says of it."""

    leftover: str | None
    nowhere: str | None


class _VmMore(LeftBehind, total=False):
    error: str | None  # as in Unreadable


class VmIdentity(_VmMore):
    """What every verb must know of a VM."""

    name: VmName
    uuid: str | None
    phase: str | None


class GroupedVm(VmIdentity):
    """A VM that can be selected by a group."""

    groups: list[str]


class GroupedLook(Result, total=False):
    """Those of the VMs that were asked for that a hypervisor has."""

    vms: list[GroupedVm] | None


class VmResult(t.TypedDict):
    """What came of a verb for a VM."""

    name: VmName
    changed: bool
    failed: bool
    msg: str | None


class TriedVm(VmResult, total=False):
    """With whether nothing was done for it because another one failed."""

    not_tried: bool


class KeptFile(t.TypedDict):
    """A file that a verb leaves as it is."""

    path: str
    reason: str


class UnsoundAnswerError(FleetVirtError):
    """An answer that is not what a module of this collection returns."""


def read(answer: Mapping[str, object], kind: type[A]) -> A:
    """``answer``, which is plain data, as its type. Raises UnsoundAnswerError.

    A VM in a list that has a name and is not as declared is replaced by one that is: what it has of
    that is kept, so that its name, UUID and MAC addresses are taken; its ``error``, or ``failed``
    and ``msg`` where it is a result, say what is wrong with it.
    """
    if problem(answer, kind) is not None:
        answer = _with_sound_vms(answer, kind)
    remaining = problem(answer, kind)
    if remaining is not None:
        raise UnsoundAnswerError(unsound(remaining))
    return t.cast("A", answer)  # that it is of this type is what was checked


def unsound(problem: str) -> str:
    """What is said of a response that is not as declared, and what to do."""
    return (
        f"its response is not what a module of this collection returns ({problem}); find out what"
        " responds there"
    )


@functools.cache
def keys(kind: object) -> _Keys:
    """The keys that a TypedDict declares."""
    hints = t.get_type_hints(kind, include_extras=True)
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    return {key: (hint, key in required) for key, hint in hints.items()}


def problem(answer: Mapping[str, object], kind: object) -> str | None:
    """The first part of an answer that is not as declared; None if all is."""
    return _first(
        _problem(answer[key], hint, key)
        for key, (hint, _required) in keys(kind).items()
        if answer.get(key) is not None
    )


@functools.cache
def _taken_apart(hint: t.Any) -> tuple[object, tuple[t.Any, ...]]:
    """What a type is made with, Union for several, and of what; a plain type is made of itself."""
    if t.get_origin(hint) in _UNIONS:
        return t.Union, t.get_args(hint)
    if hasattr(hint, "__required_keys__"):
        return t.TypedDict, (hint,)
    return t.get_origin(hint) or hint, t.get_args(hint)


def _problem(value: object, hint: object, path: str) -> str | None:
    """The first part of ``value`` that is not as ``hint`` declares; ``path`` names it."""
    made, parts = _taken_apart(hint)
    if hint is object:
        return None
    if made is t.Union:
        if any(_problem(value, part, path) is None for part in parts):
            return None
        nested = [part for part in parts if _taken_apart(part)[1]]
        return _problem(value, nested[0], path) if nested else _wrong(value, path)
    if hint == VmName:
        return None if isinstance(value, str) and value.strip() else _wrong(value, path)
    if made is list and isinstance(value, list):
        return _first(_problem(item, parts[0], f"{path}[{i}]") for i, item in enumerate(value))
    if made is dict and isinstance(value, Mapping):
        return _first(_problem(item, parts[1], f"{path}.{key}") for key, item in value.items())
    if made is t.TypedDict and isinstance(value, Mapping):
        return _first(
            _problem(value[key], inner, f"{path}.{key}")
            if key in value
            else f"{path}.{key} is missing"
            for key, (inner, required) in keys(hint).items()
            if required or key in value
        )
    if parts or not isinstance(hint, type) or not isinstance(value, hint):
        return _wrong(value, path)
    if hint is not bool and isinstance(value, bool):
        return _wrong(value, path)
    if isinstance(value, (int, float)) and not -MOST <= value <= MOST:  # nor is NaN
        return f"{path} is a number out of any plausible range"
    return None


def _first(problems: t.Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem), None)


def _wrong(value: object, path: str) -> str:
    return f"{path} is {_WORDS.get(type(value), 'a number')}"


def _with_sound_vms(value: object, hint: object, path: str = "") -> t.Any:
    """``value`` with the VMs of its lists as declared, as far as they have names."""
    made, parts = _taken_apart(hint)
    if made is t.Union:
        part = next((part for part in parts if _taken_apart(part)[1]), None)
        return value if part is None else _with_sound_vms(value, part, path)
    if made is t.TypedDict and isinstance(value, Mapping):
        known = {key: inner for key, (inner, _required) in keys(hint).items() if key in value}
        prefix = f"{path}." if path else ""
        return {
            **value,
            **{key: _with_sound_vms(value[key], known[key], f"{prefix}{key}") for key in known},
        }
    if made is list and isinstance(value, list) and _is_vm(parts[0]):
        return [_sound_vm(vm, parts[0], f"{path}[{i}]") for i, vm in enumerate(value)]
    return value


def _is_vm(hint: object) -> bool:
    if _taken_apart(hint)[0] is not t.TypedDict:
        return False
    declared = keys(hint)
    can_fail = "error" in declared or {"failed", "msg"} <= declared.keys()
    return can_fail and declared.get("name", (None, True))[0] == VmName


def _sound_vm(vm: object, hint: object, path: str) -> object:
    wrong = _problem(vm, hint, path)
    declared = keys(hint)
    nameless = not isinstance(vm, Mapping) or _problem(vm.get("name"), VmName, path)
    if wrong is None or nameless or not isinstance(vm, Mapping):
        return vm
    why = vm.get("error")
    if not isinstance(why, str) or not why:
        why = unsound(wrong)
    fault: dict[str, object] = {key: why for key in ("error", "unsound") if key in declared}
    return {**_closest(vm, hint), **(fault or {"failed": True, "msg": why})}


def _closest(value: object, hint: t.Any) -> t.Any:
    """What ``value`` has of what is declared; nothing, in its type, of the rest."""
    if _problem(value, hint, "") is None:
        return value
    made, parts = _taken_apart(hint)
    if made is t.Union:
        lists = [part for part in parts if _taken_apart(part)[0] is list]
        return _closest(value, lists[0]) if isinstance(value, list) and lists else None
    if made is list:
        items = value if isinstance(value, list) else []
        return [item for item in items if _problem(item, parts[0], "") is None]
    if made is t.TypedDict:
        known = value if isinstance(value, Mapping) else {}
        return {
            key: _closest(known.get(key), inner)
            for key, (inner, required) in keys(hint).items()
            if required or key in known
        }
    return made() if isinstance(made, type) else None
