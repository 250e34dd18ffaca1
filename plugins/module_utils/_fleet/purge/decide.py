# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where each domain is removed, or why it is not."""

from __future__ import annotations

import posixpath
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base.selected import Selected
from ..engine import located, proofs
from .facts import PurgeLook, PurgeVolume

Fleet = located.Fleet[PurgeLook]


@dataclass
class PurgeDecision:
    """Where each domain is removed, which are on no hypervisor, and which files must be checked on
    the others (``asked`` are their paths). ``silent`` as in :class:`located.Located`;
    ``unconfirmed`` says what a run needs besides what check mode was given."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    homes: dict[str, str] = field(default_factory=dict)  # file -> hypervisor of its domain
    silent: str = ""
    unconfirmed: str = ""


def decide(
    names: t.Sequence[str],
    seen: Fleet,
    hypervisors: t.Collection[str] = (),
    groups: t.Sequence[str] = (),
    only: str = "",
) -> PurgeDecision:
    """Where each VM of ``names``, names or patterns, and of ``groups`` is, only those on ``only``
    if one is named; raises PlanRefused with everything that is unproven."""
    vms_by_host = {host: answer.get("vms") or [] for host, answer in seen.answers.items()}
    selected = Selected.of(names, groups)
    where = located.select(selected, vms_by_host, seen.silent, hypervisors, only, whole=True)
    decision = PurgeDecision(absent=where.absent, silent=where.silent)
    problems = where.problems
    for name, (host, vm) in where.places.items():
        decision.shares.setdefault(host, []).append(name)
        for volume in vm["volumes"]:
            shared = _shared(volume, host, seen)
            missing = (
                proofs.missing("purge shared", seen.silent)
                if shared
                else proofs.missing("purge", seen.silent, host)
            )
            if shared:
                file = posixpath.basename(volume["path"])
                decision.asked.append(volume["path"])
                decision.files.append(file)
                decision.homes[file] = host
            if missing:
                problems.append(
                    f"{volume['path']} of {name!r} is on shared storage, and a hypervisor that may"
                    f" use it did not respond ({proofs.named(missing)}); {proofs.remedy(missing)}"
                )
    if problems:
        raise PlanRefused("; ".join(problems))
    return decision


def require_confirmed(
    selected: Selected, confirm: str, decision: PurgeDecision, *, check: bool
) -> None:
    """Raise PlanRefused unless ``confirm`` is the number of VMs that a pattern or a group means.

    Check mode without a number says which one a run needs. A number is compared whatever selects.
    """
    if not selected.plural and not confirm:
        return
    count = sum(map(len, decision.shares.values()))
    if confirm.strip() == str(count):
        return
    listed = "; ".join(f"{host}: {', '.join(names)}" for host, names in decision.shares.items())
    vms = "1 VM" if count == 1 else f"{count} VMs"
    remedy = f"to remove exactly {'it' if count == 1 else 'these'}, add -e virt_confirm={count}"
    if not confirm:
        what = f"{vms} would be removed ({listed})"
        if not check:
            raise PlanRefused(f"{what}; none is removed before the number is confirmed: {remedy}")
        decision.unconfirmed = f"a run removes none before the number is confirmed: {remedy}"
        return
    if not count:
        raise PlanRefused(
            f"virt_confirm={confirm} is wrong: no VM would be removed; leave virt_confirm out"
        )
    raise PlanRefused(
        f"virt_confirm={confirm} is wrong: {vms} would be removed ({listed}); none is removed"
        f" before the number is right: {remedy.replace('add ', 'give ')}"
    )


def require_unused(decision: PurgeDecision, seen: Fleet) -> None:
    """Raise PlanRefused if a hypervisor other than the domain's own uses one of its files.

    ``seen`` are answers with ``users``. Files are compared by name: the same storage may be mounted
    in different places, and a VM's volumes are named after it.
    """
    problems = [
        f"{usage['file']} on shared storage is used on {host}: {', '.join(usage['users'])}"
        for host, answer in seen.answers.items()
        for usage in answer.get("users") or ()
        if decision.homes.get(usage["file"], host) != host
    ]
    missing = proofs.missing("purge shared", seen.silent)
    if missing and decision.files:
        files = ", ".join(decision.files)
        problems.append(f"not all reported whether they use {files}: {proofs.named(missing)}")
    if problems:
        raise PlanRefused("; ".join(problems))


def _shared(volume: PurgeVolume, host: str, seen: Fleet) -> bool:
    """Whether another hypervisor can reach the volume: by the type of its pool, or because another
    one has the same pool id. Having an id does not mean shared: the role gives every pool one."""
    return volume["shared"] or volume["pool_id"] in _pool_ids_elsewhere(host, seen)


def _pool_ids_elsewhere(host: str, seen: Fleet) -> set[str]:
    return {
        pool_id
        for name, answer in seen.answers.items()
        if name != host
        for pool_id in answer.get("pool_ids") or ()
    }


def sole_pool_ids(host: str, seen: Fleet) -> list[str]:
    """Ids of pools that only ``host`` has; none if any hypervisor did not respond."""
    if proofs.missing("prune", seen.silent):
        return []
    own = seen.answers[host].get("pool_ids") if host in seen.answers else None
    return sorted(set(own or ()) - _pool_ids_elsewhere(host, seen))
