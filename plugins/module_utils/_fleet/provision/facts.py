# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when VMs are compared with a request, claimed and created."""

from __future__ import annotations

import typing as t

from ..base import answers
from ..placement.facts import Placing


class _MadeMore(t.TypedDict, total=False):
    uuid: str | None
    existed: bool | None
    steps: list[str] | None
    restart_required: bool | None
    pending: list[str] | None
    state: str | None
    started: bool | None
    note: str | None
    seed: object
    refused: bool | None
    not_tried: bool | None


class MadeVm(_MadeMore, answers.VmResult):
    """What came of a requested VM; ``refused``: for a reason that may be temporary."""


class Made(answers.Result, total=False):
    """The result for the VMs of a hypervisor."""

    vms: list[MadeVm] | None


class Claims(Placing, total=False):
    """The same, with the hypervisor as it is after its claims; ``finished``: not only claimed.

    ``noted`` are readings of machines that do not answer, by volume, ``unnoted`` is why a note
    could not be written. ``added_macs`` are the MAC addresses that existing VMs get, by name.
    """

    finished: object
    noted: dict[str, str] | None
    unnoted: str | None
    added_macs: dict[str, list[str]] | None
    vms: list[MadeVm] | None


class _ComparedMore(answers.Unreadable, total=False):
    condition: str | None
    added_macs: list[str] | None
    not_running: bool | None


class ComparedVm(_ComparedMore):
    """How a VM differs from its request: ``differences`` is None if it could not be compared.

    ``drift``: it was created as requested and changed since. ``pending``: settings that take effect
    at its next start. ``condition`` tells of its state, if there is anything to tell;
    ``not_running``: the request says that it runs, and it does not. ``added_macs`` are the MAC
    addresses that it would get.
    """

    name: answers.VmName
    differences: list[str] | None
    drift: bool | None
    pending: list[str]


class TakenVm(t.TypedDict):
    """A VM that is not defined, and what there keeps it from being created."""

    name: answers.VmName
    reasons: list[str]


class Compared(Placing, total=False):
    """A hypervisor with its VMs, those that were compared, and those that would be refused."""

    vms: list[ComparedVm] | None
    taken: list[TakenVm] | None


class _NamedMore(t.TypedDict, total=False):
    address: str | None


class NamedVm(_NamedMore):
    """A VM that any task returned."""

    name: answers.VmName


class Named(answers.Result, total=False):
    """The VMs that any task returned."""

    vms: list[NamedVm] | None
