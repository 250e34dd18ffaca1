# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One row for every setting: what is read, what Ansible is told of it, what is documented.

A feature keeps its rows in a table. ``read`` takes the value from what the user wrote, with a
problem for everything that is not allowed; ``argument_spec`` is the same for Ansible and for the
documentation. A setting that no type here can read (an image, a MAC address) is a ``Value``, and
the feature reads it.

Defaults in an argument spec are for the documentation. Ansible never fills them into a VM: action
plugins hand VMs on as plain mappings, so that what was written stays apart from what was not.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from .arguments import Argument, Type
    from .options import Reader

Default_co = t.TypeVar("Default_co", covariant=True)


@dataclass(frozen=True, eq=False, repr=False)
class Setting(t.Generic[Default_co]):
    """A row; ``xml`` is where libvirt keeps the value, if it stands there as it is."""

    name: str
    description: str | Sequence[str]
    default: Default_co
    xml: str = ""
    aliases: tuple[str, ...] = ()

    type: t.ClassVar[Type] = "str"

    def argument(self) -> Argument:
        """The setting in an argument spec; what is empty is left out."""
        found: Argument = {"type": self.type}
        if self.default is not None:
            found["default"] = self.default
        found.update(self._more())
        if self.aliases:
            found["aliases"] = list(self.aliases)
        return found

    def _more(self) -> Argument:
        return {}

    def limits(self) -> str:
        """What is allowed beyond type and choices, as a sentence; may be empty."""
        return ""


@dataclass(frozen=True, eq=False, repr=False)
class Integer(Setting[Default_co]):
    """A whole number."""

    low: int = 0
    high: int = 0
    type = "int"

    def read(self, reader: Reader) -> int | Default_co:
        found = reader.integer(self.name, None, self.low, self.high)
        return self.default if found is None else found

    def limits(self) -> str:
        return f"From {self.low} to {self.high}."


@dataclass(frozen=True, eq=False, repr=False)
class Size(Setting[Default_co]):
    """A size in MiB, read from a number of them or from text with a unit."""

    low: int = 1
    high: int = 0

    def read(self, reader: Reader) -> int | Default_co:
        found = reader.mib(self.name, None, self.high, self.low)
        return self.default if found is None else found

    def _more(self) -> Argument:
        return {"default": str(self.default)} if self.default is not None else {}

    def limits(self) -> str:
        least = f", at least {self.low} MiB" if self.low > 1 else ""
        return f"In whole MiB, or with a unit such as V(4GiB) or V(0.5GiB){least}."


@dataclass(frozen=True, eq=False, repr=False)
class Text(Setting[Default_co]):
    """Text on one line that matches ``pattern``; ``rule`` says that in words."""

    pattern: str = r"[^\0]+"
    rule: str = ""

    def read(self, reader: Reader) -> str | Default_co:
        found = reader.text(self.name, None, self.pattern, self.rule)
        return self.default if found is None else found


@dataclass(frozen=True, eq=False, repr=False)
class Choice(Setting[Default_co]):
    """One of a few words."""

    choices: tuple[str, ...] = ()

    def read(self, reader: Reader) -> str | Default_co:
        found = reader.choice(self.name, self.choices)
        return self.default if found is None else found

    def _more(self) -> Argument:
        return {"choices": list(self.choices)}


@dataclass(frozen=True, eq=False, repr=False)
class Boolean(Setting[Default_co]):
    """True or false."""

    type = "bool"

    def read(self, reader: Reader) -> bool | Default_co:
        return reader.boolean(self.name, False) if reader.given(self.name) else self.default


@dataclass(frozen=True, eq=False, repr=False)
class Words(Setting[None]):
    """A list of words, each of which matches ``pattern``, or text with commas."""

    default: None = None
    pattern: str = ""
    rule: str = ""
    type = "list"

    def read(self, reader: Reader) -> tuple[str, ...]:
        return reader.words(self.name, self.pattern, self.rule)

    def _more(self) -> Argument:
        return {"elements": "str"}


@dataclass(frozen=True, eq=False, repr=False)
class Value(Setting[Default_co]):
    """What its feature reads; ``of`` is Ansible's type, ``elements`` that of a list's items."""

    of: Type = "str"
    elements: Type | None = None
    required: bool = False
    secret: bool | None = None

    def _more(self) -> Argument:
        found: Argument = {"type": self.of}
        if self.elements:
            found["elements"] = self.elements
        if self.required:
            found["required"] = True
        if self.secret is not None:
            found["no_log"] = self.secret
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Group(Setting[None]):
    """Settings in a mapping (``dict``), in each mapping of a list, or ``raw`` with a short form."""

    default: None = None
    settings: tuple[Setting[object], ...] = ()
    of: t.Literal["dict", "list", "raw"] = "dict"

    def _more(self) -> Argument:
        elements: Argument = {"elements": "dict"} if self.of == "list" else {}
        return {"type": self.of, **elements, "options": argument_spec(self.settings)}


Table = Sequence[Setting[object]]


def argument_spec(table: Table) -> dict[str, Argument]:
    """The table as Ansible has it."""
    return {setting.name: setting.argument() for setting in table}


def names(table: Table) -> list[str]:
    """Everything that may be written."""
    return [name for setting in table for name in (setting.name, *setting.aliases)]
