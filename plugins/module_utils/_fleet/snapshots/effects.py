# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking snapshots of domains, reverting to them, deleting them.

Each step is one call of libvirt, which locks the domain meanwhile; runs of ours wait for each
other. Nothing is written to the definition, as the snapshot would include it. libvirt finishes the
work of a run that dies; the next run waits for it.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ... import _libvirt, _lxml
from ..._errors import LibvirtFailure, PlanRefused
from ..._records import dataclass, field
from ..base import durations, metadata
from ..base import effects_definitions as domains
from ..base.effects_connection import Connection
from ..base.effects_lookup import list_domains, require_domains, selected_domains
from ..base.selected import Selected
from ..cards import read_leftovers
from ..engine import effects_backups as backups
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.steps import Plan, predict
from ..hosts import read_rolling
from . import effects_quiesce as quiesce
from . import external as files
from . import plan as plans
from . import read
from .facts import (
    ABSENT,
    EXTERNAL,
    INTERNAL,
    MADE_BY,
    MERGING,
    Delete,
    Mark,
    Record,
    Revert,
    SnapshotFacts,
    SnapshotLook,
    SnapshotRequest,
    SnapshotVm,
    Take,
    TakeFiles,
)

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain, VirDomainSnapshot
    from ..._lxml import Element

_CALL_SECONDS = 300.0  # what a call may take
_SECONDS_PER_GIB = 60.0  # of memory, in addition
_POLL = 0.25
_WHOLE = _libvirt.DOMAIN_XML_SECURE | _libvirt.DOMAIN_XML_INACTIVE


