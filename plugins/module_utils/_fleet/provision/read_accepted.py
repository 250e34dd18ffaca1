# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt itself, or the cell, would refuse of a change, asked before anything is changed.

libvirt turns a definition into QEMU's command line without defining or starting anything
(virConnectDomainXMLToNative), with the checks that it makes of a definition.
"""

from __future__ import annotations

import typing as t

from ... import _libvirt
from ..._errors import LibvirtFailure, PlanRefused
from ..engine.steps import Plan, predict
from ..spec import difference
from ..storage import effects_storage as storage
from ..storage import read_paths as paths
from ..storage import read_pools as pools
from ..storage import storage_info

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain, VirStoragePool, VirStorageVol
    from ..base.effects_connection import Connection
    from ..base.metadata import Metadata
    from ..spec.domain import Domain
    from .plan import ChangeFacts

# Others are about the hypervisor's condition (a secret, a file), not about the definition
_OF_DEFINITION = (
    _libvirt.ERR_INTERNAL_ERROR,
    _libvirt.ERR_INVALID_ARG,
    _libvirt.ERR_XML_ERROR,
    _libvirt.ERR_CONFIG_UNSUPPORTED,
)
_FOLDERS = ("dir", "fs", "netfs")
_GROWN_BY_LIBVIRT = (*_FOLDERS, "vstorage", "rbd", "gluster")


def refusal(connection: Connection, name: str, before: str, after: str) -> str | None:
    """Why libvirt refuses the definition ``after``, None if it does not.

    What it says of the definition ``before`` as well is not due to the change.
    """
    problem = _problem(connection, name, after)
    if problem is None or problem == _problem(connection, name, before):
        return None
    return (
        f"libvirt refuses the resulting definition of {name!r}: {problem}. If that is about a"
        " setting that was not requested, request it too, or change it with virsh edit"
    )


def by_cell(
    connection: Connection,
    dom: VirDomain,
    facts: ChangeFacts,
    plan: Plan[ChangeFacts],
    bases: t.Sequence[str],
) -> Plan[ChangeFacts]:
    """The plan; refused if it makes, of a VM that is or would be one of a cell, what none is.
    ``bases`` are the images of new disks."""
    if not plan.steps:
        return plan
    after = predict(facts, plan.steps)
    if not after.metadata.in_cell:
        return plan
    from ..cell import read_requirements  # few VMs are of a cell

    snapshots = connection.call(f"count the snapshots of {facts.name}", dom.listAllSnapshots, 0)
    problem = read_requirements.problem(
        *(connection, facts.name, after.inactive),
        bases=bases,
        snapshots=len(snapshots),
        autostart=after.autostart,
    )
    return plan if problem is None else Plan(refusals=(problem,))


def _problem(connection: Connection, name: str, xml: str) -> str | None:
    action, convert = (
        f"look whether libvirt accepts the definition of {name}",
        connection.conn.domainXMLToNative,
    )
    try:
        connection.call(action, convert, "qemu-argv", xml, 0)
    except LibvirtFailure as error:
        known = error.code in _OF_DEFINITION
        return str(error).removeprefix(f"{action}: ") if known else None
    return None


def not_grown(
    connection: Connection, domain: Domain, xml: str, stored: Metadata, sizes: t.Mapping[str, int]
) -> dict[str, str]:
    """Why libvirt cannot grow disks of a VM that is off, by path, of those that are to grow."""
    reasons = {
        path: _not_grown(connection, path)
        for path in difference.growing(domain, xml, stored, sizes)
    }
    return {path: reason for path, reason in reasons.items() if reason is not None}


def volume_sizes(connection: Connection, paths: t.Iterable[str]) -> dict[str, int]:
    """Bytes by path of volumes that active pools list."""
    volumes = {path: _volume(connection, path) for path in paths}
    return {
        path: int(connection.call(f"read {path}", volume.info)[1])
        for path, volume in volumes.items()
        if volume is not None
    }


def _not_grown(connection: Connection, path: str) -> str | None:
    remedy = "start the VM, and run this again: the disk of a running VM is grown wherever it is"
    volume = _volume(connection, path)
    if volume is None:
        if _folder_pool(connection, path) is not None:
            return None
        return (
            f"{path} is in no active storage pool, without which libvirt grows no disk of a VM that"
            f" is off; {remedy}"
        )
    pool = connection.call(f"find the pool of {path}", volume.storagePoolLookupByVolume)
    kind = storage_info.pool(connection.call(f"read pool {pool.name()}", pool.XMLDesc, 0))["type"]
    if kind in _GROWN_BY_LIBVIRT:
        return None
    return f"libvirt grows no volume of pool {pool.name()}, which is of type {kind}"


def volume_to_grow(connection: Connection, path: str) -> VirStorageVol:
    """The volume at ``path``; a pool that does not list it yet reads its folder again."""
    volume = _volume(connection, path)
    pool = _folder_pool(connection, path) if volume is None else None
    if pool is not None:
        connection.call(f"refresh pool {pool.name()}", pool.refresh, 0)
        volume = _volume(connection, path)
    if volume is None:
        raise PlanRefused(f"{path} is in no active storage pool; run this again")
    return volume


def _volume(connection: Connection, path: str) -> VirStorageVol | None:
    """The volume at ``path`` that an active pool lists."""
    try:
        return storage.volume_at(connection, path)
    except LibvirtFailure as error:
        if error.code in (_libvirt.ERR_NO_STORAGE_VOL, _libvirt.ERR_NO_SUPPORT):
            return None
        raise


def _folder_pool(connection: Connection, path: str) -> VirStoragePool | None:
    """The active pool of files whose folder has ``path`` in it."""
    for pool in pools.list_pools(connection, active_only=True):
        info = storage_info.pool(connection.call(f"read pool {pool.name()}", pool.XMLDesc, 0))
        folder = str(info["path"] or "") or None
        look = f"look at {folder}"
        if info["type"] in _FOLDERS and connection.call(look, paths.is_in, path, folder):
            return pool
    return None
