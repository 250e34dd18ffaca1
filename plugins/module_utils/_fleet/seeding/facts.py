# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers while VMs are waited for."""

from __future__ import annotations

import typing as t

from ..base import answers


class _WaitingMore(t.TypedDict, total=False):
    addresses: list[str]
    state: str | None
    reason: str | None
    first_boot: str | None


class WaitingVm(_WaitingMore):
    """What is known of a VM; ``answered`` is None if it was not tried."""

    name: answers.VmName
    address: str | None
    source: str | None
    seconds: int | float | None
    answered: bool | None
    changed: bool | None
    msg: str | None
    console: list[str]


class Waited(answers.Result, total=False):
    """The result of one call; ``waiting`` are the names of VMs that have not responded yet."""

    vms: list[WaitingVm] | None
    waiting: list[str] | None
