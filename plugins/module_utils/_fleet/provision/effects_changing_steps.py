# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changing existing VMs: how each step is done and rolled back."""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
import typing as t

from ... import _libvirt, _lxml
from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused
from ..._libvirt import DOMAIN_AFFECT_LIVE
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import metadata, systems
from ..base.json_values import as_text, require_type
from ..engine import effects_backups as backups
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.effects_executor import Turns
from ..spec import settings
from ..spec.difference import Difference
from . import definition, remains
from . import effects_changing as changing
from . import effects_creation_volumes as creation_volumes
from . import plan as change_plan
from . import read_accepted as accepted
from . import read_schema as schema
from .actions import (
    AddVolume,
    Attach,
    ChangeAutostart,
    Console,
    Detach,
    Discard,
    EndChange,
    ForgetLeft,
    Growth,
    Limit,
    MarkChanging,
    Memory,
    OperatingSystem,
    Redefine,
    Removal,
    Text,
    Update,
    Vcpus,
)
from .definition import Device
from .effects_batch import require_bases
from .effects_changing import ChangeJob
from .plan import PHASE, Changed, ChangeFacts
from .plan import plan as plan_again

if t.TYPE_CHECKING:
    from ..._lxml import Element

_GUEST_SECONDS = 30.0  # in which a guest returns memory, or releases a device
_AGAIN = 5.0
_PAUSE = 0.25


def carry_out(jobs: t.Sequence[ChangeJob]) -> None:
    """Change the VMs."""
    for job in jobs:
        job.owner = owners.myself(job.host.settings.run)
    _ACTIONS.carry_out(jobs)
    for job in jobs:
        if not job.problem:
            job.altered = True
            facts = changing.reread(job)
            job.waits = job.waiting(facts)
            missing = change_plan.plan(facts, job.wanted, job.volumes).changes
            if missing:
                job.altered = len(missing) < len(job.changes)
                job.fail(_not_kept(job.name, missing))
            continue
        now = _reread(job) if job.done else job.facts
        left = None if now is None else _remains(job, now)
        marked = now is not None and now.metadata.phase == PHASE
        job.altered = left is None or bool(left)
        job.fail(remains.message(job.problem, left, marked, job.remaining))


def _not_kept(name: str, missing: t.Sequence[Changed]) -> str:
    """What was requested, and what there is although every step was carried out.

    libvirt may accept a definition and keep another value. What it rounds or leaves out is in the
    rows of the settings (``same``, ``absent``), so that the comparison of any run knows it.
    """
    lines = [f"{setting.path}: requested {setting.asked}, is {setting.real}" for setting in missing]
    return (
        f"libvirt accepted the changes of {name!r} but did not keep all of them:"
        f" {'; '.join(lines)}. Look at it with virsh dumpxml {name}, and request what libvirt keeps"
    )


def _reread(job: ChangeJob) -> ChangeFacts | None:
    """The VM as it is now; None if it cannot be read."""
    try:
        return changing.reread(job)
    except FleetVirtError:
        return None


def _remains(job: ChangeJob, facts: ChangeFacts) -> list[str]:
    """How the VM differs from what it was before this run."""
    paths = [setting.path for setting in job.changes]
    return remains.remains(job.facts, facts, job.wanted, paths)


# --- the steps ---


def _note(job: ChangeJob) -> None:
    """Become its owner, unless it was changed since the plan was made."""
    _require_bases(job)
    noted = job.step.effect(job.after).metadata
    noted = dataclasses.replace(noted, owner=job.owner)
    with owners.host_lock():
        stored = lookup.read_metadata(job.connection, job.dom)
        if stored != job.after.metadata or owners.is_alive(stored.owner):
            raise PlanRefused(f"another run is at work on {job.name!r}; try again")
        job.write(noted)
    job.held = True
    job.after = dataclasses.replace(job.after, metadata=noted)
    facts = changing.reread(job)
    facts = dataclasses.replace(facts, metadata=job.facts.metadata)
    replanned = plan_again(facts, job.wanted, job.volumes)
    if replanned.changes != job.changes:
        raise PlanRefused(f"{job.name!r} was changed by others meanwhile; run this again")


