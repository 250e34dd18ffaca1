# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor that does not answer had, as those that answer noted it: for showing only.

Unlike the names rule, which forbids whatever anybody noted, this takes the last reading alone, by
the silent hypervisor's clock, and the claims that came since.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base import answers
from ..base.names import CLAIM as ARRIVING
from ..engine.envelope import Work
from .note import (
    Claim,
    Note,
    NotedVm,
    Reading,
    last_marks,
    notes,
    opened,
    settles,
    time_text,
    vm_of,
)


@dataclass(frozen=True)
class NotedWork(Work):
    """Of a reading task; ``silent`` are the hypervisors of which notes are to be told."""

    STAGES: t.ClassVar[tuple[str, ...]] = ("all", "read", "noted")

    silent: list[str] = field(default_factory=list)


class Told(answers.Result, total=False):
    """What a hypervisor tells of silent ones: its machine, the volumes of the notes that it holds
    of them, the content of the readings, and which of the noted VMs it has itself, by UUID."""

    machine: str | None
    held: list[str] | None
    texts: dict[str, str] | None
    here: list[str] | None


@dataclass(frozen=True)
class SilentVm:
    """A VM as noted ``at`` that time ``by`` a hypervisor. One that was only ``claimed`` may never
    have been built."""

    name: str
    uuid: str | None
    at: str
    by: str
    groups: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    active: bool = False
    managed: bool = True
    claimed: bool = False

    @property
    def reason(self) -> str:
        """Why its state is unknown, and as of when anything is known."""
        if self.claimed:
            return f"claimed at {self.at}, as {self.by} noted"
        return f"{'active' if self.active else 'shut off'} at {self.at}, as {self.by} noted"


@dataclass(frozen=True)
class SilentHost:
    """A silent hypervisor: when it was last read, by its own clock, who noted that, and since when
    it is in maintenance, if it is."""

    at: str
    by: str
    vms: tuple[SilentVm, ...]
    maintenance: str = ""


def known(told: t.Mapping[str, Told], silent: t.Collection[str]) -> dict[str, SilentHost]:
    """What hypervisors have noted of those in ``silent``, by name; nothing of a machine that
    answers, under whatever name, and no VM that a hypervisor which answers has."""
    machines = {answer.get("machine") for answer in told.values()}
    since = in_maintenance(told, silent)
    here = {uuid for answer in told.values() for uuid in answer.get("here") or ()}
    held = [
        (name, note, (answer.get("texts") or {}).get(note.volume, ""))
        for name, answer in told.items()
        for note in notes(answer.get("held") or ())
        if note.machine not in machines
    ]
    hosts: dict[str, SilentHost] = {}
    for machine in sorted({note.machine for _name, note, _text in held}):
        last = _last([(n, note, text) for n, note, text in held if note.machine == machine])
        if last is None or last[2] not in silent:
            continue
        by, at, host, vms = last
        claims = {
            note.volume: (name, note)
            for name, note, _text in held
            if isinstance(note, Claim) and note.machine == machine and not settles(vms, at, note)
        }
        shown = _vms(by, time_text(at), vms, [claims[volume] for volume in sorted(claims)], here)
        earlier = hosts.get(host)  # of a machine that had this name before
        vms_shown = (*(earlier.vms if earlier else ()), *shown)
        hosts[host] = SilentHost(time_text(at), by, vms_shown, since.get(host, ""))
    return hosts


def in_maintenance(told: t.Mapping[str, Told], silent: t.Collection[str]) -> dict[str, str]:
    """Since when those of ``silent`` that were put into maintenance are, by name."""
    machines = {answer.get("machine") for answer in told.values()}
    held = [note for answer in told.values() for note in notes(answer.get("held") or ())]
    return {
        mark.host: time_text(mark.at)
        for machine, mark in last_marks(held).items()
        if machine not in machines and mark.present and mark.host in silent
    }


def _last(
    held: t.Sequence[tuple[str, Note, str]],
) -> tuple[str, int, str, list[NotedVm]] | None:
    """Who holds the last reading of a machine, when it was read, its name, and its VMs."""
    last: tuple[str, int, str, list[NotedVm]] | None = None
    for name, note, text in held:
        body = opened(note, text) if isinstance(note, Reading) else None
        if body is not None and (last is None or note.at > last[1]):
            last = (name, note.at, *body)
    return last


def _vms(
    by: str,
    at: str,
    vms: t.Sequence[NotedVm],
    claims: t.Sequence[tuple[str, Claim]],
    here: t.Collection[str],
) -> list[SilentVm]:
    shown = {
        vm["name"]: SilentVm(
            vm["name"],
            vm["uuid"],
            at,
            by,
            tuple(vm["groups"]),
            tuple(vm["macs"]),
            vm["active"],
            vm["managed"],
        )
        for vm in vms
        if vm["uuid"] not in here and not vm["name"].endswith(ARRIVING)
    }
    known_uuids = {vm["uuid"] for vm in vms} | {*here}
    uuids: dict[str, set[str]] = {}
    for _name, claim in claims:
        if claim.kind == "uuid":
            uuids.setdefault(claim.run, set()).add(claim.value)
    settled: set[tuple[str, str]] = set()  # names whose UUID is known, by their runs
    for name, claim in claims:
        about = vm_of(claim)
        when = time_text(claim.at)
        if about is not None:
            settled.add((claim.run, about[1]))
        if about is not None and about[0] not in known_uuids:
            shown[about[1]] = SilentVm(
                about[1], about[0], when, name, tuple(about[2]), claimed=True
            )
    for name, claim in claims:
        own = uuids.get(claim.run, set())
        if (
            claim.kind == "name"
            and claim.value not in shown
            and (claim.run, claim.value) not in settled
            and not (own and own <= known_uuids)
        ):
            uuid = next(iter(own)) if len(own) == 1 else None
            shown[claim.value] = SilentVm(
                claim.value, uuid, time_text(claim.at), name, claimed=True
            )
    return sorted(shown.values(), key=lambda vm: vm.name)
