# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dataclasses that are made in a fifth of the time.

Python compiles six functions for each frozen dataclass, in every process that imports it, which no
bytecode cache saves: of a module's imports that was a third. This decorator has the standard one
find the fields, and compiles the constructor alone; comparing, showing and refusing are functions
that all of them share. ``dataclasses.replace``, ``fields`` and ``asdict`` work as ever.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    import dataclasses
    import operator
    import reprlib
    from dataclasses import field

    _NOT_GIVEN = object()

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True):  # noqa: A002
        """As the standard one. A class that inherits from one of these must be one as well."""

        def made(cls):
            own = vars(cls)
            hashed = own.get("__hash__")
            if cls.__doc__ is None:
                cls.__doc__ = cls.__name__  # else the standard one would inspect a signature
            dataclasses.dataclass(cls, init=False, repr=False, eq=False)
            fields = dataclasses.fields(cls)
            cls.__init__ = _constructor(cls, fields, frozen)
            if repr and "__repr__" not in own:
                cls.__repr__ = _shown
            if eq:
                if "__eq__" not in own:
                    cls.__eq__ = _equal
                if hashed is None:
                    cls.__hash__ = _hashed if frozen else None
                cls._compared = _values([each.name for each in fields if each.compare])
            if frozen:
                cls.__setattr__, cls.__delattr__ = _not_set, _not_deleted
            return cls

        return made if cls is None else made(cls)

    def _constructor(cls, fields, frozen):
        """The ``__init__``. It fills the instance's dictionary where assigning is refused."""
        names = {"__name__": cls.__module__, "_NOT_GIVEN": _NOT_GIVEN}  # profilers read it
        parameters, lines = ["self"], []
        for each in fields:
            name = value = each.name
            if each.default_factory is not dataclasses.MISSING:
                names[f"_make_{name}"] = each.default_factory
                value = f"_make_{name}()"
                if each.init:
                    parameters.append(f"{name}=_NOT_GIVEN")
                    value += f" if {name} is _NOT_GIVEN else {name}"
            elif not each.init:
                continue
            elif each.default is not dataclasses.MISSING:
                names[f"_default_{name}"] = each.default
                parameters.append(f"{name}=_default_{name}")
            else:
                parameters.append(name)
            lines.append(f"values['{name}'] = {value}" if frozen else f"self.{name} = {value}")
        if frozen:
            lines.insert(0, "values = self.__dict__")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        body = "\n ".join(lines or ["pass"])
        exec(f"def __init__({', '.join(parameters)}):\n {body}", names)  # noqa: S102
        constructor = names["__init__"]
        constructor.__qualname__ = f"{cls.__qualname__}.__init__"
        return constructor

    def _values(names):
        """A function of an instance: a tuple of these fields."""
        if len(names) > 1:
            return staticmethod(operator.attrgetter(*names))
        return staticmethod(lambda instance: tuple(getattr(instance, name) for name in names))

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._compared(self) == self._compared(other)

    def _hashed(self):
        return hash(self._compared(self))

    @reprlib.recursive_repr()
    def _shown(self):
        fields = [each.name for each in dataclasses.fields(self) if each.repr]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields)
        return f"{self.__class__.__qualname__}({values})"

    def _not_set(_self, name, _value):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _not_deleted(_self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


__all__ = ["dataclass", "field"]
