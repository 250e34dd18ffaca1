# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_init``, apart from what reads them: some of its stages need no more."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.settings import argument_spec, names
from ..engine.envelope import SPEC, Work
from ..hosts.fleet_seen import SeenHypervisor
from ..spec.settings import VM

if t.TYPE_CHECKING:
    from ..base.arguments import Spec
    from ..images.facts import KnownImage

# Every key that describes a VM; _fleet/spec/domain.py reads them, and reports every problem of a
# batch at once. The action plugin hands them on in ``vms``.
OPTIONS = tuple(names(VM))
ARGUMENTS: Spec = {
    **argument_spec(VM),
    "vms": {"type": "list", "elements": "dict"},
    "disk_profiles": {"type": "dict", "default": {}},
    "nic_profiles": {"type": "dict", "default": {}},
    "pool": {"type": "str", "default": "default"},
    "base_pool": {"type": "str", "default": "base"},
    "pool_paths": {"type": "dict", "default": {}},
    "ssh_public_keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "fleet": {"type": "str", "default": ""},
    "limits": {"type": "dict", "default": {}},
    "converge": {"type": "bool", "default": True},
}
# The VMs of all hypervisors with what may be secret, and secrets: no_log hides entire options only
INTERNAL: Spec = {
    **SPEC,
    "_asked": {"type": "str", "default": "", "no_log": True},
    "_passwords": {"type": "dict", "default": {}, "no_log": True},
    "_seeds": {"type": "str", "default": "", "no_log": True},
}


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
