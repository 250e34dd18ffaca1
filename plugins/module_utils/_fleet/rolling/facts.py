# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers in rolling work."""

from __future__ import annotations

import typing as t

from ..base import answers


class Versions(t.TypedDict):
    """What runs there now."""

    libvirt: str | None
    hypervisor: str | None
    kernel: str


class RollingAnswer(answers.Result, total=False):
    """What is there: the domains that run, why a reboot is needed if it is, and the ``marks`` of
    rolling work at the time ``at`` of its clock.

    ``held``: before a reboot, whether it is still in maintenance for this run.

    What came of a stage: ``claimed``, it is marked as begun; ``ready``, no VM runs there;
    ``rebooted``, whether it was; ``well``, it passed the health gate; ``finished``, nothing is left
    to do there. ``why``: what failed.
    """

    running: list[str] | None
    reboot: str | None
    versions: Versions | None
    marks: list[str] | None
    at: int | None
    held: bool | None
    claimed: bool | None
    ready: bool | None
    rebooted: bool | None
    well: bool | None
    finished: bool | None
    why: str | None
