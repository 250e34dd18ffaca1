# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when a VM is to be renamed."""

from __future__ import annotations

from ..base import answers


class RenameVm(answers.VmIdentity):
    """A VM of a hypervisor."""

    managed: bool
    renamed_from: str | None


class RenameLook(answers.Result, total=False):
    """The VMs of a hypervisor; its machine UUID, and when it was read, by its own clock, in
    milliseconds since 1970; the notes that it holds."""

    defined: list[RenameVm] | None
    machine: str | None
    at: int | None
    notes: list[str] | None


class RenameNoted(answers.Result, total=False):
    """What a hypervisor noted of machines that do not answer, by the volumes of the notes."""

    noted: dict[str, str] | None


class RenamedVm(answers.VmResult):
    """What came of it, and the files that keep their names."""

    uuid: str | None
    steps: list[str]
    kept: list[answers.KeptFile]


class Renamed(answers.Result, total=False):
    """The result of a stage."""

    vms: list[RenamedVm] | None
