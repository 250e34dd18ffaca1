# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when VMs are to be brought to a state."""

from __future__ import annotations

from ..base import answers


class StateVm(answers.GroupedVm):
    """A VM that was asked for, by its name, a pattern or one of its groups."""

    start_order: int | None


class StateLook(answers.Result, total=False):
    """Those of the VMs that were asked for that a hypervisor has."""

    vms: list[StateVm] | None


class BroughtVm(answers.TriedVm):
    """What came of it, and its state before and afterwards."""

    uuid: str | None
    state: str | None
    before: str | None
    autostart: bool | None
    steps: list[str]


class Brought(answers.Result, total=False):
    """The result for the VMs of a hypervisor."""

    vms: list[BroughtVm] | None
