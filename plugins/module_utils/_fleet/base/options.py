# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading user input: every value is converted strictly, every problem recorded with its path.

Values come from YAML, from a module's arguments and from ``-e name=value``, where each is a
string: ``"2"`` is the number, ``"no"`` the boolean, and JSON text a list or mapping. Anything
else is a problem that names the value, the rule and the remedy. ``None`` means not given.
"""

from __future__ import annotations

import difflib
import json
import re
import typing as t
from collections.abc import Mapping

from ..._errors import Problem, visible
from ..._units import format_size, parse_mib

# the words that Ansible's own boolean() accepts
_TRUE = frozenset(("y", "yes", "on", "1", "true", "t"))
_FALSE = frozenset(("n", "no", "off", "0", "false", "f"))
_WORDS = {True: "on", False: "off"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
# 2048.0 is what a template makes of 4096 / 2
_FRACTION = re.compile(r"[0-9]+\.(?!0*$)[0-9]+")
_SHOWN = 80


def show(value: object) -> str:
    """``value`` for a message: quoted, on one line, bounded, always encodable as UTF-8."""
    text = repr(str(value)) if isinstance(value, str) else repr(value)
    text = visible(text.encode("utf-8", "backslashreplace").decode("utf-8"))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def join(path: str, key: str) -> str:
    """``vms[3]`` and ``memory`` are ``vms[3].memory``; a prefix (``vm_``) is put first."""
    return f"{path}{key}" if not path or path.endswith("_") else f"{path}.{key}"


def to_boolean(value: object) -> bool:
    """The boolean that Ansible would read from ``value``; ValueError for anything else."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, (str, int)) else ""
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"{show(value)} is neither true nor false; write true or false")


