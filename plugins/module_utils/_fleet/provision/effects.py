# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``virt_init`` does on a hypervisor, stage by stage, and what it returns."""

from __future__ import annotations

import json
import typing as t
import uuid

from ..._errors import SpecError
from ..base.effects_connection import Connection
from ..base.json_values import as_list, as_mapping, as_text
from ..engine import effects_lease_holder as owners
from ..engine.steps import predict
from ..images import effects_base_images as images
from ..images.source import ImageSource
from ..placement.demand import ImageFacts
from ..seed import effects_nocloud as seed_nocloud
from ..spec import request
from ..spec.domain import Domain
from ..spec.options import many
from ..storage import effects_storage as storage
from .effects_batch import BatchSettings, Host, OfAll, ProvisionJob, defaults_of
from .read_creation import prepare

if t.TYPE_CHECKING:
    from ..base.results import Diff
    from ..base.snapshot import PlacementEntry
    from ..hosts.fleet_seen import SeenHypervisor
    from .effects_changing import VmChange
    from .facts import MadeVm

# Claimed just now, or existing before: not of a dead run
_CLEAR = ("new", "same", "change")


class _Image(t.TypedDict):
    """An image that the controller knows, as far as disks are made of it."""

    name: str
    digest: str
    format: str
    virtual_bytes: int


class ProvisionOptions(OfAll):
    """The module's options, as Ansible's validation leaves them."""

    vms: list[dict[str, object]] | None
    base_pool: str
    pool_paths: dict[str, object]
    limits: dict[str, object]
    converge: bool
    _run: str | None
    _home: str
    _fleet_machine: str | None
    _fleet_seen: list[SeenHypervisor]
    _images: dict[str, _Image]
    _clone_of: str | None
    _leftovers: dict[str, object]
    _passwords: dict[str, str]
    _seeds: str


def read_options(params: ProvisionOptions) -> tuple[list[Domain], BatchSettings]:
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
    if problems:
        raise SpecError(problems)
    return domains, BatchSettings(
        run=params["_run"] or str(uuid.uuid4()),
        home=params["_home"],
        pool_paths={str(name): str(path) for name, path in params["pool_paths"].items()},
        base_pool=params["base_pool"],
        limits=params["limits"],
        converge=params["converge"],
        clone_of=params["_clone_of"],
        leftovers=as_text(params["_leftovers"].get("carried")),
        requested=tuple(map(str, as_list(params["_leftovers"].get("requested")))),
        machine=params["_fleet_machine"],
        seen=params["_fleet_seen"],
        facts={
            name: ImageFacts(
                image["name"], image["digest"], image["format"], image["virtual_bytes"]
            )
            for name, image in params["_images"].items()
        },
    )


class _Details(t.TypedDict, total=False):
    diff: list[Diff]
    failed: bool
    msg: str
    finished: bool
    host: PlacementEntry


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
    withdrawn = [] if check or not withdraw else _withdraw(connection, withdraw, settings.run)
    if not domains:
        return {"changed": bool(withdrawn), "vms": []}
    settings = bring_images(connection, domains, settings, check=check)
    facts = None
    host = Host(connection, settings)
    jobs = prepare(host, domains, check=check)
    finish = stage in ("all", "finish")
    if _failed(jobs):
        for job in jobs:
            job.not_tried = job.state not in ("same", "failed")
    elif check:
        _predict(jobs)
    else:
        facts, finish = _apply(host, jobs, stage)
    result = _result(jobs)
    result["changed"] = result["changed"] or bool(withdrawn)
    if stage == "claim":
        result["finished"] = finish
        if facts is not None and not finish:
            result["host"] = facts
    return result


def _apply(
    host: Host, jobs: t.Sequence[ProvisionJob], stage: str
) -> tuple[PlacementEntry | None, bool]:
    """Do a stage; the hypervisor with its claims, if any, and whether all is finished."""
    facts, finish = None, stage in ("all", "finish")
    if stage in ("all", "claim"):
        facts = _claim(host, jobs, stage)
        finish = finish or _may_stay(jobs, host.settings, facts)
    if finish:
        _finish(host, jobs)
        _change(host, jobs)
    return facts, finish


def _withdraw(connection: Connection, names: t.Sequence[str], run: str) -> list[str]:
    from . import effects_creation as creation

    return creation.withdraw(connection, names, run)


def _claim(host: Host, jobs: t.Sequence[ProvisionJob], stage: str) -> PlacementEntry | None:
    if not any(job.plan.steps for job in jobs):
        return None
    from . import effects_creation as creation  # VMs that are there need none of it

    run = host.settings.run
    owner = owners.reserved(run) if stage == "claim" else owners.myself(run)
    return creation.claim(host, jobs, owner)


