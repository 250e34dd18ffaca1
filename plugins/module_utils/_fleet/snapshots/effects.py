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
from dataclasses import dataclass, field

from ... import _libvirt, _lxml
from ..._errors import LibvirtFailure, PlanRefused, error_message
from ..base import durations, metadata
from ..base import effects_definitions as domains
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, require_domains
from ..base.results import json_diff
from ..engine import effects_executor as executor
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine.effects_executor import Turns
from ..engine.steps import Plan, Step, predict
from . import effects_quiesce as quiesce
from . import external as files
from . import plan as plans
from . import read
from .facts import ABSENT, EXTERNAL, INTERNAL, MADE_BY, MERGING, Facts, Wanted

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain, VirDomainSnapshot
    from ..._lxml import Element
    from ..base.metadata import Metadata
    from ..base.results import Diff

_CALL_SECONDS = 300.0  # what a call may take
_SECONDS_PER_GIB = 60.0  # of memory, in addition
_POLL = 0.25
_WHOLE = _libvirt.DOMAIN_XML_SECURE | _libvirt.DOMAIN_XML_INACTIVE


@dataclass
class _Job:
    """One domain and the result for its snapshots."""

    connection: Connection
    dom: VirDomain
    wanted: Wanted
    before: Facts
    after: Facts
    plan: Plan[Facts] = field(default_factory=Plan)
    done: list[str] = field(default_factory=list)
    reverted: int = 0
    not_tried: bool = False
    problem: str = ""

    @property
    def seconds(self) -> float:
        merging = durations.transfer(read.merged_bytes(self.connection, self.before))
        return _CALL_SECONDS + _SECONDS_PER_GIB * self.before.memory_mib / 1024 + merging

    def do(self, step: Step[Facts]) -> Turns:
        yield from ()
        self.done.append(_DO[step.kind](self, step) or step.text)

    def undo(self, step: Step[Facts]) -> None:
        """Do nothing: a snapshot that was taken stays, and its record of the VM's own is true."""

    def finish(self) -> None:
        self.after = read.facts(self.connection, self.dom)
        if self.reverted:
            self.after = dataclasses.replace(self.after, reverted=self.reverted)

    def find(self, name: str) -> VirDomainSnapshot:
        """libvirt's object for the snapshot ``name``."""
        handle: VirDomainSnapshot = self.connection.call(
            f"look for snapshot {name} of {self.before.name}",
            self.dom.snapshotLookupByName,
            name,
            0,
        )
        return handle


def look(connection: Connection, names: t.Sequence[str]) -> dict[str, object]:
    """The VMs of ``names`` that are here, without names all VMs, and their snapshots."""
    if names:
        listed = [find_domain(connection, name) for name in dict.fromkeys(names)]
    else:
        listed = list(connection.call("list domains", connection.conn.listAllDomains, 0))
    vms = [_seen(read.facts(connection, dom)) for dom in listed if dom is not None]
    return {"changed": False, "vms": sorted(vms, key=lambda vm: str(vm["name"]))}


def _seen(facts: Facts) -> dict[str, object]:
    phase = facts.stored.phase if facts.stored is not None else None
    return {
        **{"name": facts.name, "uuid": facts.uuid, "phase": phase},
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
    connection: Connection, names: t.Sequence[str], wanted: Wanted, *, check: bool
) -> dict[str, object]:
    """Bring the snapshot of each domain to the wanted state; the module's result.

    Unless that is possible for every one of them, none is changed.
    """
    domains = require_domains(connection, names)
    if not check:
        lease.wait_for_others(connection, names)
        for dom in domains.values():
            _wait_for_libvirt(connection, dom)
    jobs = [_planned(connection, dom, wanted) for dom in domains.values()]
    if check:
        for job in jobs:
            job.after = predict(job.before, job.plan.steps)
            job.done = [step.text for step in job.plan.steps]
    if any(job.problem for job in jobs):
        for job in jobs:
            job.after, job.done = job.before, []
            job.not_tried = bool(job.plan.steps) and not job.problem
    elif not check:
        for job in jobs:
            _carry_out(job)
    return _result(jobs)


def _planned(connection: Connection, dom: VirDomain, wanted: Wanted) -> _Job:
    facts = read.with_files(connection, read.facts(connection, dom), wanted)
    plan = plans.plan(facts, wanted)
    return _Job(connection, dom, wanted, facts, facts, plan, problem="; ".join(plan.refusals))


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


def _carry_out(job: _Job) -> None:
    """Do the steps under the VM's lock, after planning them again."""
    try:
        with owners.host_lock(lease.PATIENCE, f"snapshots-{job.before.uuid}"):
            _wait_for_libvirt(job.connection, job.dom)
            current = _planned(job.connection, job.dom, job.wanted)
            job.before, job.after, job.plan = current.before, current.after, current.plan
            if current.problem:
                job.problem = current.problem
                return
            work = executor.Run(job.plan.steps, job)
            executor.carry_out([work])
            if work.problem is not None:
                job.problem = error_message(work.problem)
    except PlanRefused as error:  # the lock
        job.problem = str(error)
        return
    there = job.after.find(job.wanted.snapshot) is not None
    if not job.problem and there == (job.wanted.state == ABSENT):
        job.problem = (
            f"snapshot {job.wanted.snapshot} of {job.before.name!r}"
            f" {'still exists' if there else 'does not exist'}, although every step succeeded; see"
            " libvirt's log on its hypervisor"
        )


