# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor says of the cards of its VMs."""

from __future__ import annotations

import typing as t

from ..base import answers


class _Stray(t.TypedDict, total=False):
    stray: str
    called: str


class CardEntry(_Stray):
    """A VM whose card is not as it should be; ``problem`` says why no run can change that, None if
    one can, or has. ``leftover``: it is here by its definition alone, which is removed; the disks
    of the VM, which are kept. ``stray``: the path of a card that names a VM which is not here.
    ``called``: what the card calls this hypervisor, which has another name in the inventory."""

    name: answers.VmName
    problem: str | None
    leftover: list[str] | None
