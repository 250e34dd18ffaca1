# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``virt_init`` does on a hypervisor, stage by stage, and what it returns."""

from __future__ import annotations

import typing as t
import uuid

from ..._errors import FleetVirtError, SpecError, error_message
from ..._records import dataclass
from ..base.effects_connection import Connection
from ..base.json_values import as_mapping, as_mappings
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..images import effects_base_images as images
from ..images.facts import ImageFacts
from ..images.source import ImageSource
from ..notes import handed
from ..seed import effects_nocloud as seed_nocloud
from ..spec import fleet_cpu
from ..spec.domain import Domain
from ..spec.options import many
from ..state.plan import StateRequest
from ..storage import effects_storage as storage
from .effects_batch import AnyJob, BatchSettings, CreationJob, Host, OfAll, defaults_of
from .read_creation import prepare

if t.TYPE_CHECKING:
    from ..base.results import Diff
    from ..base.snapshot import PlacementEntry
    from .effects_changing import ChangeJob
    from .facts import MadeVm
    from .work import ProvisionWork


class ProvisionOptions(OfAll):
    """The module's options, as Ansible's validation leaves them."""

    vms: list[dict[str, object]] | None
    base_pool: str
    pool_paths: dict[str, object]
    limits: dict[str, object]
    converge: bool
    _passwords: dict[str, str]
    _seeds: str
    _notes: str


def read_options(
    params: ProvisionOptions, work: ProvisionWork
) -> tuple[list[Domain], BatchSettings]:
    """The validated batch and its settings; raises SpecError with every problem of every VM."""
    vms: list[dict[str, object]] = []
    seeds = seed_nocloud.unpacked(params["_seeds"])
    for given in params["vms"] or ():
        seed = seeds.get(str(given.get("name")))
        vm = given if seed is None else {**given, "seed": seed}
        password = params["_passwords"].get(str(vm.get("name")))
        console = vm.get("console")
        if password:
            console = {**as_mapping(console), "password": password}
        vms.append(vm if console is None else {**vm, "console": console})
    domains, problems = many(vms, defaults=defaults_of(params))
    cpu = fleet_cpu.read(params["fleet_cpu"], [])
    if problems:
        raise SpecError(problems)
    return domains, BatchSettings(
        run=work.claimed_by or str(uuid.uuid4()),
        home=work.home,
        pool_paths={str(name): str(path) for name, path in params["pool_paths"].items()},
        base_pool=params["base_pool"],
        limits=params["limits"],
        converge=params["converge"],
        clone_of=work.clone_of or None,
        leftovers=work.carried or None,
        requested=tuple(work.requested),
        machine=work.machine or None,
        fleet_cpu=cpu,
        seen=work.seen,
        readings=handed.unpacked(params["_notes"]).readings,
        compared_macs=handed.unpacked(params["_notes"]).macs,
        facts={name: ImageFacts.of(image.known) for name, image in work.images.items()},
    )


class _Details(t.TypedDict, total=False):
    diff: list[Diff]
    failed: bool
    msg: str
    finished: bool
    host: PlacementEntry
    added_macs: dict[str, list[str]]


class ProvisionResult(_Details):
    """The module's result; ``host`` is this hypervisor with its claims, which are not finished."""

    changed: bool
    vms: list[MadeVm]


def run(
    connection: Connection,
    domains: t.Sequence[Domain],
    settings: BatchSettings,
    *,
    stage: str,
    check: bool,
    withdraw: t.Sequence[str] = (),
) -> ProvisionResult:
    """Carry out ``stage`` (one of STAGES) for the batch; the module's result.

    Unless every VM of the batch is possible, none is changed. First, the run's claims on the names
    ``withdraw`` are withdrawn.
    """
    withdrawn = []
    if withdraw and not check:
        from . import effects_creation as creation

        withdrawn = creation.withdraw(connection, withdraw, settings.run)
    if not domains:
        return {"changed": bool(withdrawn), "vms": []}
    host = Host(connection, bring_images(connection, domains, settings, check=check))
    jobs = prepare(host, domains, check=check)
    done = _Done(finished=stage in ("all", "finish"))
    answer = verb.planned(jobs, lambda jobs: _apply(host, jobs, stage, done), check=check)
    result = t.cast("ProvisionResult", answer)
    result["changed"] = result["changed"] or bool(withdrawn)
    if stage == "claim":
        result["finished"] = done.finished
        if done.facts is not None and not done.finished:
            result["host"] = done.facts
        added = {job.name: job.added_macs for job in jobs if not job.problem and job.added_macs}
        if added and not done.finished:
            result["added_macs"] = added
    return result


@dataclass
class _Done:
    """The hypervisor with its claims, if any, and whether all is finished."""

    finished: bool
    facts: PlacementEntry | None = None


