# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One row for every setting: how it is read, its argument specification, its documentation.

A feature keeps its rows in a table. ``read`` takes the value from what the user wrote and reports
everything that is not allowed; ``argument_spec`` is the same for Ansible and for the documentation.
A setting that no type here can read (an image, a MAC address) is a ``Value``, and the feature reads
it. If the row has a place in libvirt's XML, the setting is written there, read from there and
compared with it.

A row is a typed descriptor: a class has rows, and an instance, which :func:`specification` makes,
has their values.

Defaults in an argument spec are for the documentation. Ansible never fills them into a VM: action
plugins pass VMs on as plain mappings, so that explicit values stay distinct from defaults.
"""

from __future__ import annotations

import functools
import json
import operator
import typing as t
from collections.abc import Callable, Sequence

from ..._records import dataclass, field
from ..._units import format_size
from . import places
from .places import Pair
from .xml_values import number

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from .arguments import Argument, Type
    from .options import Reader

Value_co = t.TypeVar("Value_co", covariant=True)
Default_co = t.TypeVar("Default_co", covariant=True)
Row = t.TypeVar("Row", bound="Setting[object]")
Specification = t.TypeVar("Specification")


def shown(value: object) -> str:
    """A value for people."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _always(_specification: object) -> bool:
    return True


@dataclass(frozen=True)
class Change:
    """How a setting of an existing VM is changed.

    ``live``: at once where libvirt can, and at the next start; ``boot``: at the next start;
    ``never``: refused; ``reason`` says why and what to do instead.
    """

    when: t.Literal["live", "boot", "never"]
    reason: str = ""


LIVE, AT_BOOT = Change("live"), Change("boot")


def never(reason: str) -> Change:
    """The change for a setting that is fixed for the life of a VM."""
    return Change("never", reason)


@dataclass(frozen=True, eq=False, repr=False)
class Setting(t.Generic[Value_co]):
    """A row.

    ``xml`` is the value's place below the element of its device or of the domain; ``absent`` is the
    value libvirt assumes if nothing is there. ``applies`` tells for which specifications it is
    written and compared; ``same``, whether the requested value (first) equals the current one.
    ``change`` is None for a setting that is not compared for an existing VM.
    """

    name: str
    description: str | Sequence[str]
    default: object
    xml: str | Pair = ""
    absent: object = None
    applies: Callable[..., bool] = _always
    same: Callable[..., bool] = operator.eq
    change: Change | None = None
    aliases: tuple[str, ...] = ()

    type: t.ClassVar[Type] = "str"

    @t.overload
    def __get__(self: Row, instance: None, owner: object) -> Row: ...
    @t.overload
    def __get__(self, instance: object, owner: object) -> Value_co: ...

    def __get__(self, instance: object, owner: object) -> object:
        return self  # an instance keeps its values itself

    @property
    def unwritten(self) -> object:
        """The value in a specification that does not mention the setting."""
        return self.default

    def read(self, reader: Reader) -> object:
        """The value that the user wrote, else the default."""
        return reader.value(self.name)

    def write(self, element: Element, specification: object) -> None:
        """Write the value from ``specification`` into its device's ``element``."""
        if not self.xml or not self.applies(specification):
            return
        if isinstance(self.xml, Pair):
            self.xml.write(element, specification)
            return
        text = self.to_text(getattr(specification, self.name))
        if text is not None:
            places.put(element, self.xml, text)

    def rewrite(self, element: Element, specification: object) -> None:
        """As :meth:`write`, replacing any current value."""
        self.clear(element)
        self.write(element, specification)

    def clear(self, element: Element) -> None:
        """Remove the current value."""
        for place in self.xml.places if isinstance(self.xml, Pair) else (self.xml,):
            if place:
                places.clear(element, place)

    def found(self, element: Element | None) -> object:
        """The value in a device's ``element``; a list if there are several."""
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
        """The setting in an argument spec, without empty entries."""
        argument: Argument = {"type": self.type}
        if self.default is not None:
            argument["default"] = self.default
        argument.update(self._more())
        if self.aliases:
            argument["aliases"] = list(self.aliases)
        return argument

    def _more(self) -> Argument:
        return {}

    def limits(self) -> str:
        """Restrictions beyond type and choices, as a sentence; may be empty."""
        return ""


@dataclass(frozen=True, eq=False, repr=False)
class Integer(Setting[t.Union[int, Default_co]]):
    """An integer."""

    default: Default_co

    low: int = 0
    high: int = 0
    type = "int"

    def read(self, reader: Reader) -> int | Default_co:
        value = reader.integer(self.name, None, self.low, self.high)
        return self.default if value is None else value

    def from_text(self, text: str) -> object:
        return number(text)

    def limits(self) -> str:
        return f"From {self.low} to {self.high}."


