# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: what is known of this hypervisor and of every VM of a batch."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..._errors import PlanRefused
from ..base import machine_types as machines
from ..base.effects_connection import Connection
from ..engine.steps import Plan
from ..hosts import host_info
from ..placement.demand import ImageFacts
from ..spec.devices import Disk
from ..spec.domain import Domain
from ..spec.options import Defaults

if t.TYPE_CHECKING:
    from ..hosts.fleet_seen import SeenHypervisor
    from ..images.effects_base_images import BaseImage
    from ..seed.guest_image import Seeded
    from ..storage import effects_storage as storage
    from .plan_creation import CreationFacts
    from .power import Power

SEED_SUFFIX = "_seed.iso"


class OfAll(t.TypedDict):
    """The module's options that apply to all VMs of a batch."""

    disk_profiles: dict[str, object]
    nic_profiles: dict[str, object]
    pool: str
    ssh_public_keys: list[str]
    fleet: str


def defaults_of(params: OfAll) -> Defaults:
    """The defaults of a VM's options."""
    return Defaults(
        disk_profiles=params["disk_profiles"],
        nic_profiles=params["nic_profiles"],
        pool=params["pool"],
        ssh_public_keys=tuple(params["ssh_public_keys"]),
        fleet=params["fleet"],
    )


@dataclass(frozen=True)
class BatchSettings:
    """The settings of all VMs of one call.

    ``run`` names the run that claims belong to, ``home`` the hypervisor in the inventory.
    ``pool_paths`` are the pools that may be created, by name. ``limits`` are the ``virt_*``
    settings of placement. ``images`` maps images as users write them to base images of this host
    (None for those a real run would fetch). ``observe`` is how long, in seconds, a claim between
    two steps of another run must not change before it is taken over. ``seen`` is the fleet as it
    was when the VMs were placed (``fleet_seen``), empty if claims are not to be finished at once.
    Without ``converge`` a VM that exists and differs is refused. ``leftovers`` are what a copy gets
    of its source beside its settings, without what is at the places of those that were
    ``requested`` for the copy.
    """

    run: str
    home: str
    pool_paths: t.Mapping[str, str]
    base_pool: str
    limits: t.Mapping[str, object] = field(default_factory=dict)
    machine: str | None = None
    images: t.Mapping[str, BaseImage | None] = field(default_factory=dict)
    facts: t.Mapping[str, ImageFacts] = field(default_factory=dict)
    observe: float = 10.0
    converge: bool = True
    seen: t.Sequence[SeenHypervisor] = ()
    clone_of: str | None = None
    leftovers: str | None = None
    requested: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiskPlan:
    """A disk and the volume to create for it; ``key`` is the pool as the request names it."""

    disk: Disk
    key: str
    pool: storage.Pool
    volume: str
    size: int
    base: BaseImage | None

    @property
    def path(self) -> str:
        return self.pool.volume_path(self.volume)


@dataclass
class ProvisionJob:
    """One VM of the batch and its result."""

    domain: Domain
    disks: list[DiskPlan] = field(default_factory=list)
    seed: DiskPlan | None = None
    uuid: str | None = None
    host_key: str | None = None  # public half of the key that its seed gives it
    made: dict[str, str] = field(
        default_factory=dict
    )  # path -> identity of the file that was created
    seeded: Seeded | None = None  # how it was seeded, and what its image has
    # new: to be created or finished; complete: only to be started; same: up to date; change: it
    # exists and differs; failed
    state: str = "new"
    facts: CreationFacts | None = None  # as they were read
    plan: Plan[CreationFacts] = field(default_factory=Plan)
    msg: str | None = None
    steps: list[str] = field(default_factory=list)
    existed: bool = False  # complete, before this run
    changed: bool = False
    change: object = None  # a changing.Change, of one that exists
    waits: list[str] = field(default_factory=list)  # settings that wait for its next start
    power: Power | None = None  # of one that exists: whether it is started
    refused: bool = False
    not_tried: bool = False  # because another VM of the batch failed

    def fail(self, msg: str, *, refused: bool = False) -> None:
        """Fail with ``msg``; ``refused``: another hypervisor, or a retry, may succeed."""
        self.state, self.msg, self.refused = "failed", msg, refused

    @property
    def volumes(self) -> list[DiskPlan]:
        """All volumes that are created for it, in this order."""
        return [*self.disks, *([self.seed] if self.seed else [])]


def require_bases(job: ProvisionJob, settings: BatchSettings) -> None:
    """Raise PlanRefused if the image of a disk or a CD is not on this hypervisor.

    The disk would be created empty otherwise.
    """
    home = settings.home
    for disk in job.domain.disks:
        image = disk.image
        if image is not None and settings.images.get(image.value) is None:
            raise PlanRefused(
                f"disk {disk.name!r}: its image {image.value} is not among the base images of"
                f" {home}: it was not transferred, or was removed, or its folder is not mounted."
                " Run this again to transfer it"
            )


class Host:
    """This hypervisor as creation sees it, read once per call."""

    def __init__(self, connection: Connection, settings: BatchSettings) -> None:
        self.connection = connection
        self.settings = settings
        self.capabilities = host_info.capabilities(
            connection.call("read capabilities", connection.conn.getCapabilities)
        )
        self.pools: dict[str, storage.Pool] = {}

    @property
    def arch(self) -> str:
        return str(self.capabilities["arch"])

    def domain_type(self, domain: Domain) -> str:
        types = self.capabilities["domain_types"]
        return domain.domain_type or ("kvm" if "kvm" in types else "qemu")

    def machine(self, domain: Domain) -> str | None:
        """The versioned machine type, the fleet's if the caller knows it."""
        if self.settings.machine and domain.machine is None:
            return self.settings.machine
        return machines.newest_common([self.capabilities["machines"]], domain.machine)

    def pool(self, name: str) -> storage.Pool:
        """The pool, or the one that would be created (``handle`` None)."""
        if name not in self.pools:
            # VMs that are up to date need none
            from ..storage import effects_storage as storage
            from ..storage.read_pools import list_pools

            path = self.settings.pool_paths.get(name)
            existing = storage.find_pool(self.connection, name, path)
            if existing is None and path is None:
                known = (
                    ", ".join(str(pool.name()) for pool in list_pools(self.connection)) or "none"
                )
                raise PlanRefused(f"no pool {name!r} on {self.settings.home}; there are: {known}")
            self.pools[name] = existing or storage.Pool(name, str(path))
        return self.pools[name]
