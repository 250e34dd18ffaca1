# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far rolling work is on a hypervisor, from its marks."""

from __future__ import annotations

import hashlib
import typing as t

from ..._records import dataclass
from ..hosts.rolling_marks import BEGUN, DIGEST, PASSED, parse

_ABANDONED = 7 * 24 * 3600 * 1000  # milliseconds after which an interrupted run is none any more


@dataclass(frozen=True)
class Progress:
    """How far rolling work is on a hypervisor: whether it was ``begun`` there and its VMs have not
    returned, and when it ``passed`` with these tasks. ``age`` is how long ago that was."""

    begun: bool = False
    passed: int | None = None
    age: int = 0


def digest_of(content: bytes) -> str:
    """What names a file of tasks in marks."""
    return hashlib.sha256(content).hexdigest()[:DIGEST]


def progress(volumes: t.Iterable[str], digest: str, now: int) -> Progress:
    """How far a hypervisor with these ``volumes`` is; ``now`` is the time of its clock.

    That it was begun counts whatever the tasks were: it is in maintenance for them, and whoever
    corrects the file goes on there. That it passed counts for the same tasks only.
    """
    marks = [mark for volume in volumes if (mark := parse(volume)) is not None]
    passed = [mark.at for mark in marks if mark.state == PASSED and mark.digest == digest]
    begun = any(mark.state == BEGUN for mark in marks)
    last = max(passed) if passed else None
    return Progress(begun, last, max(0, now - last) if last is not None else 0)


def current(progresses: t.Mapping[str, Progress]) -> dict[str, Progress]:
    """Without what an abandoned run passed: the last hypervisor that did so did it a week ago.

    Each age is by its hypervisor's own clock.
    """
    ages = [one.age for one in progresses.values() if one.passed is not None]
    if not ages or min(ages) <= _ABANDONED:
        return {**progresses}
    return {name: Progress(one.begun) for name, one in progresses.items()}
