# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each step of changing an existing VM does."""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..base.metadata import OwnVolume
from ..engine.steps import Action
from .definition import Device


class MarkChanging(Action):
    """Mark the VM as being changed, and name the volumes to be created."""


@dataclass(frozen=True)
class Discard(Action):
    """Remove the volume that a dead run created, and its record."""

    volume: OwnVolume


@dataclass(frozen=True)
class ForgetLeft(Action):
    """Remove the record of a volume that a dead run created or left, whose file has to stay."""

    volume: OwnVolume


@dataclass(frozen=True)
class AddVolume(Action):
    """Create the volume of the disk ``target``."""

    target: str


@dataclass(frozen=True)
class Vcpus(Action):
    """Give the running VM this number of vCPUs."""

    number: int


@dataclass(frozen=True)
class Memory(Action):
    """Give the running VM this memory."""

    mib: int


@dataclass(frozen=True)
class Text(Action):
    """Set the title or the description."""

    which: t.Literal["title", "description"]


class OperatingSystem(Action):
    """Set the operating system."""


@dataclass(frozen=True)
class Console(Action):
    """Change the setting ``path`` of the console of the running VM."""

    path: str


@dataclass(frozen=True)
class OfDevice(Action):
    """Something done to a device of the running VM."""

    device: Device


class Attach(OfDevice):
    """Attach it."""


class Detach(OfDevice):
    """Detach it."""


class Update(OfDevice):
    """Change it."""


class Limit(OfDevice):
    """Change one of its limits."""


@dataclass(frozen=True)
class Growth(Action):
    """Grow a disk to ``size`` bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class Removal(Action):
    """Remove the volume of a disk that is gone."""

    volume: OwnVolume


class ChangeAutostart(Action):
    """Have it start with its hypervisor, or not."""


class Redefine(Action):
    """Replace its definition."""


class EndChange(Action):
    """Remove the mark."""
