# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths of a guest whose disk is at hand: where they lead, link by link.

Nothing of a guest can lead to the hypervisor: its disk is mounted by an appliance only. But a link
that leads out of the guest's own tree, or to nothing, is no place to put a guest's identity: what
is written there would not be found, or be somebody else's.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused

_MOST_LINKS = 40  # as Linux has it
# What a link has to do for a path: its target, "" for what is no link, None for what is not there
Look = t.Callable[[str], t.Optional[str]]


def resolved(path: str, look: Look) -> str:
    """Where ``path`` of the guest leads, without links; what is not there yet is no problem.

    Raises PlanRefused, naming the link, if one leads out of the guest or to nothing.
    """
    todo = [(part, False) for part in path.split("/") if part]  # with whether a link says so
    done: list[str] = []
    via: list[str] = []  # links on the way
    while todo:
        part, linked = todo.pop(0)
        if part == ".":
            continue
        if part == "..":
            if not done:
                raise PlanRefused(_message(path, via[-1] if via else path, "out of the guest"))
            done.pop()
            continue
        place = "/" + "/".join([*done, part])
        target = look(place)
        if target is None:
            if linked:
                raise PlanRefused(_message(path, via[-1], "to nothing that is in the guest"))
            return "/" + "/".join([*done, part, *(one for one, _linked in todo)])
        if target == "":
            done.append(part)
            continue
        via.append(f"{place} -> {target}")
        if len(via) > _MOST_LINKS:
            raise PlanRefused(_message(path, via[0], "round in a circle"))
        if target.startswith("/"):
            done = []
        todo = [(one, True) for one in target.split("/") if one] + todo
    return "/" + "/".join(done)


def _message(path: str, link: str, where: str) -> str:
    return (
        f"{path} cannot be written into the image: the link {link} leads {where}. Nothing was"
        " written; repair the image"
    )
