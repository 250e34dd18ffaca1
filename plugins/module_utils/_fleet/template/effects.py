# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``virt_template`` does on a hypervisor: disks of a VM become base images."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import typing as t
from dataclasses import dataclass, field

from ..._errors import DependencyMissing, PlanRefused, error_message
from ..base import durations
from ..base import effects_programs as programs
from ..base.effects_connection import Connection
from ..base.effects_lookup import read_metadata, require_domains
from ..base.metadata import metadata_problems
from ..base.results import GENERATED
from ..base.states import state_name
from ..base.xml_values import mib_up
from ..engine import effects_executor as executor
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine.effects_executor import Turns
from ..engine.steps import Step
from ..hosts import domain_info
from ..images import effects_base_file as base_file
from ..images import effects_base_images as images
from ..images import effects_digests as digests
from ..images.effects_base_images import BaseImage
from ..migration.read import job_of
from ..storage import encryption
from ..storage.effects_storage import Pool
from . import effects_identity as identity
from . import effects_running as running
from . import plan as template_plan
from .plan import Disk, Facts, Wanted

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.snapshot import DiskEntry
    from ..images.entries import BaseEntry

_LOCK_SECONDS = 3600.0


@dataclass(frozen=True)
class Options:
    """What the module's options request."""

    name: str
    image: str
    disk: str | None
    reset: bool
    quiesce: str
    base_pool: str
    base_path: str
    every: bool = False


def options(params: t.Mapping[str, t.Any]) -> Options:
    """Read the module's options."""
    return Options(
        name=params["name"],
        image=params["image"] or "",
        disk=params["disk"],
        reset=params["identity"] == "reset",
        quiesce=params["quiesce"],
        base_pool=params["base_pool"],
        base_path=params["base_path"],
        every=params["_every_disk"],
    )


@dataclass
class _Job:
    """One VM whose disks are copied, and the result."""

    connection: Connection
    dom: VirDomain
    facts: Facts
    wanted: Wanted
    pool: Pool
    existing: bool
    every: bool
    held: contextlib.ExitStack
    files: dict[str, base_file.NewFile] = field(default_factory=dict)
    made: dict[str, BaseImage] = field(default_factory=dict)
    consistency: str = "shutoff"

    def do(self, step: Step[Facts]) -> Turns:
        yield from ()
        _DO[step.kind](self, step)

    def undo(self, step: Step[Facts]) -> None:
        """Do nothing: files without final names are removed with the stack; an image may stay."""

    def finish(self) -> None:
        """Do nothing."""


def run(connection: Connection, asked: Options, *, check: bool) -> dict[str, object]:
    """Create the base images; the module's result."""
    images.require_local(connection)
    problem = template_plan.image_problem(asked.image)
    if problem:
        raise PlanRefused(problem)
    dom = require_domains(connection, [asked.name])[asked.name]
    place = (asked.base_pool, asked.base_path)
    existing = images.find_pool(connection, *place, check=check)
    pool = existing or Pool(asked.base_pool, asked.base_path.rstrip("/"))
    there = images.list_bases(connection, pool) if existing else []
    facts = _read(connection, dom, asked, pool, there)
    if facts.phase is not None and not check:
        lease.wait_for_others(connection, [asked.name])
        facts = _read(connection, dom, asked, pool, there)
    named = template_plan.image_names(asked.image, facts.disks)
    wanted = Wanted(named, asked.reset, asked.quiesce, asked.disk)
    plan = template_plan.plan(facts, wanted)
    if plan.refusals:
        raise PlanRefused("; ".join(plan.refusals))
    known = {image.name: image for image in there}
    with contextlib.ExitStack() as held:
        job = _Job(connection, dom, facts, wanted, pool, existing is not None, asked.every, held)
        if asked.quiesce != "never" and facts.agent:
            job.consistency = "quiesced"
        elif facts.active:
            job.consistency = "crash"
        if not plan.steps:
            job.made = {target: known[image] for target, image in named.items()}
        elif not check:
            work = executor.Run(plan.steps, job)
            executor.carry_out([work])
            if work.problem is not None:
                raise PlanRefused(error_message(work.problem)) from None
            before = {image.volume for image in there}
            if all(image.volume in before for image in job.made.values()):
                return _result(job, ())  # the same content exists under another name
        return _result(job, plan.steps)


def _read(
    connection: Connection,
    dom: VirDomain,
    asked: Options,
    pool: Pool,
    there: t.Sequence[BaseImage],
) -> Facts:
    name = str(dom.name())
    state = state_name(connection.call(f"read the state of {name}", dom.state, 0)[0])
    active = bool(connection.call(f"read the state of {name}", dom.isActive))
    text = connection.call(f"read domain {name}", dom.XMLDesc, 0)
    info, secrets = domain_info.parse(text, name), encryption.secrets_of(text)
    stored = read_metadata(connection, dom)
    disks = [
        _disk(connection, dom, entry, secrets.get(str(entry["target"])))
        for entry in info["disks"]
        if entry["device"] == "disk" and entry["target"]
    ]
    own = [disk for disk in disks if not disk.readonly]
    chosen = own if asked.every else own[:1]
    if asked.disk is not None:
        chosen = [disk for disk in disks if disk.target == asked.disk]
    dead = active and running.has_abandoned_job(connection, dom)
    left: list[str] = []
    if pool.handle is not None:
        left = images.file_work(f"list {pool.path}", lambda: base_file.abandoned(pool.path), 60.0)
    return Facts(
        name=name,
        state=state,
        active=active,
        phase=stored.phase if stored is not None else None,
        broken="; ".join(metadata_problems(name, stored)) or None,
        holder=owners.holder(stored.owner) if stored is not None else None,
        disks=tuple(chosen),
        targets=tuple(disk.target for disk in disks),
        present=frozenset(image.name for image in there),
        left=tuple(left),
        dead_backup=dead,
        job=job_of(connection, dom) if active and not dead else None,
        resettable=not asked.reset or identity.available(),
        agent=active and bool(info["agent"]),
    )