@dataclass
class _SnapshotJob(verb.ComparedJob[SnapshotFacts]):
    """One domain and the result for its snapshots."""

    dom: VirDomain
    wanted: SnapshotRequest
    reverted: int = field(default=0, init=False)
    unfrozen: bool = field(default=False, init=False)

    @property
    def seconds(self) -> float:
        merging = durations.transfer(read.merged_bytes(self.connection, self.facts))
        return _CALL_SECONDS + _SECONDS_PER_GIB * self.facts.memory_mib / 1024 + merging

    def finish(self) -> None:
        self.after = read.facts(self.connection, self.dom)
        if self.reverted:
            self.after = dataclasses.replace(self.after, reverted=self.reverted)

    def entry(self) -> verb.Shown:
        unfrozen = f"take disk-only snapshot {self.wanted.snapshot}, nothing frozen"
        steps = [
            unfrozen if self.unfrozen and isinstance(step.action, TakeFiles) else step.text
            for step in self.done
        ]
        return {
            "steps": steps if self.changed else [],
            "snapshots": [snapshot.name for snapshot in self.after.snapshots],
            "current": self.after.current,
            "not_tried": self.not_tried,
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return _shown(self.facts), _shown(self.after)

    def find(self, name: str) -> VirDomainSnapshot:
        """libvirt's object for the snapshot ``name``."""
        handle: VirDomainSnapshot = self.connection.call(
            f"look for snapshot {name} of {self.facts.name}",
            self.dom.snapshotLookupByName,
            name,
            0,
        )
        return handle


def look(
    connection: Connection, names: t.Sequence[str], groups: t.Sequence[str] = ()
) -> SnapshotLook:
    """The VMs of ``names``, names or patterns, and of ``groups`` that are here, without any all
    VMs, and their snapshots."""
    selected = Selected.of(names, groups)
    if selected:
        listed = [dom for dom, _stored in selected_domains(connection, selected)]
    else:
        listed = list_domains(connection)
    vms = sorted(
        (_seen(dom, read.facts(connection, dom)) for dom in listed), key=lambda vm: str(vm["name"])
    )
    return {"changed": False, "vms": vms, "warnings": read_leftovers.mark(connection, vms)}


def _seen(dom: VirDomain, facts: SnapshotFacts) -> SnapshotVm:
    return {
        **verb.of_domain(dom, facts.stored),
        "snapshots": [
            {
                "name": snapshot.name,
                "parent": snapshot.parent,
                "current": snapshot.name == facts.current,
                "created": snapshot.created,
                "state": snapshot.state,
                "kind": snapshot.kind,
                "managed": snapshot.ours,
            }
            for snapshot in facts.snapshots
        ],
    }


def run(
    connection: Connection, names: t.Sequence[str], wanted: SnapshotRequest, *, check: bool
) -> dict[str, object]:
    """Bring the snapshot of each domain to the wanted state; the module's result.

    Unless that is possible for every one of them, none is changed.
    """
    domains = require_domains(connection, names).values()

    def planned() -> list[_SnapshotJob]:
        for dom in () if check else domains:
            _wait_for_libvirt(connection, dom)
        return [_planned(connection, dom, wanted) for dom in domains]

    def work(jobs: t.Iterable[_SnapshotJob]) -> None:
        for job in jobs:
            _carry_out(job)

    return verb.run(connection, names, planned, work, check=check)


def _planned(connection: Connection, dom: VirDomain, wanted: SnapshotRequest) -> _SnapshotJob:
    facts = read.with_files(connection, read.facts(connection, dom), wanted)
    plan = plans.plan(facts, wanted)
    if not plan.refusals and not facts.active and predict(facts, plan.steps).active:
        refusals = read_rolling.refusals(connection, facts.name)
        plan = Plan(refusals=tuple(refusals)) if refusals else plan
    return _SnapshotJob(connection, facts.name, facts.uuid, facts, plan, dom, wanted)


def _wait_for_libvirt(connection: Connection, dom: VirDomain) -> None:
    """Wait until libvirt has finished a snapshot job of a run that has died.

    It reports of no other job that it has no statistics. A VM that is off seems to run meanwhile.
    """
    name, limit = str(dom.name()), time.monotonic() + _CALL_SECONDS
    while time.monotonic() < limit:
        try:
            connection.call(f"read the job of {name}", dom.jobInfo)
            return
        except LibvirtFailure as error:
            if error.code != _libvirt.ERR_INTERNAL_ERROR:
                return
        time.sleep(_POLL)


def _carry_out(job: _SnapshotJob) -> None:
    """Do the steps under the VM's lock, after planning them again."""
    try:
        with owners.host_lock(lease.PATIENCE, f"snapshots-{job.facts.uuid}"):
            _wait_for_libvirt(job.connection, job.dom)
            current = _planned(job.connection, job.dom, job.wanted)
            job.facts, job.after, job.plan = current.facts, current.after, current.plan
            job.problem = current.problem
            if job.problem:
                return
            if job.has_work:
                with backups.kept_away(job.connection, job.facts.uuid):
                    _ACTIONS.carry_out([job])
    except PlanRefused as error:  # the lock
        job.problem = str(error)
        return
    there = job.after.find(job.wanted.snapshot) is not None
    if not job.problem and there == (job.wanted.state == ABSENT):
        job.problem = (
            f"snapshot {job.wanted.snapshot} of {job.facts.name!r}"
            f" {'still exists' if there else 'does not exist'}, although every step succeeded; see"
            " libvirt's log on its hypervisor"
        )


def _take(job: _SnapshotJob, step: Take) -> None:
    name = step.name
    root = _lxml.new("domainsnapshot")
    _lxml.add(root, "name", {}, name)
    _lxml.add(root, "description", {}, MADE_BY)
    disks = _lxml.add(root, "disks")
    for disk in job.facts.disks:
        # explicit for each disk, so that no version of libvirt creates a file
        kind = INTERNAL if disk.taken else "no"
        _lxml.add(disks, "disk", {"name": disk.target, "snapshot": kind})
    _call(job, f"take snapshot {name}", job.dom.snapshotCreateXML, _lxml.tostring(root), 0)


def _take_files(job: _SnapshotJob, step: TakeFiles) -> None:
    name, paths = step.name, step.paths
    root = _lxml.new("domainsnapshot")
    _lxml.add(root, "name", {}, name)
    _lxml.add(root, "description", {}, MADE_BY)
    _lxml.add(root, "memory", {"snapshot": "no"})
    disks = _lxml.add(root, "disks")
    for disk in job.facts.disks:
        path = paths.get(disk.target)
        kind = EXTERNAL if path else "no"
        element = _lxml.add(disks, "disk", {"name": disk.target, "snapshot": kind})
        if path:
            element.set("type", "file")
            _lxml.add(element, "driver", {"type": "qcow2"})
            _lxml.add(element, "source", {"file": path})
    text = _lxml.tostring(root)
    flags = _libvirt.DOMAIN_SNAPSHOT_CREATE_DISK_ONLY | _libvirt.DOMAIN_SNAPSHOT_CREATE_ATOMIC

    def take() -> None:
        _call(job, f"take snapshot {name}", job.dom.snapshotCreateXML, text, flags)

    if step.freeze:
        frozen = quiesce.around(job.connection, job.dom, take, job.wanted.quiesce)
        job.unfrozen = not frozen
    else:
        take()


def _mark(job: _SnapshotJob, step: Mark) -> None:
    def marked(root: Element) -> None:
        for description in root.findall("description"):
            root.remove(description)
        description = _lxml.new("description")
        description.text = MADE_BY + MERGING
        root.insert(1, description)

    _change(job, step.name, step.text, marked)


def _revert(job: _SnapshotJob, step: Revert) -> None:
    action = f"revert to snapshot {step.name}"
    _call(job, action, job.dom.revertToSnapshot, job.find(step.name), 0)
    job.reverted += 1


def _delete(job: _SnapshotJob, step: Delete) -> None:
    name = step.name
    snapshot = job.facts.find(name)
    if snapshot is not None and snapshot.kind == EXTERNAL:
        _spell_out(job)
    _call(job, f"delete snapshot {name}", job.find(name).delete, 0)


def _spell_out(job: _SnapshotJob) -> None:
    """Write the disks' backing chains into the definition, as libvirt does when the VM runs.

    It merges by them: old versions do not detect them while the VM is off.
    """
    now = read.facts(job.connection, job.dom)
    if now.active or now.libvirt >= files.CAN_REVERT:
        return
    text = _call(job, "read the definition", job.dom.XMLDesc, _WHOLE)
    root = _lxml.parse(text, f"domain {now.name}")
    below = {disk.target: files.chain(now, disk) for disk in now.disks}
    changed = False
    for disk in root.iterfind("devices/disk"):
        target = disk.find("target")
        lower = below.get(str(target.get("dev"))) if target is not None else None
        if not lower or disk.find("backingStore") is not None:
            continue
        at = disk
        for image in lower:
            at = _lxml.add(at, "backingStore", {"type": "file"})
            _lxml.add(at, "format", {"type": str(image.format)})
            _lxml.add(at, "source", {"file": image.source})
        changed = True
    if changed:
        domains.define(job.connection, f"define {now.name}", _lxml.tostring(root))


def _record(job: _SnapshotJob, step: Record) -> None:
    def noted(root: Element) -> None:
        for tag in ("domain", "inactiveDomain"):
            for domain in root.iterfind(tag):
                metadata.put(domain, step.stored)

    _change(job, step.name, step.text, noted)


def _change(job: _SnapshotJob, name: str, what: str, change: t.Callable[[Element], None]) -> None:
    """Change the definition that libvirt stores with a snapshot."""
    secure = _libvirt.DOMAIN_SNAPSHOT_XML_SECURE
    text = _call(job, f"read snapshot {name}", job.find(name).getXMLDesc, secure)
    root = _lxml.parse(text, f"snapshot {name}")
    change(root)
    flags = _libvirt.DOMAIN_SNAPSHOT_CREATE_REDEFINE
    _call(job, what, job.dom.snapshotCreateXML, _lxml.tostring(root), flags)


Value = t.TypeVar("Value")


def _call(job: _SnapshotJob, action: str, function: t.Callable[..., Value], *args: object) -> Value:
    """A call that may take long, named in errors with its VM."""
    what = f"{action} of {job.facts.name}"
    return job.connection.call(what, function, *args, seconds=job.seconds)


def _shown(facts: SnapshotFacts) -> dict[str, object]:
    """The snapshot tree for the diff; ``reverted`` counts this run only."""
    tree = [{"name": snapshot.name, "parent": snapshot.parent} for snapshot in facts.snapshots]
    shown: dict[str, object] = {"current": facts.current, "snapshots": tree, "state": facts.state}
    return {**shown, "reverted": facts.reverted} if facts.reverted else shown


_ACTIONS = (
    verb.Actions[_SnapshotJob]()
    .on(Take, _take)
    .on(TakeFiles, _take_files)
    .on(Mark, _mark)
    .on(Revert, _revert)
    .on(Delete, _delete)
    .on(Record, _record)
)
