# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changing existing VMs: how each step is done and rolled back."""

from __future__ import annotations

import copy
import dataclasses
import time
import typing as t

from ... import _libvirt, _lxml
from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused, error_message
from ..._libvirt import DOMAIN_AFFECT_LIVE
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import metadata, systems
from ..base.json_values import as_text, require_type
from ..engine import effects_executor as executor
from ..engine import effects_lease_holder as owners
from ..engine.effects_executor import Turns
from ..engine.steps import Step
from ..spec import settings
from ..spec.difference import Difference
from . import definition, remains
from . import effects_changing as changing
from . import effects_creation_volumes as creation_volumes
from . import plan as change_plan
from . import read_accepted as accepted
from . import read_reached as changing_reached
from .definition import Device
from .effects_batch import Host, ProvisionJob, require_bases
from .effects_changing import VmChange
from .pending import pending
from .plan import PHASE, ChangeFacts, Growth
from .plan import plan as plan_again

if t.TYPE_CHECKING:
    from ..._lxml import Element

_SECONDS = 300.0
_GUEST_SECONDS = 30.0  # in which a guest returns memory, or releases a device
_AGAIN = 5.0
_PAUSE = 0.25


class ChangeWork:
    """The steps of one VM."""

    def __init__(self, host: Host, job: ProvisionJob, change: VmChange, run: str) -> None:
        self.host, self.job, self.change, self.run = host, job, change, run
        self.dom, self.name = change.dom, change.domain.name
        self.original = change.facts
        self.facts = change.facts  # after the steps so far
        self.problems: list[str] = []  # of rolling back
        self.owner = owners.myself(run)
        self.held = self.begun = self.undoing = False

    def do(self, step: Step[ChangeFacts]) -> Turns:
        try:
            yield from _DO[step.kind](self, step)
        except BaseException:
            if not step.irreversible:
                self.undo(step)  # it may be done, or partly done
            raise
        self.facts = self.after(step)
        self.begun = True

    def after(self, step: Step[ChangeFacts]) -> ChangeFacts:
        """The facts after ``step``, with the owner and the created files, known to the run only."""
        before, after = self.facts.metadata, step.effect(self.facts)
        made = {one.path: one.made for one in before.volumes}
        volumes = tuple(
            dataclasses.replace(one, made=made.get(one.path, one.made))
            for one in after.metadata.volumes
        )
        owner = before.owner if after.metadata.phase is not None else None
        stored = dataclasses.replace(after.metadata, volumes=volumes, owner=owner)
        return dataclasses.replace(after, metadata=stored)

    def undo(self, step: Step[ChangeFacts]) -> None:
        action = _UNDO.get(step.kind)
        if action is None:
            return
        self.undoing = True
        try:
            action(self, step)
        except Exception as error:  # the other steps are to be undone nevertheless
            self.problems.append(f"could not roll back {step.text!r}: {error_message(error)}")

    def finish(self) -> None:
        """Release the VM, unless its steps were undone, which :func:`_forget` ends."""
        if not self.held or self.undoing:
            return
        stored = lookup.read_metadata(self.host.connection, self.dom)
        if (
            stored is not None
            and stored.phase == PHASE
            and stored.owner == self.facts.metadata.owner
        ):
            stored = dataclasses.replace(stored, phase=None, owner=None)
            lookup.write_metadata(self.host.connection, self.dom, stored, lookup.AFFECT_CONFIG)

    # --- what several steps need ---

    def call(self, action: str, function: t.Callable[..., object], *arguments: object) -> None:
        self.host.connection.call(
            f"{action} of {self.name}", function, *arguments, seconds=_SECONDS
        )

    def live(self) -> Element:
        text = self.host.connection.call(
            f"read domain {self.name}", self.dom.XMLDesc, _libvirt.DOMAIN_XML_SECURE
        )
        return _lxml.parse(text, f"domain {self.name}")

    def before(self) -> Element:
        """The running VM as it was."""
        return _lxml.parse(self.original.live or "", self.name)

    def located(self, root: Element, device: Device) -> Element | None:
        stored = self.facts.metadata
        return definition.located(root, self.change.domain, device, stored)

    def remains(self, facts: ChangeFacts) -> list[str]:
        """How the VM differs from what it was before this run."""
        paths = [one.path for one in self.change.converged.changes]
        return remains.remains(self.original, facts, self.change.wanted, paths)

    def write(self, stored: metadata.Metadata, flags: int = lookup.AFFECT_CONFIG) -> None:
        lookup.write_metadata(self.host.connection, self.dom, stored, flags)


