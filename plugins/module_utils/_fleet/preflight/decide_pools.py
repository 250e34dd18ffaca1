# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the facts of the pools of files to findings."""

from __future__ import annotations

import typing as t

from ..base.findings import Finding
from ..storage import nfs_options
from .options import LockPeer

if t.TYPE_CHECKING:
    from .facts import ComparableFacts, FolderPool, LockTrial, PreflightFacts


def find(name: str, facts: PreflightFacts) -> list[Finding]:
    """The findings about the pools of files of hypervisor ``name``."""
    pools = facts.get("folder_pools") or ()
    findings = [
        Finding("pool_not_mounted", (name,), str(pool["absent"]))
        for pool in pools
        if pool["absent"]
    ]
    findings += [finding for pool in pools for finding in _mount(name, pool)]
    nfs = [pool["name"] for pool in pools if pool["mounted"] is not None]
    if nfs and facts.get("recovers_locks"):
        text = f"nfs.recover_lost_locks is on, with pools on NFS: {', '.join(nfs)}"
        findings.append(Finding("nfs_recovers_locks", (name,), text))
    findings += _locks(name, facts.get("locks") or ())
    return findings


def compare(facts: t.Mapping[str, PreflightFacts]) -> list[Finding]:
    """The findings about pools that some hypervisors declare shared, by their folders."""
    folders: dict[str, dict[str, FolderPool]] = {}
    for name, host_facts in facts.items():
        for pool in host_facts.get("folder_pools") or ():
            folders.setdefault(pool["path"], {})[name] = pool
    findings = []
    for path, pools in folders.items():
        declared = [name for name, pool in pools.items() if pool["shared"]]
        others = [name for name in pools if name not in declared]
        if declared and others:
            text = (
                f"the pool at {path} is declared shared on {', '.join(declared)}, and not on"
                f" {', '.join(others)}"
            )
            findings.append(Finding("pool_not_shared", tuple(others), text))
        by_id: dict[str, list[str]] = {}
        for name in declared:
            if not pools[name]["absent"]:
                by_id.setdefault(str(pools[name]["id"]), []).append(name)
        if len(by_id) > 1:
            listed = "; ".join(f"{key}: {', '.join(names)}" for key, names in by_id.items())
            text = (
                f"the pool at {path} is declared shared, and is not the same everywhere: {listed}"
            )
            hosts = tuple(name for names in by_id.values() for name in names)
            findings.append(Finding("pool_ids_differ", hosts, text))
    return findings


def lock_peers(
    own: str, facts: t.Mapping[str, ComparableFacts], address: t.Callable[[str], str]
) -> list[LockPeer]:
    """The pools in which hypervisor ``own`` tries a lock, each with the next hypervisor that has
    the same id, so that each holds one and each looks for one."""
    places: dict[str, dict[str, tuple[str, str]]] = {}
    for name, host_facts in facts.items():
        for pool in host_facts.get("folder_pools") or ():
            if pool["id"] and not pool["absent"]:
                places.setdefault(pool["id"], {})[name] = (pool["name"], pool["path"])
    peers = []
    for there in places.values():
        names = list(there)
        if own in there and len(names) > 1:
            peer = names[(names.index(own) + 1) % len(names)]
            pool_name, path = there[own]
            peers.append(LockPeer(pool_name, path, peer, address(peer), there[peer][1]))
    return peers


_OUTCOMES = {
    "unseen": (
        "pool_lock_unseen",
        "pool {pool}: {peer} does not see the lock that {name} holds, so both may run a VM on one"
        " disk",
    ),
    "invisible": (
        "pool_copied",
        "pool {pool} has the same id on {name} and {peer}, but a file made on {peer} does not"
        " appear on {name}",
    ),
    "untried": (
        "pool_lock_untried",
        "pool {pool}: whether {peer} sees locks of {name} could not be tried: {error}",
    ),
}


def _locks(name: str, trials: t.Iterable[LockTrial]) -> t.Iterator[Finding]:
    for trial in trials:
        if trial["outcome"] in _OUTCOMES:
            kind, text = _OUTCOMES[trial["outcome"]]
            yield Finding(kind, (name, trial["peer"]), text.format(name=name, **trial))


def _mount(name: str, pool: FolderPool) -> t.Iterator[Finding]:
    """What is wrong with the options of NFS; those of the mount count now, those of the definition
    the next time that the pool is started."""
    mounted = nfs_options.weaknesses(pool["mounted"] or ()) if pool["mounted"] is not None else []
    for weak in mounted:
        yield Finding(weak.id, (name,), f"pool {pool['name']} at {pool['path']}, {weak.text}")
    if pool["defined"] is None:
        return
    known = {weak.id for weak in mounted}
    for weak in nfs_options.weaknesses(pool["defined"]):
        if weak.id not in known:
            text = f"pool {pool['name']} at {pool['path']}, in its definition, {weak.text}"
            yield Finding(weak.id, (name,), text)