def _require_bases(job: ChangeJob) -> None:
    """Require the images of new disks and of inserted media on this hypervisor."""
    paths = [one.path for one in job.changes]
    disks = [
        disk
        for disk in job.domain.disks
        if f"disks.{disk.name}" in paths or f"disks.{disk.name}.image" in paths
    ]
    require_bases(disks, job.host.settings)


def _forget(job: ChangeJob) -> None:
    """Release the VM, the last of all that is undone. What is still there says whether all is."""
    stored = lookup.read_metadata(job.connection, job.dom)
    if stored is None or stored.phase != PHASE or stored.owner != job.owner:
        return
    before = job.facts
    kept = before.metadata
    if job.done:
        facts = changing.reread(job)
        kept = remains.kept(stored, before, facts) if _remains(job, facts) else kept
    job.write(kept)


def _clear(job: ChangeJob, step: Discard) -> None:
    """Remove what a dead run created, and its record, which must not apply to a later file."""
    changing.remove(job, step.volume)
    stored = job.step.effect(job.after).metadata
    job.write(stored)
    job.after = dataclasses.replace(job.after, metadata=stored)


def _forget_left(job: ChangeJob, _step: ForgetLeft) -> None:
    """Its name may become another file's, which this record must not apply to."""
    stored = job.step.effect(job.after).metadata
    job.write(stored)
    job.after = dataclasses.replace(job.after, metadata=stored)


def _volume(job: ChangeJob, step: AddVolume) -> None:
    plan = job.plans[step.target]

    def noted(made: str) -> None:
        stored = job.after.metadata
        volumes = tuple(
            dataclasses.replace(one, made=made) if one.path == plan.path else one
            for one in stored.volumes
        )
        stored = dataclasses.replace(stored, volumes=volumes)
        job.write(stored)
        job.after = dataclasses.replace(job.after, metadata=stored)

    creation_volumes.add(job.host, plan, noted)


def _unmade(job: ChangeJob, step: AddVolume) -> None:
    path = job.plans[step.target].path
    for own in job.after.metadata.volumes:
        if own.path == path:
            changing.remove(job, own, verified_unused=True)


def _vcpus(job: ChangeJob, step: Vcpus) -> None:
    job.call("change the vCPUs", job.dom.setVcpusFlags, step.number, DOMAIN_AFFECT_LIVE)


def _vcpus_back(job: ChangeJob, _step: Vcpus) -> None:
    before = settings.Rows.vcpus.found(job.before())
    if settings.Rows.vcpus.found(job.live()) == before:
        return
    job.call("change the vCPUs", job.dom.setVcpusFlags, before, DOMAIN_AFFECT_LIVE)


def _memory(job: ChangeJob, step: Memory) -> Turns:
    """Set the memory, and wait until the guest has returned or taken it."""
    yield from _set_memory(job, step.mib)


def _set_memory(job: ChangeJob, wanted: int) -> Turns:
    job.call("change the memory", job.dom.setMemoryFlags, wanted * 1024, DOMAIN_AFFECT_LIVE)
    limit = time.monotonic() + _GUEST_SECONDS
    while (has := settings.Rows.memory.found(job.live())) != wanted:
        if time.monotonic() > limit:
            raise PlanRefused(
                f"the guest of {job.name!r} has {has} MiB after {_GUEST_SECONDS:g} seconds, not"
                f" {wanted}: it needs a memory balloon driver, and enough free memory; shut the VM"
                " down to change it for the next start"
            )
        yield


def _memory_back(job: ChangeJob, _step: Memory) -> None:
    before = require_type(settings.Rows.memory.found(job.before()), int)
    for _turn in _set_memory(job, before):
        time.sleep(_PAUSE)


