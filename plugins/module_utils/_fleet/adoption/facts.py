# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when VMs are to be adopted."""

from __future__ import annotations

from ..base import answers


class AdoptableVm(answers.VmIdentity):
    """A VM that was asked for, with its specification or why there is none."""

    candidate: bool
    specification: dict[str, object] | None
    problems: list[str]
    carried: str | None
    refused: list[str]
    left_out: list[str]


class AnyDefinedVm(answers.VmIdentity):
    """Any VM of a hypervisor."""

    macs: list[str]


class AdoptLook(answers.Result, total=False):
    """What other hypervisors must know of one, and its VMs that may be adopted."""

    vms: list[AdoptableVm] | None
    defined: list[AnyDefinedVm] | None
    pool_ids: list[str] | None


class AdoptedVm(answers.VmResult):
    """What came of it, its specification, and which of its disks are its own."""

    uuid: str | None
    specification: dict[str, object] | None
    undescribed: list[str]
    owned: list[str]
    kept: list[answers.KeptFile]


class Adopted(answers.Result, total=False):
    """The result for the VMs of a hypervisor."""

    vms: list[AdoptedVm] | None
