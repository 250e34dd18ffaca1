# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the hosts of a play have registered.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._pure.base import answer_shapes
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain

Answer = dict[str, t.Any]


def registered(
    task_vars: t.Mapping[str, t.Any], variable: str | None, kind: str | None = None
) -> dict[str, Answer]:
    """What each host of the play registered as ``variable``, as plain data; empty if nothing.

    An answer that has not the shape of its ``kind`` (see :mod:`answer_shapes`) is none: that host
    is silent, for this reason.
    """
    names = map(str, task_vars["ansible_play_hosts_all"])
    return {name: of_host(task_vars, name, variable, kind) for name in names}


def of_host(
    task_vars: t.Mapping[str, t.Any], name: str, variable: str | None, kind: str | None = None
) -> Answer:
    """What one host registered, as :func:`registered` has it."""
    if not variable:
        return {}
    answer = to_plain(task_vars["hostvars"][name].get(variable) or {})
    if not isinstance(answer, dict):
        return unsound(f"it is {type(answer).__name__}")
    return sound(answer, kind) if kind else answer


def sound(answer: Answer, kind: str) -> Answer:
    """``answer`` if it has the shape of its ``kind``, else what stands for one that is none."""
    problem = answer_shapes.problem(answer, kind)
    return unsound(problem) if problem else answer


def unsound(problem: str) -> Answer:
    """What stands for an answer that is none."""
    return {
        "failed": True,
        "msg": f"its answer is not what a module of this collection returns ({problem}); look at"
        " what answers there",
    }
