# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs, first half: what is to be done on this hypervisor, and what speaks against it.

Nothing is changed here. Every problem of every VM of a batch is found before the first is touched.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .._errors import FleetVirtError, PlanRefused, told
from .._model import daemon_consoles, demand, host_info, machines, request
from .._model.demand import ImageFacts
from .._model.devices import Disk
from .._model.domain import Domain, machine_problems
from . import config_files, seed_nocloud, storage
from .connection import Connection
from .images import BaseImage
from .lookup import find_domain, kept_metadata
from .pools import list_pools

SEED_SUFFIX = "_seed.iso"
_QEMU_CONF = "/etc/libvirt/qemu.conf"


@dataclass(frozen=True)
class Settings:
    """What holds for all VMs of one call.

    ``run`` names the run that claims belong to, ``home`` the hypervisor in the inventory.
    ``pool_paths`` are the pools that may be made, by name. ``limits`` are the ``virt_*`` settings
    of placement. ``images`` maps images as users write them to base images of this host (None for
    those a real run would bring). ``observe`` is how long a claim between two steps of another
    run must lie still before it is taken over, in seconds. ``seen`` is the fleet as it was when
    the VMs were placed (``fleet_seen``), empty if claims are not to be finished at once.
    """

    run: str
    home: str
    pool_paths: t.Mapping[str, str]
    base_pool: str
    limits: t.Mapping[str, t.Any] = field(default_factory=dict)
    machine: str | None = None
    images: t.Mapping[str, BaseImage | None] = field(default_factory=dict)
    facts: t.Mapping[str, ImageFacts] = field(default_factory=dict)
    observe: float = 10.0
    seen: t.Sequence[t.Mapping[str, t.Any]] = ()


@dataclass(frozen=True)
class DiskPlan:
    """A disk and the volume that is made for it; ``key`` is the pool as the request names it."""

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
class Job:
    """One VM of the batch and what becomes of it."""

    domain: Domain
    disks: list[DiskPlan] = field(default_factory=list)
    seed: DiskPlan | None = None
    uuid: str | None = None
    host_key: str | None = None  # public half of the key that its seed gives it
    made: dict[str, str] = field(default_factory=dict)  # path -> which file was made there
    seeded: dict[str, t.Any] | None = None  # how it was seeded, and what its image has
    # new; mine: claimed by this run before; half: another run's, to be finished; same; failed
    state: str = "new"
    msg: str | None = None
    steps: list[str] = field(default_factory=list)
    whole: bool = False  # half, but nothing is left to do than to start it
    changed: bool = False
    refused: bool = False

    def fail(self, msg: str, *, refused: bool = False) -> None:
        """``refused``: another hypervisor, or another moment, may be better."""
        self.state, self.msg, self.refused = "failed", msg, refused

    @property
    def volumes(self) -> list[DiskPlan]:
        """All that is made for it, in the order of making."""
        return [*self.disks, *([self.seed] if self.seed else [])]


def require_bases(job: Job, home: str) -> None:
    """Raise PlanRefused if an image that a disk is to be made of is not here.

    Nobody asked for the empty disk that would be made then.
    """
    for plan in job.disks:
        image = plan.disk.image
        if image is not None and plan.base is None:
            raise PlanRefused(
                f"disk {plan.disk.name!r}: its image {image.value} is not among the base images of"
                f" {home}, though it was a moment ago or libvirt still lists it: it was removed, or"
                " its folder is not mounted. Run this again, which brings it"
            )


