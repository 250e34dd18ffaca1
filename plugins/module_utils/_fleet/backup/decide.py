# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where the VMs are, and report on their backups.

A backup that gave way to something else is tried again in the next round, where the VM is then.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base import answers as shapes
from ..base.json_values import as_mapping
from ..engine import located
from ..engine.declaration import Fleet, Verb
from ..engine.outcomes import Outcome, error_message, outcomes
from .facts import BackedUp, BackedUpVm
from .options_saving import ARGUMENTS

_MIB = 1024**2
TRIES = 3


def decide_again(names: t.Sequence[str], seen: Fleet, host: str = "") -> located.Shares:
    """Where each VM of ``names``, whose backups gave way, is now. One that is not on exactly one
    hypervisor, since it is being moved, is left out."""
    decision = located.Shares()
    vms = VERB.vms_by_host(seen)
    places = located.locate(names, vms, seen.silent, host=host).places
    for name, (place, _vm) in places.items():
        decision.shares.setdefault(place, []).append(name)
    return decision


@dataclass(frozen=True)
class Settled:
    """What came of the VMs up to the round ``number``: the last answer of each, by the hypervisor
    that gave it. ``again`` are those that another round is for."""

    number: int = 0
    again: list[str] = field(default_factory=list)
    ended: dict[str, BackedUp] = field(default_factory=dict)

    @property
    def shares(self) -> dict[str, list[str]]:
        """The names that each hypervisor answered for."""
        return {
            host: [vm["name"] for vm in answer.get("vms") or []]
            for host, answer in self.ended.items()
        }


def settled(value: t.Mapping[str, object]) -> Settled:
    """What the last round's result says."""
    number, again = value["number"], value["again"]
    ended = as_mapping(value["ended"])
    return Settled(
        number if isinstance(number, int) else 0,
        [str(name) for name in again] if isinstance(again, (list, tuple)) else [],
        {host: shapes.read(as_mapping(answer), BackedUp) for host, answer in ended.items()},
    )


def settle(
    shares: t.Mapping[str, t.Sequence[str]],
    answers: t.Mapping[str, BackedUp],
    before: Settled | None = None,
) -> Settled:
    """What came of this round's VMs, and of those ``before`` it."""
    number = 0 if before is None else before.number + 1
    results = outcomes(shares, answers, BackedUpVm)
    tried = {vm.name for vm in results}
    ended: dict[str, list[BackedUpVm]] = {}
    for host, answer in before.ended.items() if before is not None else ():
        for entry in answer.get("vms") or []:
            if entry["name"] not in tried:
                ended.setdefault(host, []).append(entry)
    for vm in results:
        ended.setdefault(vm.host, []).append(_entry(vm, answers))
    again = [
        entry["name"] for entries in ended.values() for entry in entries if entry.get("gave_way")
    ]
    if number + 1 < TRIES:
        return Settled(number, again, {host: {"vms": vms} for host, vms in ended.items()})
    for entries in ended.values():
        for entry in entries:
            if entry.get("gave_way"):
                entry["msg"] = f"{entry['msg']} (of {TRIES} tries, this was the last)"
    return Settled(number, [], {host: {"vms": vms} for host, vms in ended.items()})


def _entry(vm: Outcome[BackedUpVm], answers: t.Mapping[str, BackedUp]) -> BackedUpVm:
    if vm.entry is not None:
        return vm.entry
    return {
        "name": vm.name,
        "uuid": None,
        "changed": False,
        "steps": [],
        "archive": None,
        "consistency": None,
        "size": None,
        "added": None,
        "left_out": [],
        "one_file": [],
        "gave_way": False,
        "not_tried": False,
        "failed": True,
        "msg": error_message(answers.get(vm.host) or {}),
    }


def _remarks(vm: BackedUpVm) -> list[str]:
    name = vm["name"]
    without = [f"{name}: its backup is without disk {one}" for one in vm.get("left_out") or []]
    joined = vm.get("one_file") or []
    return without + [f"{name}: in its backup this disk is one file, {one}" for one in joined]


def _mib(size: int | None) -> str | None:
    return None if size is None else f"{size / _MIB:.1f}"


VERB: Verb[shapes.GroupedVm, BackedUpVm] = Verb(
    arguments=ARGUMENTS,
    look=shapes.GroupedLook,
    vm=shapes.GroupedVm,
    done=BackedUp,
    entry=BackedUpVm,
    words=("saved", "would be saved"),
    columns={
        "ARCHIVE": lambda vm: vm.get("archive") if vm is not None else None,
        "CONSISTENCY": lambda vm: vm.get("consistency") if vm is not None else None,
        "SIZE MiB": lambda vm: _mib(vm.get("size")) if vm is not None else None,
        "NEW MiB": lambda vm: _mib(vm.get("added")) if vm is not None else None,
    },
    remarks=_remarks,
)
