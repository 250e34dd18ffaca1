# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One row for every setting: what is read, what Ansible is told of it, what is documented.

A feature keeps its rows in a table. ``read`` takes the value from what the user wrote, with a
problem for everything that is not allowed; ``argument_spec`` is the same for Ansible and for the
documentation. A setting that no type here can read (an image, a MAC address) is a ``Value``, and
the feature reads it. Where the row says its place in libvirt's XML, it is written there, read from
there and compared with what is there; and ``fields_of`` makes a field of it, if nothing but that
is done with it.

Defaults in an argument spec are for the documentation. Ansible never fills them into a VM: action
plugins hand VMs on as plain mappings, so that what was written stays apart from what was not.

This file is private to the collection.
"""

from __future__ import annotations

import json
import operator
import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..._units import format_size
from . import places
from .places import Pair
from .xml_values import number

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from .arguments import Argument, Type
    from .options import Reader

Default_co = t.TypeVar("Default_co", covariant=True)


def shown(value: object) -> str:
    """A value for people."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _always(_whole: object) -> bool:
    return True


@dataclass(frozen=True)
class Change:
    """How a setting of a VM that exists is changed.

    ``live``: at once where libvirt can, and for the next start; ``boot``: for the next start;
    ``never``: it is refused, and ``reason`` says why and what to do instead.
    """

    when: t.Literal["live", "boot", "never"]
    reason: str = ""


LIVE, AT_BOOT = Change("live"), Change("boot")


def never(reason: str) -> Change:
    """The change of a setting that a VM keeps as long as it exists."""
    return Change("never", reason)


@dataclass(frozen=True, eq=False, repr=False)
class Setting(t.Generic[Default_co]):
    """A row.

    ``xml`` is the value's place below its device's element, or below the domain's; ``absent``, what
    it means to libvirt that nothing stands there. ``applies`` tells for which specifications it is
    written and compared; ``same``, whether what is asked for (first) is what is there. ``change``
    is None for what a VM that exists is not compared with.
    """

    name: str
    description: str | Sequence[str]
    default: Default_co
    xml: str | Pair = ""
    absent: object = None
    applies: Callable[..., bool] = _always
    same: Callable[..., bool] = operator.eq
    change: Change | None = None
    aliases: tuple[str, ...] = ()

    type: t.ClassVar[Type] = "str"

    def read(self, reader: Reader) -> object:
        """The value that the user wrote, else the default."""
        return reader.value(self.name)

    def write(self, element: Element, whole: object) -> None:
        """Write the value that the specification ``whole`` has into its device's ``element``."""
        if not self.xml or not self.applies(whole):
            return
        if isinstance(self.xml, Pair):
            self.xml.write(element, whole)
            return
        text = self.to_text(getattr(whole, self.name))
        if text is not None:
            places.put(element, self.xml, text)

    def rewrite(self, element: Element, whole: object) -> None:
        """As :meth:`write`, instead of what stands there."""
        self.clear(element)
        self.write(element, whole)

    def clear(self, element: Element) -> None:
        """Remove what stands there."""
        for place in self.xml.places if isinstance(self.xml, Pair) else (self.xml,):
            if place:
                places.clear(element, place)

    def found(self, element: Element | None) -> object:
        """The value that a device's ``element`` has; a list if there are several."""
        if element is None or not self.xml:
            return self.absent
        if isinstance(self.xml, Pair):
            return self.xml.read(element)
        values = [self.from_text(text) for text in places.texts(element, self.xml)]
        return values if len(values) > 1 else values[0] if values else self.absent

    def to_text(self, value: t.Any) -> str | None:
        """The value as libvirt has it; None is not written."""
        return None if value is None else str(value)

    def from_text(self, text: str) -> object:
        """What libvirt has, as a value."""
        return text or self.absent

    def show(self, value: object) -> str:
        """The value for people."""
        return shown(value)

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

    def from_text(self, text: str) -> object:
        return number(text)

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

    def show(self, value: object) -> str:
        if not isinstance(value, int):
            return "unknown"
        return f"{value} MiB" if value < 1024 or value % 1024 else format_size(value) + "iB"


@dataclass(frozen=True, eq=False, repr=False)
class Text(Setting[Default_co]):
    """Text on one line that matches ``pattern``; ``rule`` says that in words."""

    pattern: str = r"[^\0]+"
    rule: str = ""
    secret: bool | None = None

    def _more(self) -> Argument:
        return {} if self.secret is None else {"no_log": self.secret}

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
    """True or false.

    libvirt has a word for either (``words``, which the user may write as well), or the element is
    there or not. What is meant without any is not written.
    """

    words: tuple[str, str] | None = None
    absent: object = False
    type = "bool"

    def read(self, reader: Reader) -> bool | Default_co:
        written = reader.value(self.name)
        if self.words and isinstance(written, str) and written in self.words:
            return written == self.words[0]
        return reader.boolean(self.name, False) if written is not None else self.default

    def to_text(self, value: t.Any) -> str | None:
        if value is None or value == self.absent:
            return None
        return self.words[0 if value else 1] if self.words else ""

    def from_text(self, text: str) -> object:
        if self.words is None:
            return True
        return text == self.words[0] if text in self.words else None


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
    """Settings in a mapping (``dict``), in each mapping of a list, or ``raw`` with a short form.

    ``xml`` is where libvirt has the device, or the devices, whose settings they are.
    """

    default: None = None
    settings: tuple[Setting[object], ...] = ()
    of: t.Literal["dict", "list", "raw"] = "dict"

    def _more(self) -> Argument:
        elements: Argument = {"elements": "dict"} if self.of == "list" else {}
        return {"type": self.of, **elements, "options": argument_spec(self.settings)}


Table = Sequence[Setting[object]]
Specification = t.TypeVar("Specification")
_FURTHER = "rows_with_fields_of_their_own"


def fields_of(table: Table) -> Callable[[type[Specification]], type[Specification]]:
    """A field for every row that has a place in XML and that the class does not declare itself.

    To be put below ``@dataclass``. ``further`` reads these rows.
    """

    def extend(kind: type[Specification]) -> type[Specification]:
        own = dict(kind.__annotations__)
        rows = [row for row in table if row.xml and row.name not in own]
        rows = [row for row in rows if not isinstance(row, Group) and not hasattr(kind, row.name)]
        for row in rows:
            own[row.name] = "object"
            setattr(kind, row.name, row.default)
        kind.__annotations__ = own
        setattr(kind, _FURTHER, tuple(rows))
        return kind

    return extend


def further(kind: type[object], reader: Reader) -> dict[str, t.Any]:
    """The values of the fields that rows gave to a class."""
    rows: Table = getattr(kind, _FURTHER)
    return {row.name: row.read(reader) for row in rows}


def write(table: Table, element: Element, whole: object) -> None:
    """Write every setting of the specification ``whole`` into its device's ``element``."""
    for row in table:
        if not isinstance(row, Group):
            row.write(element, whole)


def argument_spec(table: Table) -> dict[str, Argument]:
    """The table as Ansible has it."""
    return {setting.name: setting.argument() for setting in table}


def rows(table: type[object]) -> tuple[Setting[object], ...]:
    """The rows that a class declares, in their order."""
    return tuple(row for row in vars(table).values() if isinstance(row, Setting))


def names(table: Table) -> list[str]:
    """Everything that may be written."""
    return [name for setting in table for name in (setting.name, *setting.aliases)]
