# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Columns that are shown of domains on request: any key of a domain or of its metadata.

They come from the type of a domain, so a key that is added there can be shown without more.
"""

from __future__ import annotations

import functools
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass
from . import answers
from .json_values import as_list, as_mapping
from .options import unknown_message
from .snapshot import DomainEntry, MetadataEntry

_ALWAYS = ("name", "state", "reason", "error")  # every table has them


@dataclass(frozen=True)
class Column:
    """A key as a column; ``counted``: its value is the number of what it lists."""

    name: str
    counted: bool

    def value(self, domain: t.Mapping[str, object]) -> object:
        """The value, None if it is not known."""
        if domain["state"] is None:
            return None
        place = domain if self.name in domain else as_mapping(domain.get("metadata"))
        value = place.get(self.name)
        return len(as_list(value)) if self.counted else value

    def shown(self, domain: t.Mapping[str, object]) -> object:
        """The value for people."""
        value = self.value(domain)
        if isinstance(value, bool):
            return "yes" if value else "no"
        return ", ".join(map(str, value)) or None if isinstance(value, list) else value


@functools.cache
def known() -> t.Mapping[str, Column]:
    """Every column by its name."""
    hints = {**answers.keys(DomainEntry), **answers.keys(MetadataEntry)}
    columns: dict[str, Column] = {}
    for name, (hint, _required) in hints.items():
        parts = t.get_args(hint)
        lists = t.get_origin(hint) is list
        described = any(_is_described(part) for part in (hint, *parts))
        if name not in _ALWAYS and (lists or not described):
            columns[name] = Column(name, counted=lists and described)
    return columns


def _is_described(hint: object) -> bool:
    return hasattr(hint, "__required_keys__")


def named(names: t.Sequence[str]) -> list[Column]:
    """The columns of these names; raises PlanRefused, naming those that do not exist."""
    unknown = [name for name in names if name not in known()]
    if unknown:
        raise PlanRefused(
            "; ".join(f"columns: {unknown_message('column', name, known())}" for name in unknown)
        )
    return [known()[name] for name in dict.fromkeys(names)]