def _disk(connection: Connection, dom: VirDomain, entry: DiskEntry, secret: str | None) -> Disk:
    target, path = str(entry["target"]), entry["source"]
    local = path is not None and path.startswith("/") and entry["type"] in ("file", "block")
    size = 0
    if local:
        sizes = connection.call(f"read disk {target} of {dom.name()}", dom.blockInfo, target, 0)
        size = int(sizes[0])
    return Disk(
        target=target,
        path=path if local else None,
        format=entry["format"] or "raw",
        readonly=entry["readonly"],
        shareable=entry["shareable"],
        size=size,
        secret=secret,
    )


def _abort(job: _Job, _step: Step[Facts]) -> None:
    running.abort(job.connection, job.dom)


def _remove(job: _Job, _step: Step[Facts]) -> None:
    """Remove all abandoned files at once; another run may have removed some meanwhile."""
    with base_file.folder_lock(job.pool.path, _LOCK_SECONDS):
        images.file_work(
            f"tidy {job.pool.path}", functools.partial(base_file.remove_abandoned, job.pool.path)
        )


def _copy(job: _Job, _step: Step[Facts]) -> None:
    connection, disks = job.connection, job.facts.disks
    if not job.existing:
        job.pool = images.ensure_pool(connection, job.pool.name, job.pool.path)
    for disk in disks:
        new = base_file.new_file(job.pool.path, re.sub(r"[^a-z0-9]", "", disk.target) or "x")
        job.files[disk.target] = job.held.enter_context(new)
    if job.facts.active:
        pairs = [(disk, job.files[disk.target].path) for disk in disks]
        quiesce = job.wanted.quiesce if job.facts.agent else "never"
        frozen = running.copy(connection, job.dom, pairs, quiesce)
        job.consistency = "quiesced" if frozen else "crash"
        return
    for disk in disks:
        _convert(job.facts.name, disk, job.files[disk.target].path)


def _convert(name: str, disk: Disk, target: str) -> None:
    """Copy the disk of a VM that is shut off. QEMU's locks prevent its start meanwhile; the copying
    ends with this process."""
    done = programs.attempt(
        [
            *("setpriv", "--pdeathsig", "KILL", "qemu-img", "convert"),
            *("-f", str(disk.format), "-O", "qcow2", str(disk.path), target),
        ],
        seconds=durations.transfer(disk.size),
    )
    if done is None:
        raise DependencyMissing("setpriv is not installed; install the package util-linux")
    if done.status:
        hint = ""
        if "lock" in done.error_text:
            hint = "; it is in use, perhaps by the VM, started meanwhile: run this again"
        raise PlanRefused(
            f"disk {disk.target} of {name!r} could not be copied: {done.error_text[-500:]}{hint}"
        )


def _reset(job: _Job, _step: Step[Facts]) -> None:
    identity.reset([(new.path, "qcow2") for new in job.files.values()])


def _publish(job: _Job, step: Step[Facts]) -> None:
    target = str(step.payload)
    new, name = job.files[target], job.wanted.images[target]

    def work() -> BaseImage:
        if not os.path.samestat(os.fstat(new.descriptor), os.stat(new.path)):
            raise PlanRefused(f"{new.path} was replaced meanwhile; run this again")
        os.fchown(new.descriptor, 0, 0)  # libvirt gave it to its QEMU
        digest = digests.sha256(new.descriptor)
        with base_file.folder_lock(job.pool.path, _LOCK_SECONDS):
            # a template keeps the name that its user gave it, whatever else has its content
            volume = None if job.every else images.base_volume_name(name, digest, "qcow2")
            return images.publish(job.connection, job.pool, new, name, digest, volume=volume)

    base = images.file_work(f"make base image {name}", work)
    images.settle(job.connection, job.pool, base)
    job.made[target] = base


_DO: t.Mapping[str, t.Callable[[_Job, Step[Facts]], None]] = {
    "abort": _abort,
    "remove": _remove,
    "copy": _copy,
    "reset": _reset,
    "publish": _publish,
}


def _result(job: _Job, steps: t.Sequence[Step[Facts]]) -> dict[str, object]:
    bases = [
        {
            "target": disk.target,
            **_entry(job.pool, job.wanted.images[disk.target], disk, job.made.get(disk.target)),
        }
        for disk in job.facts.disks
    ]
    result: dict[str, object] = {
        "changed": bool(steps),
        "vms": [
            {
                "name": job.facts.name,
                "changed": bool(steps),
                "steps": [step.text for step in steps],
                "consistency": job.consistency if steps else None,
                "failed": False,
                "msg": None,
            }
        ],
        "image": bases[0] if bases else None,
        "images": bases,
    }
    if steps:
        lines = "".join(f"base image {image['volume']}\n" for image in bases)
        result["diff"] = {"before": "", "after": lines}
    return result


def _entry(pool: Pool, name: str, disk: Disk, base: BaseImage | None) -> BaseEntry:
    if base is None:
        return {
            "name": name,
            "digest": GENERATED,
            "format": "qcow2",
            "pool": pool.name,
            "volume": GENERATED,
            "path": GENERATED,
            "size_mib": mib_up(disk.size),
        }
    return images.described(pool, base)
