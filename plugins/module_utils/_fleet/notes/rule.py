# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names rule: when a new name, UUID or MAC address is free although a hypervisor is silent.

More than half of the fleet answers and has none, and of each silent hypervisor one that answers
holds a reading, in which it is not. What a hypervisor that answers has counts by its answer, never
by a note: so a note can refuse, and never permits anything.

The fleet is the inventory and every machine of which an answering hypervisor holds a reading: two
inventories that each lack a part would otherwise have majorities without a common member.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..engine.proofs import Silence, named, remedy
from .note import Claim, NotedVm, Reading, latest, notes, opened, plain, time_text
from .note import values as note_values

Texts = t.Mapping[str, str]  # the content of readings, by volume


@dataclass(frozen=True)
class Answering:
    """A hypervisor that answers: its machine UUID, and the volumes of notes that it holds."""

    machine: str
    held: t.Collection[str] = ()


@dataclass
class Noted:
    """All that is held of a silent hypervisor: of its VMs, each holder's last reading counts."""

    host: str
    at: int
    by: str
    vms: list[NotedVm] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    @property
    def when(self) -> str:
        """The time of the last reading, by the silent hypervisor's clock."""
        return time_text(self.at)


@dataclass
class Standing:
    """``problem`` prevents everything new; ``noted`` is what is known of each silent hypervisor,
    by its name in the inventory, ``foreign`` of machines that the inventory lacks."""

    problem: str = ""
    noted: dict[str, Noted] = field(default_factory=dict)
    silent: dict[str, Silence] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)  # silent, and nothing is held of them
    foreign: dict[str, Noted] = field(default_factory=dict)  # by machine


@dataclass(frozen=True)
class Wanted:
    """What a new VM has: its name, UUID, where it is chosen, and MAC addresses; of a VM that
    ``exists``, only these are new."""

    name: str
    macs: t.Collection[str] = ()
    uuid: str | None = None
    exists: bool = False

    def values(self) -> list[tuple[str, str]]:
        """Each with its kind."""
        own = [("mac", mac) for mac in self.macs]
        if self.exists:
            return own
        own = [("name", self.name), *own]
        return [*own, ("uuid", self.uuid)] if self.uuid else own


def silent_machines(answering: t.Mapping[str, Answering]) -> list[str]:
    """The machines of which a reading is held and that do not answer."""
    there = {host.machine for host in answering.values()}
    held = (note for host in answering.values() for note in notes(host.held))
    return sorted({note.machine for note in held if isinstance(note, Reading)} - there)


def judge(
    answering: t.Mapping[str, Answering],
    silent: t.Mapping[str, Silence],
    texts: Texts,
    excused: t.Collection[str] = (),
    done: str = "created",
    what: str = "of that name",
) -> Standing:
    """What is known of the hypervisors that do not answer, and whether that suffices.

    ``silent`` are those of the inventory, ``texts`` the content of readings of machines that do not
    answer, ``excused`` the names and machine UUIDs of those that need not be asked or are lost.
    ``done`` is what is not done else, ``what`` says which VM a silent one may have.
    """
    standing = Standing(silent={n: why for n, why in silent.items() if n not in excused})
    excluded = {name: why for name, why in standing.silent.items() if not why.asked}
    unread: list[str] = []  # machines of whose notes none can be read
    explained: set[str] = set()  # of those excused
    for machine in silent_machines(answering):
        noted = _united(machine, answering, texts)
        if machine in excused or (noted is not None and noted.host in excused):
            explained.add(machine if noted is None or machine in excused else noted.host)
            continue
        if noted is None:
            unread.append(machine)
            continue
        if noted.host in standing.silent and noted.host not in standing.noted:
            standing.noted[noted.host] = noted
        else:
            standing.foreign[machine] = noted
    standing.unknown = [name for name in standing.silent if name not in standing.noted]
    total = len(answering) + len(standing.silent) + len(standing.foreign)
    problems = []
    if standing.foreign:
        problems.append(_foreign(standing.foreign, answering))
    if standing.silent and len(answering) * 2 <= total:
        problems.append(
            f"{len(answering)} of {total} hypervisors answered; more than half must, or others"
            " could create the same meanwhile"
        )
    elif excluded:
        problems.append("--limit is no reason not to ask")
    elif standing.unknown:
        problems.append(f"nothing is known of what {', '.join(standing.unknown)} had")
    # a machine that no inventory names, or one of those excused
    elif len(unread) > len({*excused} - explained - {*answering}):
        problems.append(_unread(unread))
    if problems:
        standing.problem = _because(problems, standing, done, what)
    return standing


