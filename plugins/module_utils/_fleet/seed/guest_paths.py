# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths in a guest's disk: where they lead, link by link.

Nothing in a guest can lead to the hypervisor: its disk is mounted only by an appliance. But a link
that leads out of the guest's own tree, or to nothing, is not a place for a guest's identity: what
is written there would not be found, or would belong to something else.
"""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused

_MOST_LINKS = 40  # as in Linux
# For a path: the target of a link, "" if it is not a link, None if it does not exist
Look = t.Callable[[str], t.Optional[str]]


def resolved(path: str, look: Look) -> str:
    """The guest's ``path`` with links resolved; parts that do not exist yet are allowed.

    Raises PlanRefused, naming the link, if one leads out of the guest or to nothing.
    """
    todo = [(part, False) for part in path.split("/") if part]  # and whether it comes from a link
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
                raise PlanRefused(_message(path, via[-1], "to nothing in the guest"))
            return "/" + "/".join([*done, part, *(component for component, _linked in todo)])
        if target == "":
            done.append(part)
            continue
        via.append(f"{place} -> {target}")
        if len(via) > _MOST_LINKS:
            raise PlanRefused(_message(path, via[0], "in a loop"))
        if target.startswith("/"):
            done = []
        todo = [(component, True) for component in target.split("/") if component] + todo
    return "/" + "/".join(done)


def _message(path: str, link: str, where: str) -> str:
    return (
        f"{path} cannot be written into the image: the link {link} leads {where}. Nothing was"
        " written; repair the image"
    )
