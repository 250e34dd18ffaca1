# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ours behave as the standard library's dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _records

_OURS: t.Any = _records.dataclass


def _classes(dataclass: t.Any) -> tuple[t.Any, ...]:
    @dataclass(frozen=True)
    class Base:
        """A base."""

        kind: t.ClassVar[str] = "base"
        name: str
        size: int = 1

    @dataclass(frozen=True)
    class Below(Base):
        size: int = 2
        parts: list[str] = dataclasses.field(default_factory=list)
        hidden: str = dataclasses.field(default="", repr=False, compare=False)
        made: dict[str, int] = dataclasses.field(default_factory=dict, init=False)

    @dataclass
    class Open:
        number: int
        seen: list[int] = dataclasses.field(default_factory=list)

        def __post_init__(self) -> None:
            self.seen.append(self.number)

    @dataclass(frozen=True, eq=False, repr=False)
    class Bare:
        name: str = ""

    @dataclass(frozen=True)
    class Own:
        name: str

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    @dataclass(frozen=True)
    class Empty:
        pass

    return Base, Below, Open, Bare, Own, Empty


def _outcome(function: t.Callable[[], object]) -> object:
    try:
        return function()
    except (TypeError, AttributeError) as error:  # FrozenInstanceError is one of these
        return type(error).__name__, str(error)


_CASES: dict[str, t.Callable[..., object]] = {
    "positional": lambda base, below, *_: repr((base("a", 3), below("a", 3, ["x"], "y"))),
    "default": lambda base, below, *_: (base("a").size, below("a").size, below("a").parts),
    "each has its own": lambda _base, below, *_: below("a").parts is below("a").parts,
    "not in the constructor": lambda _base, below, *_: below(name="a", made={}),
    "missing": lambda base, *_: base(),
    "unknown": lambda base, *_: base("a", nothing=1),
    "too many": lambda base, *_: base("a", 1, 2),
    "shown": lambda _base, below, *_: repr(below("a", hidden="x")),
    "equal": lambda base, *_: base("a") == base("a"),
    "not equal": lambda base, *_: (base("a") == base("b"), base("a") != base("b")),
    "another class": lambda base, below, *_: (base("a", 2) == below("a"), base("a") == "a"),
    "not compared": lambda _base, below, *_: below("a", hidden="x") == below("a", hidden="y"),
    "hash": lambda base, *_: hash(base("a")) == hash(base("a")) == hash(("a", 1)),
    "hash of what is no key": lambda _base, below, *_: hash(below("a")),
    "hash where assigning is allowed": lambda _base, _below, opened, *_: hash(opened(1)),
    "assigned": lambda base, *_: setattr(base("a"), "name", "b"),
    "assigned to no field": lambda base, *_: setattr(base("a"), "other", "b"),
    "deleted": lambda base, *_: delattr(base("a"), "name"),
    "open": lambda _base, _below, opened, *_: (setattr(opened(1), "number", 2), opened(1).seen),
    "bare": lambda _1, _2, _3, bare, *_: (bare() == bare(), bare().name, bare("a").name),
    "own": lambda _1, _2, _3, _4, own, _5: (repr(own("a")), hash(own("a")), own("a") == own("b")),
    "empty": lambda _1, _2, _3, _4, _5, empty: (repr(empty()), empty() == empty(), {empty(): 1}),
    "replaced": lambda _base, below, *_: repr(dataclasses.replace(below("a"), size=9)),
    "fields": lambda _base, below, *_: [each.name for each in dataclasses.fields(below)],
    "plain": lambda _base, below, *_: dataclasses.asdict(below("a", parts=["x"])),
    "copied": lambda _base, below, *_: repr(copy.deepcopy(below("a", parts=["x"]))),
    "traced": lambda base, *_: (
        base.__init__.__module__,
        base.__init__.__globals__["__name__"],
    ),
    "documented": lambda base, *_: (base.__doc__, base.kind, base.__match_args__),
}


@pytest.mark.parametrize("case", _CASES)
def test_a_dataclass_used_does_as_the_standard_library_does(case: str) -> None:
    ours, theirs = _classes(_OURS), _classes(dataclasses.dataclass)
    assert str(_outcome(lambda: _CASES[case](*ours))) == str(
        _outcome(lambda: _CASES[case](*theirs))
    )


def test_a_dataclass_in_itself_is_shown_once() -> None:
    opened = _classes(_OURS)[2]
    one = opened(1)
    one.seen.append(one)
    assert repr(one).endswith("Open(number=1, seen=[1, ...])")


@_OURS(frozen=True)
class Kept:
    """At the top of a file, where pickle finds it."""

    name: str


def test_a_dataclass_kept_is_equal_when_read() -> None:
    kept: t.Any = Kept
    assert pickle.loads(pickle.dumps(kept("a"))) == kept("a")  # noqa: S301