class Host:
    """This hypervisor as creation sees it, read once per call."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.settings = settings
        self.capabilities = host_info.capabilities(
            connection.call("read capabilities", connection.raw.getCapabilities)
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
        """The pool, or the one that would be made (``raw`` None)."""
        if name not in self.pools:
            path = self.settings.pool_paths.get(name)
            found = storage.find_pool(self.connection, name, path)
            if found is None and path is None:
                known = ", ".join(str(raw.name()) for raw in list_pools(self.connection)) or "none"
                raise PlanRefused(f"no pool {name!r} on {self.settings.home}; there are: {known}")
            self.pools[name] = found or storage.Pool(name, str(path))
        return self.pools[name]


def prepare(host: Host, domains: t.Sequence[Domain]) -> list[Job]:
    """A job for each VM; those with problems are failed, with every problem in ``msg``."""
    jobs = [Job(domain) for domain in domains]
    for job in jobs:
        try:
            _existing(host, job)
            if job.state == "new":
                _plan(host, job)
        except Exception as error:
            job.fail(told(error))
    new = [job for job in jobs if job.state == "new"]
    if new:
        # what was claimed before needs no room: finishing it reads and imports less
        from . import creation_capacity

        creation_capacity.place(host, new)
    return jobs


def _existing(host: Host, job: Job) -> None:
    """Compare with a VM of that name that is defined here already."""
    raw = find_domain(host.connection, job.domain.name)
    if raw is None:
        return
    job.uuid = str(raw.UUIDString())
    kept = kept_metadata(host.connection, raw)
    if kept is None or kept.request is None:
        raise PlanRefused(
            f"a domain {job.domain.name!r} is defined on {host.settings.home} already and was not"
            " made by this collection; choose another name"
        )
    if kept.phase is not None:
        different = request.differences(kept.request, job.domain)
        if kept.phase not in ("creating", "starting"):
            raise PlanRefused(f"{job.domain.name!r} is in phase {kept.phase}; finish that first")
        if different:
            raise PlanRefused(
                f"{job.domain.name!r} is being created by another request"
                f" ({'; '.join(different)}); if that run is dead, remove the rest with virt_purge"
            )
        mine = kept.owner is not None and kept.owner.run == host.settings.run
        job.state = "mine" if mine else "half"
        job.whole = kept.phase == "starting"
        _plan(host, job, taken_ok=True)
        if job.whole:
            job.steps = ["start"]
        return
    from . import existing  # a VM that is new needs none of it

    different = existing.differences(host.connection, raw, kept, job.domain)
    if different:
        raise PlanRefused(
            f"{job.domain.name!r} exists on {host.settings.home} and differs:"
            f" {'; '.join(different)}. It is left as it is: change it with virsh, or the request"
        )
    job.state = "same"


def _open_screen(domain: Domain) -> list[str]:
    """What speaks against a screen that others than this hypervisor could reach."""
    console = domain.console
    if not daemon_consoles.is_open(console.type, console.listen):
        return []
    try:
        text = config_files.read(_QEMU_CONF) or ""
        daemon_consoles.require_tls(console.type, console.listen, text)
    except PlanRefused as error:
        return [str(error)]
    return []


def _plan(host: Host, job: Job, taken_ok: bool = False) -> None:
    domain, settings = job.domain, host.settings
    problems: list[str] = []
    sizes, wrong = demand.disk_sizes(domain, settings.facts)
    problems += [str(problem) for problem in wrong]
    for disk in domain.disks:
        if disk.device != "disk":
            continue
        try:
            pool = host.pool(disk.pool)
        except FleetVirtError as error:
            problems.append(f"disk {disk.name!r}: {error}")
            continue
        base = settings.images.get(disk.image.value) if disk.image else None
        name = domain.volume_name(disk)
        job.disks.append(DiskPlan(disk, disk.pool, pool, name, sizes[disk.name], base))
    written = domain.seed is not None and domain.seed.method == "offline"
    if written:
        from . import guest_disk

        guest_disk.require()
        seed_nocloud.require_keys()
    elif domain.seed is not None and job.disks:
        medium = Disk(name="seed", format="raw", device="cdrom", bus="scsi", readonly=True)
        first = job.disks[0]
        name = f"{domain.name}{SEED_SUFFIX}"
        job.seed = DiskPlan(medium, first.key, first.pool, name, 0, None)
        seed_nocloud.require_programs()
    problems += _open_screen(domain)
    machine = host.machine(domain)
    if machine is None:
        problems.append(
            f"machine type {domain.machine!r} is not known to qemu on {settings.home}"
            if domain.machine
            else f"{settings.home} has no machine type of the usual families"
        )
    else:
        found = machine_problems(domain, machine=machine, arch=host.arch)
        problems += [str(problem) for problem in found]
    for plan in [] if taken_ok else job.volumes:
        if storage.is_taken(host.connection, plan.pool, plan.volume):
            problems.append(
                f"{plan.path} is there already and is nobody's that this request knows;"
                " nothing is taken over: remove or rename it, or choose another name"
            )
    if problems:
        raise PlanRefused("; ".join(problems))
    if domain.seed is not None and job.disks:
        job.seeded = {**seed_nocloud.CHOSEN, "method": domain.seed.method}
    job.steps = [f"define {domain.name}"]
    for plan in job.volumes:
        if plan is job.seed and domain.seed is not None and domain.seed.method == "auto":
            job.steps.append(f"seed {domain.name}")  # which way, its disk tells
        else:
            job.steps.append(f"create {plan.pool.name}/{plan.volume}")
    if written:
        job.steps.append(f"write the seed into {domain.name}")
    if domain.autostart:
        job.steps.append("set autostart")
    if domain.start:
        job.steps.append("start")
