# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible's tagged, lazy and unsafe values as plain Python data.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.fleet.virt.plugins.module_utils._pure.base.json_values import (
    Json,
    as_list,
    as_mapping,
)

Values = t.Mapping[str, object]  # variables of a task, or of a host
Answer = dict[str, object]  # of a module, or of a task


def plain(values: t.Mapping[str, object]) -> Answer:
    """Options, or an answer, as :func:`to_plain` has it."""
    return {str(to_plain(key)): to_plain(value) for key, value in values.items()}


def texts(value: object) -> list[str]:
    """What is in a list, as text; an empty one for anything else."""
    return [str(to_plain(one)) for one in as_list(value)]


def shares(value: object) -> dict[str, list[str]]:
    """Names by hypervisor."""
    return {str(host): texts(names) for host, names in as_mapping(value).items()}


def to_plain(value: object) -> Json:
    """``value`` built anew from dict, list, str, int, float, bool and None only.

    What json and yaml refuse on some versions of ansible-core (their own string and mapping
    types) is gone afterwards. Keys are text, as JSON has them.
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
        return {str(to_plain(key)): to_plain(entry) for key, entry in value.items()}
    if isinstance(value, (Sequence, set, frozenset)):
        return [to_plain(entry) for entry in value]
    return str(value)
