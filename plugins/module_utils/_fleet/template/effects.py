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

from ..._errors import DependencyMissing, PlanRefused
from ..._records import dataclass, field
from ..base import durations
from ..base import effects_deadline as deadline
from ..base import effects_programs as programs
from ..base.effects_connection import Connection
from ..base.effects_lookup import require_domains
from ..base.results import GENERATED
from ..base.xml_values import mib_up
from ..engine import effects_verb as verb
from ..images import effects_base_file as base_file
from ..images import effects_base_images as images
from ..images import effects_digests as digests
from ..images.effects_base_images import BaseImage
from ..seed import effects_guest_disk as guest_disk
from ..seed import guest_files
from ..storage.base_name import BaseName
from ..storage.effects_storage import Pool
from . import effects_running as running
from . import plan as template_plan
from . import read
from .options import Options
from .plan import Abort, Copy, Publish, Remove, Reset, TemplateDisk, TemplateFacts, TemplateRequest

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..images.entries import BaseEntry

_LOCK_SECONDS = 3600.0
_RESET_SECONDS = 900.0  # half a minute without KVM; the first time the appliance is built as well


@dataclass
class _TemplateJob(verb.Job[TemplateFacts]):
    """One VM whose disks are copied, and the images that come of them by target.

    ``there`` are the base images before. Nothing is undone: files without final names are removed
    with ``held``; an image may stay.
    """

    changes_vm = False

    dom: VirDomain
    wanted: TemplateRequest
    pool: Pool
    there: t.Sequence[BaseImage]
    every: bool
    held: contextlib.ExitStack
    files: dict[str, base_file.NewFile] = field(default_factory=dict, init=False)
    made: dict[str, BaseImage] = field(default_factory=dict, init=False)
    consistency: str = field(default="shutoff", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.wanted.quiesce != "never" and self.facts.agent:
            self.consistency = "quiesced"
        elif self.facts.active:
            self.consistency = "crash"
        if not (self.plan.steps or self.problem):
            known = {image.name: image for image in self.there}
            self.made = {target: known[name] for target, name in self.wanted.images.items()}

    @property
    def changed(self) -> bool:
        before = {image.volume for image in self.there}
        new = not self.made or any(image.volume not in before for image in self.made.values())
        return bool(self.done) and new  # or the same content exists under another name

    def entry(self) -> verb.Shown:
        consistency = self.consistency if self.changed else None
        return {"steps": self.steps, "consistency": consistency}

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return {}, {"base images": [base["volume"] for base in self.bases()]}

    def bases(self) -> list[BaseEntry]:
        """The images, in check mode as far as they are known."""
        return [self._base(disk) for disk in self.facts.disks]

    def _base(self, disk: TemplateDisk) -> BaseEntry:
        base = self.made.get(disk.target)
        if base is not None:
            return images.described(self.pool, base)
        return {
            "name": self.wanted.images[disk.target],
            "digest": GENERATED,
            "format": "qcow2",
            "pool": self.pool.name,
            "volume": GENERATED,
            "path": GENERATED,
            "size_mib": mib_up(disk.size),
        }


def run(connection: Connection, asked: Options, *, check: bool) -> dict[str, object]:
    """Create the base images; the module's result."""
    images.require_local(connection)
    problem = template_plan.image_problem(asked.image)
    if problem:
        raise PlanRefused(problem)
    dom = require_domains(connection, [asked.name])[asked.name]
    with contextlib.ExitStack() as held:
        jobs: list[_TemplateJob] = []

        def planned() -> list[_TemplateJob]:
            jobs.append(_plan(connection, dom, asked, held, check=check))
            return jobs

        result = verb.run(connection, [asked.name], planned, _ACTIONS.carry_out, check=check)
    (job,) = jobs
    if job.problem:
        raise PlanRefused(job.problem)
    bases = [{"target": disk.target, **base} for disk, base in zip(job.facts.disks, job.bases())]
    return {**result, "image": bases[0] if bases else None, "images": bases}


def _plan(
    connection: Connection,
    dom: VirDomain,
    asked: Options,
    held: contextlib.ExitStack,
    *,
    check: bool,
) -> _TemplateJob:
    existing = images.find_pool(connection, asked.base_pool, asked.base_path, check=check)
    pool = existing or Pool(asked.base_pool, asked.base_path.rstrip("/"))
    there = images.list_bases(connection, pool) if existing else []
    facts = read.facts(connection, dom, asked, pool, there)
    named = template_plan.image_names(asked.image, facts.disks)
    wanted = TemplateRequest(named, asked.reset, asked.quiesce, asked.disk)
    plan = template_plan.plan(facts, wanted)
    uuid = str(dom.UUIDString())
    return _TemplateJob(
        connection, facts.name, uuid, facts, plan, dom, wanted, pool, there, asked.every, held
    )


def _abort(job: _TemplateJob, _step: Abort) -> None:
    running.abort(job.connection, job.dom)


def _remove(job: _TemplateJob, _step: Remove) -> None:
    """Remove all abandoned files at once; another run may have removed some meanwhile."""
    with base_file.folder_lock(job.pool.path, _LOCK_SECONDS):
        images.file_work(
            f"tidy {job.pool.path}", functools.partial(base_file.remove_abandoned, job.pool.path)
        )


def _copy(job: _TemplateJob, _step: Copy) -> None:
    connection, disks = job.connection, job.facts.disks
    if job.pool.handle is None:
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


def _convert(name: str, disk: TemplateDisk, target: str) -> None:
    """Copy the disk of a VM that is shut off. QEMU's locks prevent its start meanwhile; the copying
    ends with this process."""
    done = programs.attempt(
        programs.bound(
            [
                *("qemu-img", "convert", "-f", str(disk.format), "-O", "qcow2"),
                *(str(disk.path), target),
            ]
        ),
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


def _reset(job: _TemplateJob, _step: Reset) -> None:
    """Remove the identity of the system on these disks; raises PlanRefused without a system."""
    disks = [(new.path, "qcow2") for new in job.files.values()]

    def work() -> None:
        with guest_disk.opened(disks) as guest:
            guest.write(guest_files.anonymous(guest.look))

    deadline.call(work, seconds=_RESET_SECONDS, what="reset the identity in the copy")


def _publish(job: _TemplateJob, step: Publish) -> None:
    new, name = job.files[step.target], job.wanted.images[step.target]

    def work() -> BaseImage:
        if not os.path.samestat(os.fstat(new.descriptor), os.stat(new.path)):
            raise PlanRefused(f"{new.path} was replaced meanwhile; run this again")
        os.fchown(new.descriptor, 0, 0)  # libvirt gave it to its QEMU
        digest = digests.sha256(new.descriptor)
        with base_file.folder_lock(job.pool.path, _LOCK_SECONDS):
            # a template keeps the name that its user gave it, whatever else has its content
            volume = None if job.every else BaseName.of(name, digest, "qcow2")
            return images.publish(job.connection, job.pool, new, name, digest, volume=volume)

    base = images.file_work(f"make base image {name}", work)
    images.settle(job.connection, job.pool, base)
    job.made[step.target] = base


_ACTIONS = (
    verb.Actions[_TemplateJob]()
    .on(Abort, _abort)
    .on(Remove, _remove)
    .on(Copy, _copy)
    .on(Reset, _reset)
    .on(Publish, _publish)
)