@dataclass(frozen=True, eq=False, repr=False)
class Size(Setting[t.Union[int, Default_co]]):
    """A size in MiB, read from a number or from text with a unit."""

    default: Default_co

    low: int = 1
    high: int = 0

    def read(self, reader: Reader) -> int | Default_co:
        value = reader.mib(self.name, None, self.high, self.low)
        return self.default if value is None else value

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
class Text(Setting[t.Union[str, Default_co]]):
    """Text on one line that matches ``pattern``; ``rule`` describes it in words."""

    default: Default_co

    pattern: str = r"[^\0]+"
    rule: str = ""
    secret: bool | None = None

    def _more(self) -> Argument:
        return {} if self.secret is None else {"no_log": self.secret}

    def read(self, reader: Reader) -> str | Default_co:
        value = reader.text(self.name, None, self.pattern, self.rule)
        return self.default if value is None else value


@dataclass(frozen=True, eq=False, repr=False)
class Choice(Setting[t.Union[str, Default_co]]):
    """One of a few words."""

    default: Default_co

    choices: tuple[str, ...] = ()

    def read(self, reader: Reader) -> str | Default_co:
        value = reader.choice(self.name, self.choices)
        return self.default if value is None else value

    def _more(self) -> Argument:
        return {"choices": list(self.choices)}


@dataclass(frozen=True, eq=False, repr=False)
class Boolean(Setting[t.Union[bool, Default_co]]):
    """True or false.

    libvirt has a word for either (``words``, which the user may write as well), or the element is
    present or absent. The value that is meant by neither is not written.
    """

    default: Default_co

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
class Words(Setting[tuple[str, ...]]):
    """A list of words, each of which matches ``pattern``, or text with commas."""

    default: None = None
    pattern: str = ""
    rule: str = ""
    type = "list"

    @property
    def unwritten(self) -> tuple[str, ...]:
        return ()

    def read(self, reader: Reader) -> tuple[str, ...]:
        return reader.words(self.name, self.pattern, self.rule)

    def _more(self) -> Argument:
        return {"elements": "str"}


@dataclass(frozen=True, eq=False, repr=False)
class Value(Setting[object], t.Generic[Default_co]):
    """A value that its feature reads; ``of`` is Ansible's type, ``elements`` that of list items."""

    default: Default_co

    of: Type = "str"
    elements: Type | None = None
    required: bool = False
    secret: bool | None = None

    def _more(self) -> Argument:
        argument: Argument = {"type": self.of}
        if self.elements:
            argument["elements"] = self.elements
        if self.required:
            argument["required"] = True
        if self.secret is not None:
            argument["no_log"] = self.secret
        return argument


@dataclass(frozen=True, eq=False, repr=False)
class Group(Setting[object]):
    """Settings in a mapping (``dict``), in each mapping of a list, or ``raw`` with a short form.

    ``xml`` is the place in libvirt's XML of the device or devices that have these settings.
    """

    default: None = None
    settings: tuple[Setting[object], ...] = ()
    of: t.Literal["dict", "list", "raw"] = "dict"

    def _more(self) -> Argument:
        elements: Argument = {"elements": "dict"} if self.of == "list" else {}
        return {"type": self.of, **elements, "options": argument_spec(self.settings)}


Table = Sequence[Setting[object]]


def specification(kind: type[Specification]) -> type[Specification]:
    """A frozen dataclass with a field for every row that ``kind`` declares or inherits."""
    # A plain default would become a class attribute, which would hide the row
    # (pylint does not see that the field is a dataclass's)
    values = {
        row.name: field(  # pylint: disable=invalid-field-call
            default_factory=functools.partial(getattr, row, "unwritten")
        )
        for row in rows(kind)
    }
    own = {"__doc__": kind.__doc__, "__module__": kind.__module__}
    types = {"__annotations__": dict.fromkeys(values, object)}
    return dataclass(frozen=True)(type(kind.__name__, (kind,), {**own, **types, **values}))


def read_rows(kind: type[object], reader: Reader) -> dict[str, t.Any]:
    """The values of the rows of a class, as its fields."""
    return {row.name: row.read(reader) for row in rows(kind)}


def write(table: Table, element: Element, specification: object) -> None:
    """Write every setting of ``specification`` into its device's ``element``."""
    for row in table:
        if not isinstance(row, Group):
            row.write(element, specification)


def argument_spec(table: Table) -> dict[str, Argument]:
    """The table as Ansible has it."""
    return {setting.name: setting.argument() for setting in table}


def rows(table: type[object]) -> tuple[Setting[object], ...]:
    """The rows that a class inherits and declares, in their order."""
    kinds = reversed(table.__mro__)
    return tuple(row for kind in kinds for row in vars(kind).values() if isinstance(row, Setting))


def names(table: Table) -> list[str]:
    """The names of all options that may be written."""
    return [name for setting in table for name in (setting.name, *setting.aliases)]