def carry_out(host: Host, jobs: t.Sequence[ProvisionJob], run: str) -> None:
    """Change the VMs of the jobs that are in state ``change``."""
    works = [ChangeWork(host, job, require_type(job.change, VmChange), run) for job in jobs]
    runs = [executor.Run(work.change.converged.plan.steps, work) for work in works]
    executor.carry_out(runs)
    for work, done in zip(works, runs):
        if done.problem is None:
            work.job.changed = True
            work.job.waits = _waits(work)
            missing = changing_reached.missed(host, work.change)
            if missing:
                work.job.changed = len(missing) < len(work.change.converged.changes)
                work.job.fail(changing_reached.message(work.name, missing))
            continue
        facts = _reread(work) if work.begun else work.original
        left = None if facts is None else work.remains(facts)
        marked = facts is not None and facts.metadata.phase == PHASE
        work.job.changed = left is None or bool(left)
        work.job.fail(remains.message(error_message(done.problem), left, marked, work.problems))


def _reread(work: ChangeWork) -> ChangeFacts | None:
    """The VM as it is now; None if it cannot be read."""
    try:
        return changing.reread(work.host, work.change)
    except FleetVirtError:
        return None


def _waits(work: ChangeWork) -> list[str]:
    facts = changing.reread(work.host, work.change)
    return pending(facts.inactive, facts.live, work.change.domain.xml)


# --- the steps ---


