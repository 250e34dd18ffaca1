# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: what is known of this hypervisor and of every VM of a batch."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused, error_message
from ..._records import dataclass, field
from ..base import machine_types as machines
from ..base.effects_connection import Connection
from ..engine import effects_verb as verb
from ..engine.steps import Snapshot
from ..hosts import host_info
from ..images.facts import ImageFacts
from ..spec import request
from ..spec.devices import Cpu, Disk
from ..spec.domain import Domain
from ..spec.options import Defaults
from ..storage import effects_storage as storage
from ..storage.read_pools import list_pools
from .plan_creation import STARTING, CreationFacts

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.metadata import Metadata, Owner
    from ..hosts.fleet_seen import SeenHypervisor
    from ..images.effects_base_images import BaseImage
    from ..seed.guest_image import Seeded
    from ..storage import effects_storage as storage
    from ..storage.host_names import HostName

SEED_SUFFIX = "_seed.iso"


class OfAll(t.TypedDict):
    """The module's options that apply to all VMs of a batch."""

    disk_profiles: dict[str, object]
    nic_profiles: dict[str, object]
    pool: str
    ssh_public_keys: list[str]
    fleet: str
    fleet_cpu: object


def defaults_of(params: OfAll) -> Defaults:
    """The defaults of a VM's options."""
    return Defaults(
        disk_profiles=params["disk_profiles"],
        nic_profiles=params["nic_profiles"],
        pool=params["pool"],
        ssh_public_keys=tuple(params["ssh_public_keys"]),
        fleet=params["fleet"],
        fleet_cpu=params["fleet_cpu"],
    )