def _because(problems: t.Sequence[str], standing: Standing, done: str, what: str) -> str:
    why = "; ".join(problems)
    if not standing.silent:
        return why
    asked = [name for name, silence in standing.silent.items() if silence.asked]
    have = "has" if len(asked) == 1 else "have"
    unasked = (
        f"; if it is known that {' and '.join(asked)} {have} no VM {what}, this run need not"
        f" ask: -e virt_unasked={','.join(asked)}"
        if asked
        else ""
    )
    return (
        f"a hypervisor that does not respond may be running a VM {what}, so nothing is"
        f" {done}: {named(standing.silent)} ({why}). Remedy: {remedy(standing.silent)}{unasked}"
    )


def _foreign(foreign: t.Mapping[str, Noted], answering: t.Mapping[str, Answering]) -> str:
    told = []
    for machine, noted in foreign.items():
        why = (
            "another machine answers by that name now"
            if noted.host in answering
            else "the inventory lacks it"
        )
        told.append(f"{noted.host}, machine {machine}, as {noted.by} noted at {noted.when} ({why})")
    return (
        f"the fleet also has {'; '.join(told)}: add {_it(foreign)} to the inventory, or, only if"
        f" permanently gone, -e virt_hypervisors_lost={','.join(foreign)}"
    )


def _unread(machines: t.Sequence[str]) -> str:
    return (
        f"the fleet also has machine {', '.join(machines)}, of which no note could be read: run"
        f" this again; or add {_it(machines)} to the inventory; or, only if permanently gone,"
        f" -e virt_hypervisors_lost={','.join(machines)}"
    )


def _it(those: t.Collection[str]) -> str:
    return "it" if len(those) == 1 else "them"


def _united(machine: str, answering: t.Mapping[str, Answering], texts: Texts) -> Noted | None:
    """All that is held of a machine; None if no reading of it can be read, or one that a
    hypervisor holds was not told."""
    united: Noted | None = None
    vms: dict[str, NotedVm] = {}
    claims: dict[str, Claim] = {}
    for name, host in answering.items():
        held = [note for note in notes(host.held) if note.machine == machine]
        claims.update({note.volume: note for note in held if isinstance(note, Claim)})
        readable = [
            (note, body)
            for note in held
            if isinstance(note, Reading)
            if (body := opened(note, texts.get(note.volume, ""))) is not None
        ]
        last = latest(held).get(machine)
        if last is not None and last.volume not in texts:
            return None  # it was not told, and may have replaced claims
        if not readable:
            continue
        note, (told, those) = max(readable, key=lambda pair: pair[0].at)
        vms.update({vm["uuid"]: vm for vm in those})
        if united is None or note.at > united.at:
            united = Noted(told, note.at, name)
    if united is not None:
        united.vms, united.claims = list(vms.values()), list(claims.values())
    return united


def conflicts(
    wanted: Wanted, standing: Standing, there: t.Collection[str] = (), run: str = ""
) -> list[str]:
    """Why ``wanted`` is not free, by what is noted of silent hypervisors.

    ``there`` are the UUIDs of VMs on hypervisors that answer: a noted VM that is one of these has
    moved. ``run`` is this run, whose own claims do not count.
    """
    problems = []
    for host, noted in {**standing.noted, **standing.foreign}.items():
        place = noted.host if host in standing.foreign else host
        moved = _moved_on(noted.claims, there)
        values = {(kind, plain(kind, value)) for kind, value in wanted.values()}
        for vm in noted.vms:
            if vm["uuid"] in there:
                continue
            own = note_values(vm)
            shared = [(kind, value) for kind, value in own if (kind, plain(kind, value)) in values]
            if shared:
                what = _what(wanted.name, vm["name"], *shared[0])
                problems.append(
                    f"{what} {place}, which does not answer, as {noted.by} noted at {noted.when}"
                )
        problems += [
            f"{_said(claim)} was claimed on {place}, which does not answer, at"
            f" {time_text(claim.at)}"
            for claim in _telling(
                claim
                for claim in noted.claims
                if claim.run != run and claim.run not in moved
                if any(claim.is_of(*value) for value in wanted.values())
            )
        ]
    return list(dict.fromkeys(problems))


def _telling(claims: t.Iterable[Claim]) -> list[Claim]:
    """Those of one VM that people are told of: each value once, as claimed last, and of a run that
    claimed the name nothing but that."""
    last = {
        (claim.kind, claim.value): claim for claim in sorted(claims, key=lambda claim: claim.at)
    }
    named_by = {claim.run for claim in last.values() if claim.kind == "name"}
    told = [one for one in last.values() if one.kind == "name" or one.run not in named_by]
    return sorted(told, key=_said_first)


