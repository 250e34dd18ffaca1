# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible's tagged, lazy and unsafe values as plain Python data.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence


def to_plain(value: t.Any) -> t.Any:
    """``value`` built anew from dict, list, str, int, float, bool and None only.

    What json and yaml refuse on some versions of ansible-core (their own string and mapping
    types) is gone afterwards.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return "".join(value)  # a copy is a plain str; str() of a subclass may return itself
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return {to_plain(key): to_plain(entry) for key, entry in value.items()}
    if isinstance(value, (Sequence, set, frozenset)):
        return [to_plain(entry) for entry in value]
    return str(value)