def _finish(host: Host, jobs: t.Sequence[ProvisionJob]) -> None:
    if any(job.plan.steps for job in jobs):
        from . import effects_creation as creation

        creation.finish(host, jobs, host.settings.run)


def _change(host: Host, jobs: t.Sequence[ProvisionJob]) -> None:
    """Change the VMs that exist, then start those that are to run."""
    changes = [job for job in jobs if job.state == "change"]
    differing = [job for job in changes if t.cast("VmChange", job.change).converged.plan.steps]
    if differing:
        from . import effects_changing_steps as changing_steps  # few runs change something

        changing_steps.carry_out(host, differing, host.settings.run)
    starting = [
        job
        for job in changes
        if job.state != "failed" and job.power is not None and job.power.steps
    ]
    if starting:
        from . import effects_starting as start  # few runs find a VM that is off

        start.carry_out(host.connection, starting)


def _may_stay(
    jobs: t.Sequence[ProvisionJob], settings: BatchSettings, facts: PlacementEntry | None
) -> bool:
    """Whether the claims, if any, can be finished without the controller's checks."""
    if all(job.state == "same" for job in jobs):
        return True  # nothing to do
    if not settings.seen:
        return False  # other VMs of the batch go elsewhere: the controller decides
    if all(job.state in ("same", "change") for job in jobs):
        return True
    if facts is None or any(job.state not in _CLEAR for job in jobs):
        return False
    from . import read_creation_fleet as creation_fleet  # needed only where what was seen is told

    return creation_fleet.unchanged(settings.seen, settings.home, facts, settings.run)


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
                pool = storage.find_pool(connection, settings.base_pool, base_path)
                digest = facts[source.value].digest
                base = images.find_base(connection, pool, digest) if pool else None
                bases[source.value] = base
            else:
                seen = _take(connection, source, settings.base_pool, base_path, check=check)
                bases[source.value] = seen.base
                facts[source.value] = ImageFacts(
                    seen.name, seen.digest, seen.format, seen.virtual_bytes
                )
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


def _failed(jobs: t.Sequence[ProvisionJob]) -> bool:
    return any(job.state == "failed" for job in jobs)


def _predict(jobs: t.Sequence[ProvisionJob]) -> None:
    for job in jobs:
        job.changed = job.state == "change"
        if job.facts is not None:
            after = predict(job.facts, job.plan.steps)
            job.changed, job.uuid = after != job.facts, after.uuid


def _result(jobs: t.Sequence[ProvisionJob]) -> ProvisionResult:
    failed = [job for job in jobs if job.state == "failed"]
    vms: list[MadeVm] = [
        {
            "name": job.domain.name,
            "uuid": job.uuid,
            "existed": job.existed,
            "changed": job.changed,
            # also of one that is yet to be changed: they identify it
            "steps": job.steps if job.changed or job.state == "change" else [],
            "restart_required": bool(job.waits),
            "pending": job.waits,
            "state": _state(job),
            "started": job.changed and job.power is not None and bool(job.power.steps),
            "note": job.power.note or None if job.power is not None else None,
            "seed": job.seeded,
            "failed": job.state == "failed",
            "refused": job.refused,
            "not_tried": job.not_tried,
            "msg": job.msg,
        }
        for job in jobs
    ]
    result: ProvisionResult = {
        "changed": any(job.changed for job in jobs),
        "vms": vms,
        "diff": [_diff(job) for job in jobs if job.changed],
    }
    if failed:
        result["failed"] = True
        result["msg"] = "; ".join(f"{job.domain.name}: {job.msg}" for job in failed)
    return result


def _state(job: ProvisionJob) -> str | None:
    """The state that the VM is left in; in check mode, the one it would be left in."""
    if job.state == "failed":
        return None
    if job.power is not None:
        return job.power.after
    return "running" if job.domain.start or job.state == "complete" else "shutoff"


def _diff(job: ProvisionJob) -> Diff:
    if job.change is not None:
        before, after_it = t.cast("VmChange", job.change).diff()
        return {
            "before_header": job.domain.name,
            "after_header": job.domain.name,
            "before": json.dumps(before, indent=1, sort_keys=True) + "\n",
            "after": json.dumps(after_it, indent=1, sort_keys=True) + "\n",
        }
    after = {**request.as_plain(job.domain), "volumes": [plan.path for plan in job.volumes]}
    return {
        "before_header": job.domain.name,
        "after_header": job.domain.name,
        "before": "",
        "after": json.dumps(after, indent=1, sort_keys=True) + "\n",
    }
