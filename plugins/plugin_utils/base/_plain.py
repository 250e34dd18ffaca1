# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible's tagged, lazy and unsafe values as plain Python data."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    Json,
    as_list,
    as_mapping,
)

Values = t.Mapping[str, object]  # variables of a task, or of a host
Answer = dict[str, object]  # of a module, or of a task


def plain(values: t.Mapping[str, object]) -> Answer:
    """Options or a result as plain data, see :func:`to_plain`."""
    return {str(to_plain(key)): to_plain(value) for key, value in values.items()}


def texts(value: object) -> list[str]:
    """The items of a list as text; an empty list for anything else."""
    return [str(to_plain(text)) for text in as_list(value)]


def shares(value: object) -> dict[str, list[str]]:
    """Names by hypervisor."""
    return {str(host): texts(names) for host, names in as_mapping(value).items()}


def to_plain(value: object) -> Json:
    """A copy of ``value`` from dict, list, str, int, float, bool and None only.

    It has none of ansible-core's own string and mapping types, which json and yaml refuse in some
    versions. Keys are text, as in JSON.
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
