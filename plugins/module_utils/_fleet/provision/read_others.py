# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: what the other hypervisors of the fleet have.

The hypervisor that creates reads them itself, over libvirt's verified TLS, as a migration does. If
the fleet is unchanged since its VMs were placed, claims aside, placement has seen all that could
conflict with the claims, and the controller need not check again.
"""

from __future__ import annotations

import contextlib
import posixpath
import typing as t

from ..._errors import FleetVirtError
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection, connect
from ..hosts import fleet_seen, host_info
from ..hosts import read_placement_facts as placement_facts
from ..images.options import peer_uris
from ..migration import read as migration_facts
from ..notes import note
from ..notes import read as read_notes
from ..storage import storage_info
from ..storage.read_pools import list_pools

if t.TYPE_CHECKING:
    from ..base.snapshot import PlacementEntry
    from ..hosts.fleet_seen import SeenHypervisor

# Slower ones are left to the controller
_CALL_SECONDS = 2.0
_HOST_SECONDS = 5.0
# For the files of a dead run, which the controller does not know of
_FILES_CALL_SECONDS = 5.0
_FILES_HOST_SECONDS = 30.0
_PARALLEL = 64


def unchanged(
    seen: t.Sequence[SeenHypervisor],
    home: str,
    facts: PlacementEntry,
    run: str,
    first: t.Callable[[Connection, SeenHypervisor], None],
) -> bool:
    """Whether every hypervisor of ``seen`` responds and has the same domains and claims as then.

    To be called once the claims of ``run`` exist; ``facts`` are those of this hypervisor, ``home``,
    read with the claims. ``first`` is called with each of the others before it is read. Also False
    if a hypervisor cannot be read, or not quickly.
    """
    here = [host for host in seen if host.name == home]
    own = fleet_seen.domains(facts["vms"], run)
    if len(here) != 1 or (here[0].uuid, here[0].domains) != (facts["uuid"], own):
        return False
    if _is_claimed(facts["notes"], run, here[0]):
        return False
    differing: list[str] = []

    def is_same(host: SeenHypervisor) -> bool:
        if not differing and not _is_same(host, run, first):
            differing.append(host.name)
        return not differing

    return _all(is_same, seen, home, _HOST_SECONDS)


def unused(seen: t.Sequence[SeenHypervisor], home: str, files: t.Collection[str]) -> bool:
    """Whether no domain on a hypervisor of ``seen`` other than ``home`` references ``files``, which
    a dead run left on shared storage.

    Names are compared: the same storage may be mounted in different places. False if ``seen`` is
    empty, or a hypervisor does not respond.
    """
    return bool(seen) and _all(
        lambda host: _is_unused(host, files), seen, home, _FILES_HOST_SECONDS
    )


def _all(
    is_so: t.Callable[[SeenHypervisor], bool],
    seen: t.Sequence[SeenHypervisor],
    home: str,
    seconds: float,
) -> bool:
    """Whether ``is_so`` is true of every hypervisor but ``home``, each of which is read in time."""
    outcomes = deadline.each(
        is_so,
        [host for host in seen if host.name != home],
        seconds=seconds,
        what=lambda host: f"read {host.name}",
        parallel=_PARALLEL,
        patience=1,
    )
    return all(isinstance(outcome, deadline.Ok) and outcome.value for outcome in outcomes)


@contextlib.contextmanager
def _expected(host: SeenHypervisor, seconds: float) -> t.Iterator[Connection | None]:
    """A connection to the hypervisor, None if the one at that address is another."""
    (uri,) = peer_uris([host.address]).values()
    with connect(uri, seconds) as far:
        text = far.call("read capabilities", far.conn.getCapabilities)
        yield far if host_info.capabilities(text)["uuid"] == host.uuid else None


def _is_claimed(held: t.Collection[str], run: str, host: SeenHypervisor) -> bool:
    """Whether it holds claims that are neither of ``run`` nor known."""
    return not {*note.claims_in(held, run)} <= {*host.claims, *host.lacks}


def _is_same(
    host: SeenHypervisor, run: str, first: t.Callable[[Connection, SeenHypervisor], None]
) -> bool:
    try:
        with _expected(host, _CALL_SECONDS) as far:
            if far is None:
                return False
            first(far, host)
            if _is_claimed(read_notes.held(far), run, host):
                return False
            return fleet_seen.domains(placement_facts.defined(far)) == host.domains
    except FleetVirtError:
        return False


def _is_unused(host: SeenHypervisor, files: t.Collection[str]) -> bool:
    with _expected(host, _FILES_CALL_SECONDS) as far:
        if far is None:
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