def _apply(host: Host, jobs: t.Sequence[AnyJob], stage: str, done: _Done) -> None:
    """Do a stage: create VMs, then change those that exist."""
    created = [job for job in jobs if isinstance(job, CreationJob)]
    if created:
        from . import effects_creation as creation  # VMs that are there need none of it
    run = host.settings.run
    if stage in ("all", "claim"):
        if stage == "claim" and any(job.added_macs for job in jobs):
            done.facts = _claim_macs(host, jobs)
        if created:
            owner = owners.reserved(run) if stage == "claim" else owners.myself(run)
            done.facts = creation.claim(host, created, owner) or done.facts
        done.finished = done.finished or _may_stay(jobs, host, done.facts)
    if done.finished:
        if created:
            creation.finish(created, run)
        if any(job.existed and job.has_work for job in jobs):
            _change(host.connection, jobs)


def _claim_macs(host: Host, jobs: t.Sequence[AnyJob]) -> PlacementEntry:
    """Claim the MAC addresses that existing VMs get; this hypervisor, read with these claims."""
    from . import effects_noting as noting  # few changes add a NIC
    from . import read_capacity as creation_capacity

    noting.claim_macs(host, {str(job.uuid): job.added_macs for job in jobs if job.added_macs})
    return creation_capacity.read(host)


def _change(connection: Connection, jobs: t.Sequence[AnyJob]) -> None:
    """Change the VMs that exist, then start those that are to run."""
    from . import effects_changing as changing  # few runs change something

    changes = [job for job in jobs if isinstance(job, changing.ChangeJob)]
    differing = [job for job in changes if job.plan.steps]
    if differing:
        from . import effects_changing_steps as changing_steps

        changing_steps.carry_out(differing)
    starting = [job for job in changes if job.power.steps and not job.problem]
    if starting:
        _start(connection, starting)


def _start(connection: Connection, jobs: t.Sequence[ChangeJob]) -> None:
    """Start the VMs as ``virt_state`` would, in their order of start; a failure is that of its job.

    What was changed of a VM before stays changed, and its next run starts it.
    """
    from ..state import effects as state  # few runs find a VM that is off

    wanted = StateRequest(state="running")
    try:
        result = state.run(connection, [job.name for job in jobs], wanted, check=False)
    except FleetVirtError as error:
        entries = {job.name: {"failed": True, "msg": error_message(error)} for job in jobs}
    else:
        entries = {str(entry["name"]): dict(entry) for entry in as_mappings(result["vms"])}
    for job in jobs:
        entry = entries[job.name]
        if entry["failed"]:
            changed = "; its settings are changed" if job.altered else ""
            job.fail(f"it was not started: {entry['msg']}{changed}")
        else:
            job.altered = job.altered or bool(entry["changed"])


def _may_stay(jobs: t.Sequence[AnyJob], host: Host, facts: PlacementEntry | None) -> bool:
    """Whether the claims, if any, can be finished without the controller's checks."""
    if not any(job.problem or job.has_work for job in jobs):
        return True  # nothing to do
    if not host.settings.seen:
        return False  # other VMs of the batch go elsewhere: the controller decides
    added = {str(job.uuid): job.added_macs for job in jobs if job.added_macs}
    if all(job.existed for job in jobs) and not added:
        return True
    if facts is None or any(job.problem or not _is_clear(job) for job in jobs):
        return False
    if any(not {*macs} <= {*host.settings.compared_macs} for macs in added.values()):
        return False  # its definition is another than when the others were read
    from . import effects_noting as noting  # needed only where what was seen is told

    return noting.claimed_everywhere(host, facts, added)


def _is_clear(job: AnyJob) -> bool:
    """Whether it was claimed just now, or existed before: it is not of a dead run."""
    return not (isinstance(job, CreationJob) and job.complete)


def bring_images(
    connection: Connection, domains: t.Sequence[Domain], settings: BatchSettings, *, check: bool
) -> BatchSettings:
    """The settings with a base image of this host for each image of the batch.

    Images of the controller are here already (the action plugin transferred them; in check mode
    only their facts may be known). Images that this host has or downloads become bases now.
    """
    base_path = settings.pool_paths.get(settings.base_pool, "")
    bases: dict[str, images.BaseImage | None] = dict(settings.images)
    facts: dict[str, ImageFacts] = dict(settings.facts)
    for domain in domains:
        for disk in domain.disks:
            source = disk.image
            if source is None or source.value in bases:
                continue
            if source.value in facts:
                pool = storage.find_pool(connection, settings.base_pool, base_path, to_make=True)
                digest = facts[source.value].digest
                bases[source.value] = (
                    images.find_base(connection, pool, digest) if pool and digest else None
                )
            else:
                seen = _take(connection, source, settings.base_pool, base_path, check=check)
                bases[source.value] = seen.base
                facts[source.value] = seen.facts
    return BatchSettings(**{**vars(settings), "images": bases, "facts": facts})


def _take(
    connection: Connection, source: ImageSource, base_pool: str, base_path: str, *, check: bool
) -> images.Examined:
    if source.kind == "url":
        from ..images import effects_url as image_url  # what downloads is not needed by the others

        return image_url.take_url(connection, base_pool, base_path, source, check=check)
    path = source.value
    if source.kind == "volume":
        path = images.volume_path(connection, *source.pool_and_volume)
    return images.take_path(connection, base_pool, base_path, path, check=check)