def _text(job: ChangeJob, step: Text) -> None:
    which, domain = step.which, job.domain
    text = (domain.title if which == "title" else domain.description) or ""
    domains.set_text(job.connection, job.dom, which, text)


def _text_back(job: ChangeJob, step: Text) -> None:
    which = step.which
    text = job.before().findtext(which) or ""
    domains.set_text(job.connection, job.dom, which, text)


def _system(job: ChangeJob, _step: OperatingSystem) -> None:
    domains.set_system(job.connection, job.dom, job.domain.os)


def _system_back(job: ChangeJob, _step: OperatingSystem) -> None:
    domains.set_system(job.connection, job.dom, as_text(systems.OS.found(job.before())))


def _attach(job: ChangeJob, step: Attach) -> None:
    stored = job.following().metadata
    if stored != job.after.metadata:  # from here on the guest may write to its volume
        job.write(stored)
        job.after = dataclasses.replace(job.after, metadata=stored)
    element = definition.addition(job.live(), job.wanted, step.device)
    _plug(job, element)


def _plug(job: ChangeJob, element: Element) -> None:
    text = _lxml.tostring(element)
    job.call("attach a device", job.dom.attachDeviceFlags, text, DOMAIN_AFFECT_LIVE)


def _attach_back(job: ChangeJob, step: Attach) -> None:
    for _turn in _unplug(job, step.device):
        time.sleep(_PAUSE)


def _detach(job: ChangeJob, step: Detach) -> Turns:
    yield from _unplug(job, step.device)


def _unplug(job: ChangeJob, device: Device) -> Turns:
    """Detach the device; a guest releases it in its own time, and never while it boots."""
    limit, due = time.monotonic() + _GUEST_SECONDS, 0.0
    problem = ""
    while (element := job.located(job.live(), device)) is not None:
        now = time.monotonic()
        if now > limit:
            raise PlanRefused(
                f"the guest of {job.name!r} does not release {device.name!r}"
                f"{f' ({problem})' if problem else ''}: unmount what is on it, or shut the VM down"
            )
        if now >= due:
            due = now + _AGAIN
            try:
                text = _lxml.tostring(element)
                job.call("detach a device", job.dom.detachDeviceFlags, text, DOMAIN_AFFECT_LIVE)
            except LibvirtFailure as error:  # already requested, or the guest does not respond
                problem = str(error)
                if backups.is_at_work(str(job.uuid)):  # it holds the disk
                    backups.give_way(job.connection, str(job.uuid))
                    due = now
        yield


def _detach_back(job: ChangeJob, step: Detach) -> None:
    device = step.device
    if job.located(job.live(), device) is not None:  # the guest has not released it
        return
    element = job.located(job.before(), device)
    if element is not None:
        _plug(job, element)


def _rewritten(job: ChangeJob, device: Device) -> Element:
    """A device of the running VM, as it is to be."""
    element = job.located(job.live(), device)
    if element is None:
        raise PlanRefused(f"{device.name!r} of {job.name!r} is gone; run this again")
    element = copy.deepcopy(element)
    definition.rewrite(element, device, job.wanted)
    return element


def _update(job: ChangeJob, step: Update) -> None:
    _put(job, _rewritten(job, step.device), step.device)


def _limit(job: ChangeJob, step: Limit) -> None:
    """Change one of a disk's limits; libvirt is given all of them."""
    _put_limits(job, _rewritten(job, step.device))


def _put_limits(job: ChangeJob, element: Element) -> None:
    disk, limits = str(definition.attribute(element, "target", "dev")), definition.limits(element)
    job.call("limit a disk", job.dom.setBlockIoTune, disk, limits, DOMAIN_AFFECT_LIVE)


def _limit_back(job: ChangeJob, step: Limit) -> None:
    element = job.located(job.before(), step.device)
    if element is not None:
        _put_limits(job, element)


