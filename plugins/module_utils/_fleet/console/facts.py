# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers about consoles, their output and screenshots."""

from __future__ import annotations

import typing as t

from ..base import answers


class ConsoleVm(answers.VmIdentity):
    """The consoles of a VM: the types of its screens, and whether it has a serial one."""

    state: str | None
    screens: list[str]
    serial: bool


class ConsoleLook(answers.Result, total=False):
    """The consoles of the VMs that were asked for."""

    consoles: list[ConsoleVm] | None


class _Viewed(t.TypedDict):
    """A VM that is looked at; ``failed`` and ``msg``: why nothing is seen."""

    name: answers.VmName
    uuid: str | None
    failed: bool
    msg: str | None


class ConsoleOutput(_Viewed):
    """The last lines of a guest's output, and up to where its log was read, in bytes."""

    lines: list[str]
    log: str | None
    read_to: int


class ConsoleLogs(answers.Result, total=False):
    """The output of the VMs that were asked for."""

    consoles: list[ConsoleOutput] | None


class _Pixels(_Viewed):
    width: int | None
    height: int | None


class CapturedScreen(_Pixels):
    """A screenshot as its hypervisor returns it."""

    content: str | None


class CapturedScreens(answers.Result, total=False):
    """The screenshots of the VMs that were asked for."""

    screens: list[CapturedScreen] | None


class SavedScreen(_Pixels):
    """A screenshot on the controller; ``file`` is its path below the common folder."""

    path: str | None
    file: str | None
    changed: bool


class SavedScreens(answers.Result, total=False):
    """The screenshots of a hypervisor's VMs."""

    screens: list[SavedScreen] | None