def to_integer(value: object) -> int:
    """The integer in ``value``; ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    raise ValueError(f"{show(value)} is not a whole number; write digits only, for example 2")


def unknown_message(what: str, value: str, known: t.Iterable[str]) -> str:
    """``unknown disk profile 'databse'; known: ...``, with the closest match first."""
    names = list(known)
    close = difflib.get_close_matches(value, names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"unknown {what} {show(value)}{hint}; known: {', '.join(names) or 'none'}"


Value = t.TypeVar("Value")
Default = t.TypeVar("Default")


class Reader:
    """One mapping of options being read; options that are never read are reported as unknown.

    ``origins`` is for keys that come from elsewhere (a profile): key to path of the mapping it was
    written in.
    """

    def __init__(
        self,
        options: object,
        path: str,
        problems: list[Problem],
        origins: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.problems = problems
        self._origins = origins or {}
        self._known: dict[str, None] = {}
        self._options: dict[str, object] = {}
        if isinstance(options, Mapping):
            self._options = {str(key): value for key, value in options.items()}
        elif options is not None:
            problems.append(
                Problem(path, f"{show(options)} is not a mapping; write it as key: value pairs")
            )

    @property
    def written(self) -> list[str]:
        """Every option that the user wrote, known or not."""
        return [key for key, value in self._options.items() if value is not None]

    def at(self, key: str) -> str:
        """The path of ``key``."""
        return join(self._origins.get(key, self.path), key)

    def problem(self, key: str, message: str) -> None:
        """Record a problem with ``key``."""
        self.problems.append(Problem(self.at(key), message))

    def value(self, key: str) -> object:
        """The raw value; None when not given."""
        self._known[key] = None
        return self._options.get(key)

    def given(self, key: str) -> bool:
        """Whether the user wrote this option."""
        return self.value(key) is not None

    def is_true(self, key: str) -> bool:
        """Whether it is written and true; an invalid value is reported by its own row."""
        try:
            return to_boolean(self.value(key))
        except ValueError:
            return False

    def _converted(
        self, key: str, convert: t.Callable[[object], Value], default: Default
    ) -> Value | Default:
        value = self.value(key)
        if value is None:
            return default
        try:
            return convert(value)
        except ValueError as error:
            self.problem(key, str(error))
            return default

    def boolean(self, key: str, default: bool) -> bool:
        """A boolean, as Ansible writes them."""
        return self._converted(key, to_boolean, default)

    def integer(self, key: str, default: int | None, low: int, high: int) -> int | None:
        """An integer from ``low`` to ``high``."""

        def convert(value: object) -> int:
            number = to_integer(value)
            if not low <= number <= high:
                raise ValueError(f"{show(value)} is out of range; it must be {low} to {high}")
            return number

        return self._converted(key, convert, default)

    def mib(self, key: str, default: int | None, high: int, low: int = 1) -> int | None:
        """A size of ``low`` to ``high`` MiB, as MiB; a fraction needs a unit."""

        def convert(value: object) -> int:
            if str(value).strip().startswith("-"):
                raise ValueError(f"{show(value)} is negative; write MiB, for example 1024 or 1GiB")
            size = parse_mib(value)
            if size <= 0:
                raise ValueError(
                    f"{show(value)} is not a size; write MiB, for example 1024 or 1GiB"
                )
            if _FRACTION.fullmatch(str(value).strip()):
                raise ValueError(
                    f"{show(value)} has no unit, so it is in MiB, which must be a whole number;"
                    f" write for example {str(value).strip()}GiB"
                )
            if size < low:
                raise ValueError(
                    f"{show(value)} is less than the minimum, {format_size(low)}; a number"
                    " without a unit is MiB, so write for example 1024 or 1GiB"
                )
            if size > high:
                raise ValueError(f"{show(value)} is more than the maximum, {format_size(high)}")
            return size

        return self._converted(key, convert, default)

    def text(
        self, key: str, default: str | None = None, pattern: str = r"[^\0]+", rule: str = ""
    ) -> str | None:
        """Text that fully matches ``pattern``; ``rule`` describes the pattern in words."""

        def convert(value: object) -> str:
            if not isinstance(value, (str, int, float)) or isinstance(value, bool):
                raise ValueError(f"{show(value)} is not text; {rule or 'write a string'}")
            if re.fullmatch(pattern, str(value)) is None or not str(value).isprintable():
                raise ValueError(f"{show(value)} is not allowed: {rule or 'write printable text'}")
            return str(value)

        return self._converted(key, convert, default)

    def choice(self, key: str, choices: t.Sequence[str], default: str | None = None) -> str | None:
        """One of ``choices``; YAML makes booleans of ``on`` and ``off`` without quotes."""

        def convert(value: object) -> str:
            if isinstance(value, bool) and _WORDS[value] in choices:
                return _WORDS[value]
            if not isinstance(value, str) or value not in choices:
                raise ValueError(f"{show(value)} is not one of {', '.join(choices)}; choose one")
            return str(value)

        return self._converted(key, convert, default)

    def structure(self, key: str, *, secret: bool = False) -> object:
        """The value, with JSON text (``-e 'vm_disks=[...]'``) read; a ``secret`` is not shown."""

        def convert(value: object) -> object:
            if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
                try:
                    return json.loads(value)
                except ValueError:
                    shown = "this" if secret else show(value)
                    raise ValueError(
                        f"{shown} is not JSON; on the command line write keys and text in"
                        ' double quotes, for example {"type": "vnc"}'
                    ) from None
            return value

        return self._converted(key, convert, None)

    def words(self, key: str, pattern: str, rule: str) -> tuple[str, ...]:
        """A list of words (or text with commas), each matching ``pattern``, without repetition."""
        value = self.structure(key)
        if value is None:
            return ()
        if isinstance(value, str):
            value = [word.strip() for word in value.split(",")] if value.strip() else []
        if not isinstance(value, (list, tuple)):
            self.problem(key, f"{show(value)} is not a list; write [a, b]")
            return ()
        words: list[str] = []
        for index, word in enumerate(value):
            if not isinstance(word, (str, int)) or re.fullmatch(pattern, str(word)) is None:
                message = f"{show(word)} is not allowed: {rule}"
                self.problems.append(Problem(f"{self.at(key)}[{index}]", message))
            elif str(word) not in words:
                words.append(str(word))
        return tuple(words)

    def finish(self, names: t.Collection[str] = ()) -> None:
        """Report every option not in ``names``; without ``names``, every option not read."""
        known = frozenset(names or self._known)
        for key in self._options:
            if key not in known:
                self.problem(key, unknown_message("option", key, sorted(known)))
