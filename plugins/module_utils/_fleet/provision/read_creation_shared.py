# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: whether other hypervisors use a dead run's leftovers on shared storage.

They are read over libvirt's verified TLS, as for a migration.
"""

from __future__ import annotations

import posixpath
import typing as t

from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection, connect
from ..hosts import host_info
from ..images.options import peer_uris
from ..migration import read as migration_facts
from ..storage import storage_info
from ..storage.read_pools import list_pools

if t.TYPE_CHECKING:
    from ..hosts.fleet_seen import SeenHypervisor

_CALL_SECONDS = 5.0
_HOST_SECONDS = 30.0
_PARALLEL = 64


def unused(seen: t.Sequence[SeenHypervisor], home: str, files: t.Collection[str]) -> bool:
    """Whether no domain on a hypervisor of ``seen`` other than ``home`` references ``files``.

    Names are compared: the same storage may be mounted in different places. False if ``seen`` is
    empty, or a hypervisor does not respond.
    """
    outcomes = deadline.each(
        lambda host: _is_unused(host, files),
        [host for host in seen if host.name != home],
        seconds=_HOST_SECONDS,
        what=lambda host: f"read {host.name}",
        parallel=_PARALLEL,
        patience=1,
    )
    return bool(seen) and all(
        isinstance(outcome, deadline.Ok) and outcome.value for outcome in outcomes
    )


def _is_unused(host: SeenHypervisor, files: t.Collection[str]) -> bool:
    (uri,) = peer_uris([host.address]).values()
    with connect(uri, _CALL_SECONDS) as far:
        text = far.call("read capabilities", far.conn.getCapabilities)
        if host_info.capabilities(text)["uuid"] != host.uuid:
            return False
        defined = migration_facts.read_defined(far, _folders(far))
    named = {posixpath.basename(path) for domain in defined for path in domain.files}
    return named.isdisjoint(files)


def _folders(far: Connection) -> dict[str, str]:
    """The folders of that hypervisor's pools, by name."""
    folders = {}
    for pool in list_pools(far):
        info = storage_info.pool(far.call(f"read pool {pool.name()}", pool.XMLDesc, 0))
        folders[str(info["name"])] = str(info["path"] or "").rstrip("/")
    return folders