def _put(job: ChangeJob, element: Element, device: Device | None = None) -> None:
    flags = DOMAIN_AFFECT_LIVE
    if device is not None and device.kind == "disks":
        flags |= _libvirt.DOMAIN_DEVICE_MODIFY_FORCE  # a drive that the guest has locked
    job.call("change a device", job.dom.updateDeviceFlags, _lxml.tostring(element), flags)


def _update_back(job: ChangeJob, step: Update) -> None:
    element = job.located(job.before(), step.device)
    if element is not None:
        _put(job, element, step.device)


def _console(job: ChangeJob, step: Console) -> None:
    root = job.live()
    what = Difference(step.path, "", "")
    definition.mend(root, job.wanted, what, job.after.metadata)
    for element in root.findall("devices/graphics"):
        _put(job, element)


def _console_back(job: ChangeJob, _step: Console) -> None:
    for element in job.before().findall("devices/graphics"):
        _put(job, element)


def _autostart(job: ChangeJob) -> None:
    job.call("set autostart", job.dom.setAutostart, int(job.domain.autostart))


def _autostart_back(job: ChangeJob) -> None:
    job.call("set autostart", job.dom.setAutostart, int(job.facts.autostart))


def _define(job: ChangeJob) -> None:
    after = job.following()
    root = _lxml.parse(after.inactive, job.name)
    if job.facts.live is not None:
        definition.keep_addresses(root, job.live())
    metadata.put(root, after.metadata)
    text = _lxml.tostring(root)
    dom = domains.define(job.connection, f"define {job.name}", text)
    if job.domain.xml is not None:
        schema.require_kept(job.connection, dom, job.domain)


def _define_back(job: ChangeJob) -> None:
    """Restore the definition, but for what says that the VM is being changed, until all is undone,
    and what its volumes are."""
    root = _lxml.parse(job.facts.inactive, job.name)
    volumes = job.after.metadata.volumes
    stored = dataclasses.replace(job.facts.metadata, phase=PHASE, owner=job.owner, volumes=volumes)
    metadata.put(root, stored)
    domains.define(job.connection, f"define {job.name}", _lxml.tostring(root))


def _grow(job: ChangeJob, step: Growth) -> None:
    path, size = step.path, step.size
    if job.facts.live is not None and path in change_plan.disk_paths(job.live()):
        flags = _libvirt.DOMAIN_BLOCK_RESIZE_BYTES
        backups.give_way(job.connection, str(job.uuid))
        resize = functools.partial(job.call, "grow a disk", job.dom.blockResize, path, size, flags)
        backups.once_free(resize)
        return
    volume = accepted.volume_to_grow(job.connection, path)
    job.call("grow a disk", volume.resize, size, 0)


def _remove(job: ChangeJob, step: Removal) -> None:
    changing.remove(job, step.volume, proven=True)


def _release(job: ChangeJob) -> None:
    stored = job.following().metadata
    job.write(stored)
    job.held = False
    if job.facts.live is None:
        return
    try:
        job.write(stored, lookup.AFFECT_LIVE)
    except LibvirtFailure as error:
        if error.code != _libvirt.ERR_OPERATION_INVALID:  # a guest that has shut down meanwhile
            raise


_ACTIONS = (
    verb.Actions[ChangeJob](undo_failed=True)
    .simply(MarkChanging, _note, _forget)
    .on(Discard, _clear)
    .on(ForgetLeft, _forget_left)
    .on(AddVolume, _volume, _unmade)
    .on(Vcpus, _vcpus, _vcpus_back)
    .on(Memory, _memory, _memory_back)
    .on(Text, _text, _text_back)
    .on(OperatingSystem, _system, _system_back)
    .on(Attach, _attach, _attach_back)
    .on(Detach, _detach, _detach_back)
    .on(Update, _update, _update_back)
    .on(Limit, _limit, _limit_back)
    .on(Console, _console, _console_back)
    .simply(ChangeAutostart, _autostart, _autostart_back)
    .simply(Redefine, _define, _define_back)
    .on(Growth, _grow)
    .on(Removal, _remove)
    .simply(EndChange, _release)
)
