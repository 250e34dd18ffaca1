# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asking fence agents that are installed what they can do."""

from __future__ import annotations

import typing as t

from ..._errors import DeadlineExceeded
from ..base import effects_programs as programs
from . import metadata

_SECONDS = 30.0  # no device is asked; some load many libraries


def unfit(agents: t.Iterable[str]) -> dict[str, str]:
    """Why agents are no proof that a host is off; those that are, and those that are not installed,
    are not named."""
    found: dict[str, str] = {}
    for agent in dict.fromkeys(agents):
        try:
            done = programs.attempt([agent], text=metadata.REQUEST, seconds=_SECONDS)
        except (DeadlineExceeded, OSError) as error:
            found[agent] = f"{agent} does not say what it can do: {error}"
            continue
        if done is not None and (why := metadata.unfit(agent, done.out)):
            found[agent] = why
    return found