def _create(job: _Job, step: Step[Facts]) -> None:
    name = str(step.payload)
    root = _lxml.new("domainsnapshot")
    _lxml.add(root, "name", {}, name)
    _lxml.add(root, "description", {}, MADE_BY)
    disks = _lxml.add(root, "disks")
    for disk in job.before.disks:
        # explicit for each disk, so that no version of libvirt creates a file
        kind = INTERNAL if disk.taken else "no"
        _lxml.add(disks, "disk", {"name": disk.target, "snapshot": kind})
    _call(job, f"take snapshot {name}", job.dom.snapshotCreateXML, _lxml.tostring(root), 0)


def _create_files(job: _Job, step: Step[Facts]) -> str | None:
    payload = t.cast("tuple[str, t.Mapping[str, str], bool]", step.payload)
    name, paths, freeze = payload
    root = _lxml.new("domainsnapshot")
    _lxml.add(root, "name", {}, name)
    _lxml.add(root, "description", {}, MADE_BY)
    _lxml.add(root, "memory", {"snapshot": "no"})
    disks = _lxml.add(root, "disks")
    for disk in job.before.disks:
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

    if not freeze:
        take()
        return None
    frozen = quiesce.around(job.connection, job.dom, take, job.wanted.quiesce)
    return None if frozen else f"take disk-only snapshot {name}, nothing frozen"


def _mark(job: _Job, step: Step[Facts]) -> None:
    def marked(root: Element) -> None:
        for description in root.findall("description"):
            root.remove(description)
        description = _lxml.new("description")
        description.text = MADE_BY + MERGING
        root.insert(1, description)

    _change(job, str(step.payload), step.text, marked)


def _revert(job: _Job, step: Step[Facts]) -> None:
    name = str(step.payload)
    _call(job, f"revert to snapshot {name}", job.dom.revertToSnapshot, job.find(name), 0)
    job.reverted += 1


def _delete(job: _Job, step: Step[Facts]) -> None:
    name = str(step.payload)
    snapshot = job.before.find(name)
    if snapshot is not None and snapshot.kind == EXTERNAL:
        _spell_out(job)
    _call(job, f"delete snapshot {name}", job.find(name).delete, 0)


def _spell_out(job: _Job) -> None:
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


def _redefine(job: _Job, step: Step[Facts]) -> None:
    name, stored = t.cast("tuple[str, Metadata]", step.payload)

    def noted(root: Element) -> None:
        for tag in ("domain", "inactiveDomain"):
            for domain in root.iterfind(tag):
                metadata.put(domain, stored)

    _change(job, name, step.text, noted)


def _change(job: _Job, name: str, what: str, change: t.Callable[[Element], None]) -> None:
    """Change the definition that libvirt stores with a snapshot."""
    secure = _libvirt.DOMAIN_SNAPSHOT_XML_SECURE
    text = _call(job, f"read snapshot {name}", job.find(name).getXMLDesc, secure)
    root = _lxml.parse(text, f"snapshot {name}")
    change(root)
    flags = _libvirt.DOMAIN_SNAPSHOT_CREATE_REDEFINE
    _call(job, what, job.dom.snapshotCreateXML, _lxml.tostring(root), flags)


Value = t.TypeVar("Value")


def _call(job: _Job, action: str, function: t.Callable[..., Value], *args: object) -> Value:
    """A call that may take long, named in errors with its VM."""
    what = f"{action} of {job.before.name}"
    return job.connection.call(what, function, *args, seconds=job.seconds)


# How each kind of step is done
_DO: dict[str, t.Callable[[_Job, Step[Facts]], str | None]] = {
    "create": _create,
    "create_files": _create_files,
    "mark": _mark,
    "revert": _revert,
    "delete": _delete,
    "redefine": _redefine,
}


def _result(jobs: t.Sequence[_Job]) -> dict[str, object]:
    failed = [job for job in jobs if job.problem]
    vms = [
        {
            "name": job.before.name,
            "uuid": job.before.uuid,
            "changed": _changed(job),
            "steps": job.done if _changed(job) else [],
            "snapshots": [snapshot.name for snapshot in job.after.snapshots],
            "current": job.after.current,
            "failed": bool(job.problem),
            "not_tried": job.not_tried,
            "msg": job.problem or None,
        }
        for job in jobs
    ]
    result: dict[str, object] = {
        "changed": any(vm["changed"] for vm in vms),
        "vms": vms,
        "diff": [_diff(job) for job in jobs if _changed(job)],
    }
    if failed:
        result.update(failed=True, msg="; ".join(job.problem for job in failed))
    return result


def _shown(facts: Facts) -> dict[str, object]:
    """The snapshot tree for the diff; ``reverted`` counts this run only."""
    tree = [{"name": snapshot.name, "parent": snapshot.parent} for snapshot in facts.snapshots]
    shown: dict[str, object] = {"current": facts.current, "snapshots": tree, "state": facts.state}
    return {**shown, "reverted": facts.reverted} if facts.reverted else shown


def _changed(job: _Job) -> bool:
    return _shown(job.before) != _shown(job.after)


def _diff(job: _Job) -> Diff:
    return json_diff(job.before.name, _shown(job.before), _shown(job.after))
