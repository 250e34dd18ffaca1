# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The systemd unit in which a VM is backed up, and how other verbs win over it.

libvirt has one job at a time for a domain, and would refuse these during a backup. A verb that has
marked the VM as being at work ends the backup (:func:`give_way`): none begins while the mark is
there. One without a mark holds a lock meanwhile (:func:`kept_away`). A backup looks for the mark
under that lock, in its unit, so whichever is first is seen by the other.
"""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..._errors import DependencyMissing, LibvirtFailure
from ..base import effects_systemd as systemd
from ..base.effects_connection import Connection
from . import effects_lease_holder as owners

_SECONDS = 60.0
_GONE_SECONDS = 15.0  # in which an aborted job is gone
_IN_USE = "is in use"  # QEMU's QERR_DEVICE_IN_USE
_BEGIN_SECONDS = 150.0  # in which a backup has begun, or failed to


def unit_of(uuid: str) -> str:
    """The name of the unit that backs up the VM ``uuid``."""
    return f"fleet-virt-backup-{uuid}.service"


def is_at_work(uuid: str) -> bool:
    """Whether a backup of the VM is at work, or ending; false where there is no systemd."""
    try:
        shown = systemd.systemctl("show", "--property=ActiveState", unit_of(uuid), may_fail=True)
    except DependencyMissing:
        return False
    return shown.strip().partition("=")[2] in ("active", "activating", "deactivating")


def give_way(connection: Connection, uuid: str) -> None:
    """End a backup of the VM, and its job in libvirt; there may be none."""
    if connection.local and is_at_work(uuid):
        systemd.stop(unit_of(uuid), _SECONDS)
        limit = time.monotonic() + _GONE_SECONDS
        with contextlib.suppress(LibvirtFailure):  # QEMU has the disks until there is no job
            dom = connection.call("find its domain", connection.conn.lookupByUUIDString, uuid)
            while time.monotonic() < limit:
                connection.call("read its backup", dom.backupGetXMLDesc, 0)
                time.sleep(0.1)


def once_free(work: t.Callable[[], object]) -> None:
    """Do what QEMU refuses while a disk is in use, as a backup's disks are for a moment after
    libvirt has no job any more."""
    limit = time.monotonic() + _GONE_SECONDS
    while True:
        try:
            work()
            return
        except LibvirtFailure as error:
            if _IN_USE not in str(error) or time.monotonic() > limit:
                raise
        time.sleep(0.2)


def beginning(uuid: str, seconds: float = _BEGIN_SECONDS) -> contextlib.AbstractContextManager[int]:
    """Context in which a backup of the VM begins; raises PlanRefused if others hold the lock."""
    return owners.host_lock(seconds, f"backup-begins-{uuid}")


@contextlib.contextmanager
def kept_away(connection: Connection, uuid: str) -> t.Iterator[None]:
    """Context in which no backup of the VM is at work, and none begins."""
    if not connection.local:  # backups are made on the hypervisor alone
        yield
        return
    with beginning(uuid):
        give_way(connection, uuid)
        yield