def not_free(
    wanted: t.Iterable[Wanted], standing: Standing, there: t.Collection[str]
) -> dict[str, str]:
    """Why VMs that no hypervisor which answers has may be on a silent one, by name; the last says
    what to do."""
    wanted, problems = list(wanted), dict[str, str]()
    for identity in wanted:
        why = standing.problem or "; ".join(conflicts(identity, standing, there))
        if why:
            problems[identity.name] = why
    if problems and not standing.problem:
        what = "name" if any(problems.get(vm.name) and not vm.exists for vm in wanted) else ""
        problems[list(problems)[-1]] += f". Remedy: {remedies(standing, what or 'MAC address')}"
    return problems


def _moved_on(claims: t.Collection[Claim], there: t.Collection[str]) -> set[str]:
    """The runs whose claims are void: all that they put there answers elsewhere."""
    uuids: dict[str, set[str]] = {}
    for claim in claims:
        if claim.kind == "uuid":
            uuids.setdefault(claim.run, set()).add(claim.value)
    return {run for run, those in uuids.items() if those <= {*there}}


_WORDS = {"name": "name", "uuid": "UUID", "mac": "MAC address"}


def _said(claim: Claim) -> str:
    """What it claims, for people."""
    value = claim.value.replace("-", ":") if claim.kind == "mac" else claim.value
    return f"{_WORDS.get(claim.kind, claim.kind)} {value}"


def _said_first(claim: Claim) -> int:
    """Names come first: they are what people know."""
    return list(_WORDS).index(claim.kind) if claim.kind in _WORDS else len(_WORDS)


def _what(name: str, owner: str, kind: str, value: str) -> str:
    if kind == "name":
        return f"a VM named {owner!r} is on"
    return (
        f"{'MAC address' if kind == 'mac' else 'UUID'} {value} of {name!r} is that of {owner!r} on"
    )


def claimed(
    wanted: Wanted, answering: t.Mapping[str, Answering], run: str, seen: t.Collection[str]
) -> list[str]:
    """Claims of other runs that came since ``seen``, the volumes of claims before this run's own.

    An older one whose hypervisor answers without the VM was claimed and never built. Of one that
    came since, it is unknown whether its hypervisor was read before it: both runs withdraw.
    """
    held = {note for host in answering.values() for note in notes(host.held)}
    claims = [
        claim
        for claim in held
        if isinstance(claim, Claim) and claim.run != run and claim.volume not in seen
        if any(claim.is_of(*value) for value in wanted.values())
    ]
    told = [_said(claim) for claim in sorted(claims, key=_said_first)]
    if not told:
        return []
    return [
        f"{' and '.join(dict.fromkeys(told))} {'was' if len(set(told)) == 1 else 'were'} claimed"
        " meanwhile by another run; run this again once that has ended: a claim without a VM"
        " prevents nothing then"
    ]


def remarks(standing: Standing, new: t.Collection[str]) -> list[str]:
    """What people are told of each silent hypervisor where ``new`` is created all the same."""
    if not new:
        return []
    return [
        f"{host} does not answer; as {noted.by} noted at {noted.when} it had"
        f" {_count(len(noted.vms))}, none named {' or '.join(new)}{_since(noted)}"
        for host, noted in standing.noted.items()
    ]


def _since(noted: Noted) -> str:
    """How many more VMs were claimed there than it had."""
    had = {vm["name"] for vm in noted.vms}
    more = {claim.value for claim in noted.claims if claim.kind == "name"} - had
    return f"; {_count(len(more))} claimed there may have come since" if more else ""


def never_built(new: t.Collection[str], answering: t.Mapping[str, Answering]) -> list[str]:
    """What people are told of claims of the ``new`` names whose hypervisors answer without them.

    To be asked before this run claims; such claims prevent nothing.
    """
    names = {host.machine: name for name, host in answering.items()}
    claims = {
        (note.value, names[note.machine]): time_text(note.at)
        for host in answering.values()
        for note in notes(host.held)
        if isinstance(note, Claim) and note.kind == "name"
        if note.value in new and note.machine in names
    }
    return [
        f"{name} was claimed on {host} at {when}, and {host} has none: claimed, never built, or"
        " removed since; this run goes on"
        for (name, host), when in sorted(claims.items())
    ]


def _count(number: int) -> str:
    return "1 VM" if number == 1 else f"{number} VMs"


def remedies(standing: Standing, what: str = "name") -> str:
    """What to do where a silent hypervisor has the name, or ``what`` else."""
    names = ",".join(standing.noted)
    return (
        f"bring {names} back; or choose another {what}; or, if the VM is known to be gone, this run"
        f" need not ask: -e virt_unasked={names}"
    )


__all__ = [
    "Answering",
    "Noted",
    "Standing",
    "Wanted",
    "claimed",
    "conflicts",
    "judge",
    "latest",
    "not_free",
    "remarks",
    "remedies",
    "silent_machines",
]
