# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what all hypervisors say to where each domain is removed, or why it is not.

This file is private to the collection.
"""

from __future__ import annotations

import posixpath
import typing as t
from dataclasses import dataclass, field

from .._errors import PlanRefused
from .tables import table

Answer = t.Mapping[str, t.Any]
_LOST = (
    "bring it back, or, if it is surely off for good, name it in virt_hypervisors_lost, for example"
    " -e virt_hypervisors_lost={name}"
)


@dataclass(frozen=True)
class Fleet:
    """What each hypervisor of the play answered: to a look, ``vms`` and ``pool_ids``; None and a
    reason in ``silent`` from those that did not. ``lost`` are declared to be off for good."""

    answers: t.Mapping[str, Answer]
    silent: t.Mapping[str, str]
    lost: frozenset[str] = frozenset()

    @property
    def unproven(self) -> dict[str, str]:
        """Those that may know something and have not said it."""
        return {name: why for name, why in self.silent.items() if name not in self.lost}


@dataclass
class Decision:
    """Where each domain is removed, which are nowhere, and which files others must be asked about
    (``asked`` are their paths)."""

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

    Raises PlanRefused for a ``lost`` that nobody knows, and when nobody answered.
    """
    answers = {name: answer for name, answer in registered.items() if answer.get(key) is not None}
    silent = {
        name: str(answer.get("msg") or "it did not answer")
        for name, answer in registered.items()
        if name not in answers
    }
    for name in expected or ():
        if name not in registered:
            silent[name] = "it is not in this play (--limit)"
    unknown = [name for name in lost if name not in {*answers, *silent}]
    if unknown:
        raise PlanRefused(
            f"virt_hypervisors_lost names {', '.join(unknown)}: no hypervisor of this play; there"
            f" are: {', '.join([*answers, *silent])}"
        )
    if not answers:
        reasons = "; ".join(f"{name}: {why}" for name, why in silent.items())
        raise PlanRefused(f"no hypervisor answered: {reasons}")
    return Fleet(answers, silent, frozenset(lost))


def decide(names: t.Sequence[str], seen: Fleet) -> Decision:
    """Where each of ``names`` is; raises PlanRefused with everything that is not proven."""
    if not names:
        raise PlanRefused("no VM is named; give -e vm_name=web1, or virt_names for several")
    found, problems = Decision(), []
    for name in dict.fromkeys(names):
        places = {
            host: vm
            for host, answer in seen.answers.items()
            for vm in answer["vms"]
            if vm["name"] == name
        }
        if len(places) > 1:
            problems.append(
                f"{name!r} is defined on {' and '.join(places)}; a VM exists once: find out which"
                " one is right, and remove the other on its hypervisor with the module virt_purge"
            )
            continue
        if not places:
            if seen.unproven:
                problems.append(
                    f"{name!r} is on no hypervisor that answered, but may be on one that did not"
                    f" ({_named(seen.unproven)}); {_LOST.format(name=next(iter(seen.unproven)))}"
                )
            found.absent.append(name)
            continue
        host, vm = next(iter(places.items()))
        found.shares.setdefault(host, []).append(name)
        for volume in vm["volumes"]:
            if not _shared(volume, host, seen):
                continue
            file = posixpath.basename(str(volume["path"]))
            found.asked.append(str(volume["path"]))
            found.files.append(file)
            found.homes[file] = host
            if seen.unproven:
                problems.append(
                    f"{volume['path']} of {name!r} is on shared storage, and a hypervisor that may"
                    f" use it is silent ({_named(seen.unproven)});"
                    f" {_LOST.format(name=next(iter(seen.unproven)))}"
                )
    if problems:
        raise PlanRefused("; ".join(problems))
    return found


def require_unused(decision: Decision, seen: Fleet) -> None:
    """Raise PlanRefused if a hypervisor other than the domain's own uses one of its files.

    ``seen`` are answers with ``users``. Files are compared by their names: the same storage may be
    mounted in different places, and a VM's volumes are named after it.
    """
    problems = [
        f"{entry['file']} on shared storage is used on {host}: {', '.join(entry['users'])}"
        for host, answer in seen.answers.items()
        for entry in answer["users"]
        if entry["file"] in decision.homes and decision.homes[entry["file"]] != host
    ]
    if seen.unproven and decision.files:
        files = ", ".join(decision.files)
        problems.append(f"not all said whether they use {files}: {_named(seen.unproven)}")
    if problems:
        raise PlanRefused("; ".join(problems))


def _shared(volume: Answer, host: str, seen: Fleet) -> bool:
    """Whether another hypervisor can reach the volume: its pool's kind says so, or its identity,
    which another has too, or may have while it is silent."""
    if volume["shared"]:
        return True
    if volume["pool_id"] is None:
        return False
    others = [answer["pool_ids"] for name, answer in seen.answers.items() if name != host]
    return bool(seen.unproven) or any(volume["pool_id"] in ids for ids in others)


def sole_pool_ids(host: str, seen: Fleet) -> list[str]:
    """Ids of pools that ``host`` has and no other hypervisor; none while one is silent."""
    if seen.unproven:
        return []
    others = {
        one for name, answer in seen.answers.items() if name != host for one in answer["pool_ids"]
    }
    return sorted(set(seen.answers[host]["pool_ids"]) - others) if host in seen.answers else []


def _named(silent: t.Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in silent.items())


def report(
    names: t.Sequence[str], results: t.Mapping[str, Answer], *, check: bool
) -> tuple[str, list[str]]:
    """Text for people, and what failed."""
    rows: list[list[t.Any]] = []
    failures: list[str] = []
    seen: set[str] = set()
    for host, result in results.items():
        if result.get("vms") is None and (result.get("failed") or result.get("unreachable")):
            failures.append(f"{host}: {result.get('msg') or 'it did not answer'}")
        for vm in result.get("vms") or ():
            seen.add(str(vm["name"]))
            if vm["failed"]:
                failures.append(f"{host}: {vm['msg']}")
            word = "would go" if check else "removed"
            for item in vm["removed"]:
                what = item["path"] or item["name"]
                rows.append([vm["name"], host, word, item["kind"], what, item["size_mib"]])
            for item in vm["kept"]:
                rows.append([vm["name"], host, "stays", item["path"], item["reason"], None])
    for name in names:
        if name not in seen:
            rows.append([name, None, "not there", None, None, None])
    text = table(["VM", "HYPERVISOR", "RESULT", "KIND", "WHAT", "MIB"], rows)
    return text + "\n", failures
