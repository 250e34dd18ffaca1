# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values from outside: what JSON, YAML and the answers of modules may hold.

``Json`` is for values known to be of these types. Where not even that is known, use ``object``.
Either is checked with ``isinstance``, or with the readers here, before it is used.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

Json = t.Union[None, bool, int, float, str, t.Sequence["Json"], t.Mapping[str, "Json"]]


def as_mapping(value: object) -> Mapping[str, object]:
    """The mapping, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    """The list or tuple as a list, an empty one for anything else, including text."""
    return list(value) if isinstance(value, (list, tuple)) else []


def as_mappings(value: object) -> list[Mapping[str, object]]:
    """The mappings in a list; anything else in it is left out."""
    return [one for one in as_list(value) if isinstance(one, Mapping)]


def as_text(value: object) -> str | None:
    """The text, None for anything else."""
    return value if isinstance(value, str) else None


def as_number(value: object) -> int | None:
    """The integer, None for anything else, including a boolean."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