def _note(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    """Become its owner, unless it was changed since the plan was made."""
    yield from ()
    _require_bases(work)
    noted = step.effect(work.facts).metadata
    noted = dataclasses.replace(noted, owner=work.owner)
    with owners.host_lock():
        stored = lookup.read_metadata(work.host.connection, work.dom)
        if stored != work.facts.metadata or owners.is_alive(stored.owner):
            raise PlanRefused(f"another run is at work on {work.name!r}; try again")
        work.write(noted)
    work.held = True
    work.facts = dataclasses.replace(work.facts, metadata=noted)
    facts = changing.reread(work.host, work.change)
    facts = dataclasses.replace(facts, metadata=work.original.metadata)
    replanned = plan_again(facts, work.change.wanted, work.change.volumes)
    if replanned.changes != work.change.converged.changes:
        raise PlanRefused(f"{work.name!r} was changed by others meanwhile; run this again")


def _require_bases(work: ChangeWork) -> None:
    """Require the images of new disks and of inserted media on this hypervisor."""
    paths = [one.path for one in work.change.converged.changes]
    disks = tuple(
        disk
        for disk in work.change.domain.disks
        if f"disks.{disk.name}" in paths or f"disks.{disk.name}.image" in paths
    )
    part = dataclasses.replace(work.change.domain, disks=disks)
    require_bases(ProvisionJob(part), work.host.settings)


def _forget(work: ChangeWork, _step: Step[ChangeFacts]) -> None:
    """Release the VM, the last of all that is undone. What is still there says whether all is."""
    stored = lookup.read_metadata(work.host.connection, work.dom)
    if stored is None or stored.phase != PHASE or stored.owner != work.owner:
        return
    before = work.original
    kept = before.metadata
    if work.begun:
        facts = changing.reread(work.host, work.change)
        kept = remains.kept(stored, before, facts) if work.remains(facts) else kept
    work.write(kept)


def _clear(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    """Remove what a dead run created, and its record, which must not apply to a later file."""
    yield from ()
    changing.remove(work.host, work.dom, require_type(step.payload, metadata.OwnVolume))
    stored = step.effect(work.facts).metadata
    work.write(stored)
    work.facts = dataclasses.replace(work.facts, metadata=stored)


def _volume(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    plan = work.change.plans[str(step.payload)]

    def noted(made: str) -> None:
        stored = work.facts.metadata
        volumes = tuple(
            dataclasses.replace(one, made=made) if one.path == plan.path else one
            for one in stored.volumes
        )
        stored = dataclasses.replace(stored, volumes=volumes)
        work.write(stored)
        work.facts = dataclasses.replace(work.facts, metadata=stored)

    creation_volumes.add(work.host, plan, noted)


def _unmade(work: ChangeWork, step: Step[ChangeFacts]) -> None:
    path = work.change.plans[str(step.payload)].path
    for own in work.facts.metadata.volumes:
        if own.path == path:
            changing.remove(work.host, work.dom, own, verified_unused=True)


def _vcpus(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    work.call("change the vCPUs", work.dom.setVcpusFlags, step.payload, DOMAIN_AFFECT_LIVE)


def _vcpus_back(work: ChangeWork, _step: Step[ChangeFacts]) -> None:
    before = settings.Rows.vcpus.found(work.before())
    if settings.Rows.vcpus.found(work.live()) == before:
        return
    work.call("change the vCPUs", work.dom.setVcpusFlags, before, DOMAIN_AFFECT_LIVE)


def _memory(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    """Set the memory, and wait until the guest has returned or taken it."""
    yield from _set_memory(work, require_type(step.payload, int))


def _set_memory(work: ChangeWork, wanted: int) -> Turns:
    work.call("change the memory", work.dom.setMemoryFlags, wanted * 1024, DOMAIN_AFFECT_LIVE)
    limit = time.monotonic() + _GUEST_SECONDS
    while (has := settings.Rows.memory.found(work.live())) != wanted:
        if time.monotonic() > limit:
            raise PlanRefused(
                f"the guest of {work.name!r} has {has} MiB after {_GUEST_SECONDS:g} seconds, not"
                f" {wanted}: it needs a memory balloon driver, and enough free memory; shut the VM"
                " down to change it for the next start"
            )
        yield


def _memory_back(work: ChangeWork, _step: Step[ChangeFacts]) -> None:
    before = require_type(settings.Rows.memory.found(work.before()), int)
    for _turn in _set_memory(work, before):
        time.sleep(_PAUSE)


def _field(step: Step[ChangeFacts]) -> t.Literal["title", "description"]:
    return "title" if step.payload == "title" else "description"


def _text(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    which, domain = _field(step), work.change.domain
    text = (domain.title if which == "title" else domain.description) or ""
    domains.set_text(work.host.connection, work.dom, which, text)


def _text_back(work: ChangeWork, step: Step[ChangeFacts]) -> None:
    which = _field(step)
    text = work.before().findtext(which) or ""
    domains.set_text(work.host.connection, work.dom, which, text)


def _system(work: ChangeWork, _step: Step[ChangeFacts]) -> Turns:
    yield from ()
    domains.set_system(work.host.connection, work.dom, work.change.domain.os)


def _system_back(work: ChangeWork, _step: Step[ChangeFacts]) -> None:
    domains.set_system(work.host.connection, work.dom, as_text(systems.OS.found(work.before())))


def _attach(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    stored = work.after(step).metadata
    if stored != work.facts.metadata:  # from here on the guest may write to its volume
        work.write(stored)
        work.facts = dataclasses.replace(work.facts, metadata=stored)
    element = definition.addition(
        work.live(), work.change.wanted, require_type(step.payload, Device)
    )
    _plug(work, element)


def _plug(work: ChangeWork, element: Element) -> None:
    text = _lxml.tostring(element)
    work.call("attach a device", work.dom.attachDeviceFlags, text, DOMAIN_AFFECT_LIVE)


def _attach_back(work: ChangeWork, step: Step[ChangeFacts]) -> None:
    for _turn in _unplug(work, require_type(step.payload, Device)):
        time.sleep(_PAUSE)


def _detach(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from _unplug(work, require_type(step.payload, Device))


def _unplug(work: ChangeWork, device: Device) -> Turns:
    """Detach the device; a guest releases it in its own time, and never while it boots."""
    limit, due = time.monotonic() + _GUEST_SECONDS, 0.0
    problem = ""
    while (element := work.located(work.live(), device)) is not None:
        now = time.monotonic()
        if now > limit:
            raise PlanRefused(
                f"the guest of {work.name!r} does not release {device.name!r}"
                f"{f' ({problem})' if problem else ''}: unmount what is on it, or shut the VM down"
            )
        if now >= due:
            due = now + _AGAIN
            try:
                text = _lxml.tostring(element)
                work.call("detach a device", work.dom.detachDeviceFlags, text, DOMAIN_AFFECT_LIVE)
            except LibvirtFailure as error:  # already requested, or the guest does not respond
                problem = str(error)
        yield


def _detach_back(work: ChangeWork, step: Step[ChangeFacts]) -> None:
    device = require_type(step.payload, Device)
    if work.located(work.live(), device) is not None:  # the guest has not released it
        return
    element = work.located(work.before(), device)
    if element is not None:
        _plug(work, element)


def _rewritten(work: ChangeWork, step: Step[ChangeFacts]) -> Element:
    """A device of the running VM, as it is to be."""
    device = require_type(step.payload, Device)
    element = work.located(work.live(), device)
    if element is None:
        raise PlanRefused(f"{device.name!r} of {work.name!r} is gone; run this again")
    element = copy.deepcopy(element)
    definition.rewrite(element, device, work.change.wanted)
    return element


def _update(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    _put(work, _rewritten(work, step), require_type(step.payload, Device))


def _limit(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    """Change one of a disk's limits; libvirt is given all of them."""
    yield from ()
    _put_limits(work, _rewritten(work, step))


def _put_limits(work: ChangeWork, element: Element) -> None:
    disk, limits = str(definition.attribute(element, "target", "dev")), definition.limits(element)
    work.call("limit a disk", work.dom.setBlockIoTune, disk, limits, DOMAIN_AFFECT_LIVE)


def _limit_back(work: ChangeWork, step: Step[ChangeFacts]) -> None:
    device = require_type(step.payload, Device)
    element = work.located(work.before(), device)
    if element is not None:
        _put_limits(work, element)


def _put(work: ChangeWork, element: Element, device: Device | None = None) -> None:
    flags = DOMAIN_AFFECT_LIVE
    if device is not None and device.kind == "disks":
        flags |= _libvirt.DOMAIN_DEVICE_MODIFY_FORCE  # a drive that the guest has locked
    work.call("change a device", work.dom.updateDeviceFlags, _lxml.tostring(element), flags)


def _update_back(work: ChangeWork, step: Step[ChangeFacts]) -> None:
    device = require_type(step.payload, Device)
    element = work.located(work.before(), device)
    if element is not None:
        _put(work, element, device)


def _console(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    root = work.live()
    what = Difference(str(step.payload), "", "")
    definition.mend(root, work.change.wanted, what, work.facts.metadata)
    for element in root.findall("devices/graphics"):
        _put(work, element)


def _console_back(work: ChangeWork, _step: Step[ChangeFacts]) -> None:
    for element in work.before().findall("devices/graphics"):
        _put(work, element)


def _autostart(work: ChangeWork, _step: Step[ChangeFacts]) -> Turns:
    yield from ()
    work.call("set autostart", work.dom.setAutostart, int(work.change.domain.autostart))


def _autostart_back(work: ChangeWork, _step: Step[ChangeFacts]) -> None:
    work.call("set autostart", work.dom.setAutostart, int(work.original.autostart))


def _define(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    after = work.after(step)
    root = _lxml.parse(after.inactive, work.name)
    if work.original.live is not None:
        definition.keep_addresses(root, work.live())
    metadata.put(root, after.metadata)
    text = _lxml.tostring(root)
    dom = domains.define(work.host.connection, f"define {work.name}", text)
    if work.change.domain.xml is not None:
        from . import read_schema as schema  # few VMs have a fragment

        schema.require_kept(work.host.connection, dom, work.change.domain)


def _define_back(work: ChangeWork, _step: Step[ChangeFacts]) -> None:
    """Restore the definition, but for what says that the VM is being changed, until all is undone,
    and what its volumes are."""
    root = _lxml.parse(work.original.inactive, work.name)
    volumes = work.facts.metadata.volumes
    stored = dataclasses.replace(
        work.original.metadata, phase=PHASE, owner=work.owner, volumes=volumes
    )
    metadata.put(root, stored)
    domains.define(work.host.connection, f"define {work.name}", _lxml.tostring(root))


def _grow(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    path, size = require_type(step.payload, Growth)
    if work.original.live is not None and path in change_plan.disk_paths(work.live()):
        flags = _libvirt.DOMAIN_BLOCK_RESIZE_BYTES
        work.call("grow a disk", work.dom.blockResize, path, size, flags)
        return
    volume = accepted.volume_to_grow(work.host.connection, path)
    work.call("grow a disk", volume.resize, size, 0)


def _remove(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    changing.remove(
        work.host, work.dom, require_type(step.payload, metadata.OwnVolume), proven=True
    )


def _release(work: ChangeWork, step: Step[ChangeFacts]) -> Turns:
    yield from ()
    stored = work.after(step).metadata
    work.write(stored)
    work.held = False
    if work.original.live is None:
        return
    try:
        work.write(stored, lookup.AFFECT_LIVE)
    except LibvirtFailure as error:
        if error.code != _libvirt.ERR_OPERATION_INVALID:  # a guest that has shut down meanwhile
            raise


_DO: t.Mapping[str, t.Callable[[ChangeWork, Step[ChangeFacts]], Turns]] = {
    "note": _note,
    "clear": _clear,
    "volume": _volume,
    "vcpus": _vcpus,
    "memory": _memory,
    "text": _text,
    "os": _system,
    "attach": _attach,
    "detach": _detach,
    "update": _update,
    "limit": _limit,
    "console": _console,
    "autostart": _autostart,
    "define": _define,
    "grow": _grow,
    "remove": _remove,
    "release": _release,
}
_UNDO: t.Mapping[str, t.Callable[[ChangeWork, Step[ChangeFacts]], None]] = {
    "note": _forget,
    "volume": _unmade,
    "vcpus": _vcpus_back,
    "memory": _memory_back,
    "text": _text_back,
    "os": _system_back,
    "attach": _attach_back,
    "detach": _detach_back,
    "update": _update_back,
    "limit": _limit_back,
    "console": _console_back,
    "autostart": _autostart_back,
    "define": _define_back,
}
