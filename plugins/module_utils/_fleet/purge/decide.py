# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where each domain is removed, or why it is not."""

from __future__ import annotations

import posixpath
import typing as t
from dataclasses import dataclass, field

from ..._errors import PlanRefused
from ..base.json_values import as_list, as_mappings, as_text
from ..engine import proofs
from ..engine.located import Answer, locate, sort


@dataclass(frozen=True)
class Volume:
    """A volume of a VM; ``pool_id`` is the id of its pool, if it has one."""

    path: str
    shared: bool
    pool_id: str | None


@dataclass(frozen=True)
class Vm:
    """A VM to be removed, where it was found."""

    name: str
    uuid: str | None
    phase: str | None
    volumes: tuple[Volume, ...]


@dataclass(frozen=True)
class Seen:
    """What one hypervisor answered: ``vms`` and ``pool_ids`` when read, and who uses a file."""

    vms: tuple[Vm, ...]
    pool_ids: tuple[str, ...]
    users: tuple[tuple[str, tuple[str, ...]], ...]


def _seen(answer: Answer) -> Seen:
    return Seen(
        tuple(
            Vm(
                str(vm["name"]),
                as_text(vm.get("uuid")),
                as_text(vm.get("phase")),
                tuple(
                    Volume(str(volume["path"]), bool(volume["shared"]), as_text(volume["pool_id"]))
                    for volume in as_mappings(vm["volumes"])
                ),
            )
            for vm in as_mappings(answer.get("vms"))
        ),
        tuple(map(str, as_list(answer.get("pool_ids")))),
        tuple(
            (str(usage["file"]), tuple(map(str, as_list(usage["users"]))))
            for usage in as_mappings(answer.get("users"))
        ),
    )


@dataclass(frozen=True)
class Fleet:
    """What each hypervisor of the play answered. ``silent`` did not respond and are not declared
    lost."""

    answers: t.Mapping[str, Seen]
    silent: t.Mapping[str, proofs.Silence]


@dataclass
class Decision:
    """Where each domain is removed, which are on no hypervisor, and which files must be checked on
    the others (``asked`` are their paths)."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    homes: dict[str, str] = field(default_factory=dict)  # file -> hypervisor of its domain


def fleet(
    registered: t.Mapping[str, Answer],
    key: str,
    expected: t.Sequence[str] | None,
    lost: t.Sequence[str],
) -> Fleet:
    """Sort what was registered; an answer is what has ``key``.

    Raises PlanRefused for an unknown ``lost``, and if no hypervisor responded.
    """
    answers, silent = sort(registered, key, expected, lost)
    return Fleet({name: _seen(answer) for name, answer in answers.items()}, silent)


def decide(names: t.Sequence[str], seen: Fleet, hypervisors: t.Collection[str] = ()) -> Decision:
    """Where each of ``names`` is; raises PlanRefused with everything that is unproven."""
    vms_by_host = {host: answer.vms for host, answer in seen.answers.items()}
    located = locate(names, vms_by_host, seen.silent, hypervisors)
    decision, problems = Decision(absent=located.absent), located.problems
    for name, (host, vm) in located.places.items():
        decision.shares.setdefault(host, []).append(name)
        for volume in vm.volumes:
            shared = _shared(volume, host, seen)
            missing = (
                proofs.missing("purge shared", seen.silent)
                if shared
                else proofs.missing("purge", seen.silent, host)
            )
            if shared:
                file = posixpath.basename(volume.path)
                decision.asked.append(volume.path)
                decision.files.append(file)
                decision.homes[file] = host
            if missing:
                problems.append(
                    f"{volume.path} of {name!r} is on shared storage, and a hypervisor that may use"
                    f" it did not respond ({proofs.named(missing)}); {proofs.remedy(missing)}"
                )
    if problems:
        raise PlanRefused("; ".join(problems))
    return decision


def require_unused(decision: Decision, seen: Fleet) -> None:
    """Raise PlanRefused if a hypervisor other than the domain's own uses one of its files.

    ``seen`` are answers with ``users``. Files are compared by name: the same storage may be mounted
    in different places, and a VM's volumes are named after it.
    """
    problems = [
        f"{file} on shared storage is used on {host}: {', '.join(users)}"
        for host, answer in seen.answers.items()
        for file, users in answer.users
        if file in decision.homes and decision.homes[file] != host
    ]
    missing = proofs.missing("purge shared", seen.silent)
    if missing and decision.files:
        files = ", ".join(decision.files)
        problems.append(f"not all reported whether they use {files}: {proofs.named(missing)}")
    if problems:
        raise PlanRefused("; ".join(problems))


def _shared(volume: Volume, host: str, seen: Fleet) -> bool:
    """Whether another hypervisor can reach the volume: by the type of its pool, or because another
    one has the same pool id. Having an id does not mean shared: the role gives every pool one."""
    if volume.shared:
        return True
    if volume.pool_id is None:
        return False
    others = [answer.pool_ids for name, answer in seen.answers.items() if name != host]
    return any(volume.pool_id in ids for ids in others)


def sole_pool_ids(host: str, seen: Fleet) -> list[str]:
    """Ids of pools that only ``host`` has; none if any hypervisor did not respond."""
    if proofs.missing("prune", seen.silent):
        return []
    others = {
        pool_id
        for name, answer in seen.answers.items()
        if name != host
        for pool_id in answer.pool_ids
    }
    return sorted(set(seen.answers[host].pool_ids) - others) if host in seen.answers else []
