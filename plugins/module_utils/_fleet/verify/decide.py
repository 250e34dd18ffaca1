# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide which backups are proven, and which hypervisor does so."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..backup import archives
from ..base import names
from ..placement import decide as placement
from ..placement.types import Policy, Request
from .facts import ProofEntry, ProofLook
from .options import NEWEST, SavedArchive

if t.TYPE_CHECKING:
    from ..backup.listing import Repository, SavedVm

_SHOWN = 10


def choose(
    repositories: t.Sequence[Repository],
    archive: str | None,
    which: str,
    sample: int | None,
) -> list[tuple[Repository, SavedVm]]:
    """The backups that are meant: the newest of each VM, all, or the one called ``archive``. Of
    these a ``sample``: those that were verified longest ago, or never. Raises PlanRefused."""
    there = [repository for repository in repositories if repository.all_vms]
    if archive is not None:
        if len(there) != 1:
            raise PlanRefused("virt_archive is of one VM; name it: -e vm_name=web1")
        chosen = [(there[0], vm) for vm in there[0].all_vms if vm.archive == archive]
        if not chosen:
            newest = ", ".join(vm.archive for vm in there[0].vms[-_SHOWN:])
            raise PlanRefused(f"{there[0].name} has no archive {archive!r}; the newest: {newest}")
        return chosen
    chosen = [
        (repository, vm)
        for repository in there
        for vm in (repository.vms[-1:] if which == NEWEST else repository.vms)
    ]
    if sample is not None:
        chosen = sorted(chosen, key=_verified)[:sample]
    return sorted(chosen, key=lambda pair: (pair[1].backup.vm, pair[0].uuid, pair[1].archive))


def _verified(pair: tuple[Repository, SavedVm]) -> tuple[str, str, str]:
    """When it was last; a proof that names the archive only may be of another of that name."""
    repository, vm = pair
    proof = vm.proof
    at = "" if proof is None or proof.archive_id is None else proof.at
    return (at, repository.uuid, vm.archive)


def is_expected(repository: Repository, backup: SavedVm) -> bool:
    """Whether the VM is known to answer: its agent did when this or an earlier backup was made, or
    one was proven."""
    proofs = [proof.proof for vm in repository.vms for proof in vm.proofs]
    until = [vm.backup for vm in repository.vms if vm.archive < backup.archive] + [backup.backup]
    return archives.FROZEN in (vm.consistency for vm in until) or archives.BOOTED in proofs


@dataclass
class ProofDecision:
    """``shares``: hypervisor to the names of the backups that it proves; ``unbootable`` says of
    those that are only read why they cannot boot."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    unbootable: dict[str, str] = field(default_factory=dict)


def decide(
    vms: t.Sequence[SavedArchive],
    answers: t.Mapping[str, ProofLook],
    hosts: t.Sequence[placement.PlacementHost],
    policy: Policy,
) -> ProofDecision:
    """Where each backup is proven; raises PlanRefused if no hypervisor answered.

    Those of one hypervisor are proven one after the other, so each needs room only for itself.
    """
    if not answers:
        raise PlanRefused("no hypervisor answered, so no backup can be proven")
    decision, fleet = ProofDecision(), placement.FleetLoad(hosts, policy)
    for vm in vms:
        entries = {
            host: entry
            for host, answer in answers.items()
            for entry in answer.get("entries") or ()
            if entry["name"] == vm.name
        }
        ranked, why = _ranked(entries, fleet)
        if not ranked:
            decision.unbootable[vm.name] = why or "no hypervisor that answered could tell"
            ranked = list(answers)
        # min takes the first, which is the best, of those with as little to do
        best = min(ranked, key=lambda host: len(decision.shares.get(host, ())))
        decision.shares.setdefault(best, []).append(vm.name)
    return decision


def _ranked(
    entries: t.Mapping[str, ProofEntry], fleet: placement.FleetLoad
) -> tuple[list[str], str]:
    """The hypervisors that can run it, best first, or why none can."""
    ranked: list[tuple[bool, float, str]] = []
    reasons: dict[str, list[str]] = {}
    for host, entry in entries.items():
        if entry.get("error") or entry["problems"]:
            reasons[host] = [str(entry.get("error"))] if entry.get("error") else entry["problems"]
            continue
        result = placement.rank(fleet, _request(entry))
        ranked += [(bool(r.broken), r.score, r.host) for r in result.ranking if r.host == host]
        reasons.update({r.host: [r.reason] for r in result.rejected if r.host == host})
    if ranked:
        return [host for _broken, _score, host in sorted(ranked)], ""
    common = set.intersection(*map(set, reasons.values())) if reasons else set()
    if common:  # what all say is said once
        return [], "; ".join(sorted(common))
    return [], "; ".join(f"{host}: {'; '.join(those)}" for host, those in sorted(reasons.items()))


def _request(entry: ProofEntry) -> Request:
    """What the VM needs while it is asked: no network, no rules, and no disk in any pool."""
    return Request(
        name=f"{names.PROOF}{entry['name']}",
        vcpus=entry["vcpus"],
        memory_mib=entry["memory_mib"],
        domain_type=entry["domain_type"],
        arch=entry["arch"],
    )