@dataclass(frozen=True)
class BatchSettings:
    """The settings of all VMs of one call.

    ``run`` names the run that claims belong to, ``home`` the hypervisor in the inventory.
    ``pool_paths`` are the pools that may be created, by name. ``limits`` are the ``virt_*``
    settings of placement, ``fleet_cpu`` is what new VMs get that do not choose theirs.
    ``images`` maps images as users write them to base images of this host
    (None for those a real run would fetch). ``observe`` is how long, in seconds, a claim between
    two steps of another run must not change before it is taken over. ``seen`` is the fleet as it
    was when the VMs were placed (``fleet_seen``), empty if claims are not to be finished at once;
    ``readings`` are the notes that hypervisors of it lack, ``compared_macs`` those addresses that
    existing VMs get and that were compared with it.
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
    fleet_cpu: Cpu | None = None
    images: t.Mapping[str, BaseImage | None] = field(default_factory=dict)
    facts: t.Mapping[str, ImageFacts] = field(default_factory=dict)
    observe: float = 10.0
    converge: bool = True
    seen: t.Sequence[SeenHypervisor] = ()
    readings: t.Mapping[str, str] = field(default_factory=dict)
    compared_macs: t.Sequence[str] = ()
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
class Draft:
    """What the definition of a VM is written from.

    ``host_key`` is the public half of the key that its seed gives it, ``made`` the identities of
    its files by path, ``seeded`` how it was seeded, and what its image has; known once they exist.
    ``fixed`` are the ports and IDs that it has to itself while it runs.
    """

    domain: Domain
    disks: list[DiskPlan] = field(default_factory=list)
    seed: DiskPlan | None = None
    host_key: str | None = None
    made: dict[str, str] = field(default_factory=dict)
    seeded: Seeded | None = None
    fixed: tuple[HostName, ...] = ()

    @property
    def volumes(self) -> list[DiskPlan]:
        """All volumes that are created for it, in this order."""
        return [*self.disks, *([self.seed] if self.seed else [])]


@dataclass
class ProvisionJob(verb.Job[Snapshot]):
    """One VM of the batch and its result; of this class itself if it could not be planned.

    ``texts`` are the steps, for users. ``existed``: it was complete before this run.
    ``refused``: another hypervisor, or a retry, may succeed.
    """

    host: Host
    domain: Domain
    texts: list[str] = field(default_factory=list, init=False)
    existed: bool = field(default=False, init=False)
    altered: bool = field(default=False, init=False)
    refused: bool = field(default=False, init=False)

    @property
    def changed(self) -> bool:
        return self.altered

    @property
    def failure(self) -> str:
        return f"{self.name}: {self.problem}"

    @property
    def added_macs(self) -> list[str]:
        """The MAC addresses that a VM gets which existed before."""
        return []

    def predict(self) -> None:
        super().predict()
        self.altered = self.has_work

    def fail(self, problem: str, *, refused: bool = False) -> None:
        """Fail with ``problem``."""
        self.problem, self.refused = problem, refused

    def entry(self) -> verb.Shown:
        return {
            "existed": self.existed,
            "steps": self.texts if self.altered else [],
            "restart_required": False,
            "pending": [],
            "state": None,
            "started": False,
            "note": None,
            "seed": None,
            "refused": self.refused,
            "not_tried": self.not_tried,
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return {}, {}


AnyJob = ProvisionJob[t.Any]


@dataclass
class CreationJob(ProvisionJob[CreationFacts]):
    """One VM that is created, or completed.

    ``claimer`` is the owner of its claim, ``made`` what this call has created, ``taken`` the
    metadata that a dead run left. ``paused``: it is resumed once all of the batch are created.
    ``remaining`` are the problems of rolling back, ``cpu`` is what is to be told of its CPU.
    """

    draft: Draft
    claimer: Owner = field(init=False)
    paused: bool = field(default=False, init=False)
    dom: VirDomain | None = field(default=None, init=False)
    made: list[DiskPlan] = field(default_factory=list, init=False)
    taken: Metadata | None = field(default=None, init=False)
    remaining: list[str] = field(default_factory=list, init=False)
    cpu: str | None = field(default=None, init=False)

    @property
    def complete(self) -> bool:
        """Whether it is complete, and only to be started."""
        return self.facts.stored is not None and self.facts.stored.phase == STARTING

    def predict(self) -> None:
        super().predict()
        self.uuid = self.after.uuid

    def stays(self, error: Exception) -> None:
        self.remaining.append(error_message(error))

    def entry(self) -> verb.Shown:
        runs = self.domain.start or self.complete
        state = None if self.problem else "running" if runs else "shutoff"
        told = {"state": state, "seed": self.draft.seeded, "note": self.cpu}
        return {**super().entry(), **told}

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        volumes = [plan.path for plan in self.draft.volumes]
        return {}, {**request.as_plain(self.domain), "volumes": volumes}

    def claimed(self) -> VirDomain:
        """The domain that was claimed."""
        if self.dom is None:
            look = self.connection.conn.lookupByUUIDString
            self.dom = self.connection.call(f"find {self.name}", look, str(self.uuid))
        return self.dom

    def disk(self, path: str) -> DiskPlan:
        """The disk whose volume is at ``path``."""
        return next(plan for plan in self.draft.disks if plan.path == path)


def require_bases(disks: t.Iterable[Disk], settings: BatchSettings) -> None:
    """Raise PlanRefused if the image of a disk or a CD is not on this hypervisor.

    The disk would be created empty otherwise.
    """
    home = settings.home
    for disk in disks:
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

    @property
    def kind(self) -> str:
        """The domain type of VMs that do not choose theirs."""
        return "kvm" if "kvm" in self.capabilities["domain_types"] else "qemu"

    def domain_type(self, domain: Domain) -> str:
        return domain.domain_type or self.kind

    def machine(self, domain: Domain) -> str | None:
        """The versioned machine type, the fleet's if the caller knows it."""
        if self.settings.machine and domain.machine is None:
            return self.settings.machine
        return machines.newest_common([self.capabilities["machines"]], domain.machine)

    def pool(self, name: str) -> storage.Pool:
        """The pool, or the one that would be created (``handle`` None)."""
        if name not in self.pools:
            path = self.settings.pool_paths.get(name)
            existing = storage.find_pool(self.connection, name, path, to_make=path is not None)
            if existing is None and path is None:
                known = (
                    ", ".join(str(pool.name()) for pool in list_pools(self.connection)) or "none"
                )
                raise PlanRefused(f"no pool {name!r} on {self.settings.home}; there are: {known}")
            self.pools[name] = existing or storage.Pool(name, str(path))
        return self.pools[name]
