# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The work of tasks that create VMs, change and show them.

Apart from the options, whose tables of settings a task that only shows would compile in vain.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..engine.envelope import Work
from ..hosts.fleet_seen import SeenHypervisor

if t.TYPE_CHECKING:
    from ..images.facts import KnownImage


@dataclass(frozen=True)
class WorkImage:
    """An image that the controller knows, as far as disks are made of it."""

    name: str
    digest: str
    format: str
    virtual_bytes: int

    @property
    def known(self) -> KnownImage:
        """The same as it is in answers."""
        return {
            "name": self.name,
            "digest": self.digest,
            "format": self.format,
            "virtual_bytes": self.virtual_bytes,
        }


@dataclass(frozen=True)
class ProvisionWork(Work):
    """A stage of creating and changing VMs on a hypervisor, which is ``home`` in the inventory.

    ``claimed_by`` names the run that claims belong to, ``withdraw`` claims that are given up,
    ``machine`` the machine type that all hypervisors have. ``seen`` is the fleet as it was when the
    VMs were placed; empty if claims are not to be finished at once. ``images`` are known, by the
    image as written, and ``image_paths`` are those of which the hypervisor says whether it has
    them. A clone is ``clone_of`` a VM, and has what is ``carried`` of its definition beside its
    settings, but for settings that were ``requested``.
    """

    STAGES = ("all", "read", "look", "compare", "claim", "finish")

    home: str = ""
    claimed_by: str = ""
    withdraw: list[str] = field(default_factory=list)
    machine: str = ""
    seen: list[SeenHypervisor] = field(default_factory=list)
    images: dict[str, WorkImage] = field(default_factory=dict)
    image_paths: list[str] = field(default_factory=list)
    clone_of: str = ""
    carried: str = ""
    requested: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PlaceWork(Work):
    """Placing VMs, and deciding which claims are kept, in rounds."""

    STAGES = ("all", "place", "confirm")


@dataclass(frozen=True)
class ShowWork(Work):
    """Showing what came of provisioning."""

    STAGES = ("all", "report")
