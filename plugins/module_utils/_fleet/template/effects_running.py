# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copying the disks of a running VM at one point in time (virDomainBackupBegin, push mode).

The guest keeps running; QEMU first copies what it is about to overwrite. The guest's file systems
are frozen only while the job starts. They thaw even if this process dies: a systemd unit that was
started before ensures it.
"""

from __future__ import annotations

import contextlib
import os
import time
import typing as t

from ... import _lxml
from ..._errors import DeadlineExceeded, FleetVirtError, LibvirtFailure, PlanRefused
from ..._libvirt import DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL, DOMAIN_JOB_STATS_COMPLETED
from ..base import durations
from ..base import effects_programs as programs
from ..base import read_caller as company
from ..base.effects_connection import Connection
from ..engine import effects_backups as backups
from ..engine import effects_lease_holder as owner
from ..images import effects_base_file as base_file
from ..snapshots import effects_quiesce as quiesce_guest

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from .plan import TemplateDisk

_POLL = 0.25
_BEGIN_SECONDS = 120.0
_NO_JOB = 0
# libvirt-domain.h: virDomainJobOperation
_BACKUP = 9


def copy(
    connection: Connection,
    dom: VirDomain,
    disks: t.Sequence[tuple[TemplateDisk, str]],
    quiesce: str,
) -> bool:
    """Copy each disk into the file given with it; whether the guest's file systems were frozen.

    Raises FleetVirtError; the VM keeps running then, and the files are unusable.
    """
    name = str(dom.name())
    for disk, path in disks:  # libvirt would create the files itself, but not reuse existing ones
        programs.run(["qemu-img", "create", "-q", "-f", "qcow2", path, str(disk.size)])
    text = _lxml.tostring(_request(disks))
    limit = durations.transfer(sum(disk.size for disk, _path in disks))
    try:
        with backups.kept_away(connection, str(dom.UUIDString())):
            frozen = _begin(connection, dom, text, quiesce)
        _wait(connection, dom, limit)
    except BaseException:
        with contextlib.suppress(FleetVirtError):  # the next run ends the job then
            if {path for _disk, path in disks} & set(_targets(connection, dom)):
                abort(connection, dom)
        raise
    done = connection.call(f"read the job of {name}", dom.jobStats, DOMAIN_JOB_STATS_COMPLETED)
    if done.get("operation") != _BACKUP or not done.get("success"):
        reason = done.get("errmsg") or "libvirt gives no reason; see the log of its QEMU"
        raise PlanRefused(
            f"the disks of {name!r} could not be copied: {reason}. The VM keeps running"
        )
    return frozen


def has_abandoned_job(connection: Connection, dom: VirDomain) -> bool:
    """Whether a backup job of a dead run of this collection is still active on the domain."""
    processes = [base_file.owner_of(os.path.basename(path)) for path in _targets(connection, dom)]
    known = [one for one in processes if one is not None]
    return bool(known) and not any(owner.is_alive(one) for one in known)


def abort(connection: Connection, dom: VirDomain) -> None:
    """Abort the backup job, and wait until it has ended."""
    name = str(dom.name())
    if not _targets(connection, dom):
        return
    connection.call(f"end the job of {name}", dom.abortJob, seconds=_BEGIN_SECONDS)
    limit = time.monotonic() + _BEGIN_SECONDS
    while _targets(connection, dom):
        if time.monotonic() > limit:
            raise PlanRefused(
                f"the backup job of {name!r} does not end; see virsh domjobinfo {name}"
            )
        time.sleep(_POLL)


def _request(disks: t.Sequence[tuple[TemplateDisk, str]]) -> Element:
    """The job's XML; disks that it does not name are not copied."""
    root = _lxml.new("domainbackup", {"mode": "push"})
    parts = _lxml.add(root, "disks")
    for disk, path in disks:
        element = _lxml.add(parts, "disk", {"name": disk.target, "backup": "yes", "type": "file"})
        _lxml.add(element, "driver", {"type": "qcow2"})
        _lxml.add(element, "target", {"file": path})
    return root


def _begin(connection: Connection, dom: VirDomain, text: str, quiesce: str) -> bool:
    """Start the job, with the guest's file systems frozen if possible; whether they were."""
    name = str(dom.name())

    def begin() -> None:
        connection.call(
            f"copy {name}",
            dom.backupBegin,
            text,
            None,
            DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL,
            seconds=_BEGIN_SECONDS,
        )

    return quiesce_guest.around(connection, dom, begin, quiesce)


def _targets(connection: Connection, dom: VirDomain) -> list[str]:
    """The files that the domain's backup job writes to; none without a job."""
    try:
        text = connection.call(f"read the backup of {dom.name()}", dom.backupGetXMLDesc, 0)
    except LibvirtFailure:
        return []  # none, or it was shut off
    root = _lxml.parse(text, f"backup of {dom.name()}")
    return [path for one in root.iterfind("disks/disk/target") if (path := one.get("file"))]


def _wait(connection: Connection, dom: VirDomain, seconds: float) -> None:
    limit = time.monotonic() + seconds
    name = str(dom.name())
    while True:
        company.require()
        if not connection.call(f"read the state of {name}", dom.isActive):
            raise PlanRefused(f"{name!r} was shut off while it was copied; run this again")
        kind = int(connection.call(f"read the job of {name}", dom.jobInfo)[0])
        if kind == _NO_JOB:
            return
        if time.monotonic() > limit:
            raise DeadlineExceeded(f"copy the disks of {name}", seconds)
        time.sleep(_POLL)
