# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locate each VM from the answers of all hypervisors."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base import duplicate_vm as twice
from ..base.answers import GroupedVm, VmIdentity
from ..base.names import require_named
from ..base.selected import Member, Selected, expand
from ..cards import leftover
from . import proofs

Answer = t.Mapping[str, object]
Silences = t.Mapping[str, proofs.Silence]


A = t.TypeVar("A", bound=Answer)
Vm = t.TypeVar("Vm", bound=VmIdentity)
Grouped = t.TypeVar("Grouped", bound=GroupedVm)


@dataclass(frozen=True)
class Fleet(t.Generic[A]):
    """What each hypervisor of the play answered. ``silent`` did not respond and are not declared
    lost."""

    answers: t.Mapping[str, A]
    silent: Silences


def vms_by_host(seen: Fleet[A], kind: type[Grouped]) -> dict[str, list[Grouped]]:  # noqa: ARG001
    """The ``vms`` of each answer, which were checked for being of this ``kind``."""
    answered = {host: answer.get("vms") for host, answer in seen.answers.items()}
    return {host: vms if isinstance(vms, list) else [] for host, vms in answered.items()}


@dataclass
class Located(t.Generic[Vm]):
    """``places``: hypervisor and its answer, for each VM that exists exactly once; ``absent`` are
    on none that responded. ``problems`` are everything that is unproven. ``silent`` says which
    hypervisors may have more VMs that were meant by a pattern or a group; empty if none may."""

    places: dict[str, tuple[str, Vm]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    silent: str = ""


def sort(
    registered: t.Mapping[str, A],
    key: str,
    expected: t.Sequence[str] | None,
    lost: t.Sequence[str],
) -> Fleet[A]:
    """Who responded, and who did not and is not declared lost; an answer is what has ``key``.

    Raises PlanRefused for an unknown ``lost``, and if no hypervisor responded.
    """
    answers = {name: answer for name, answer in registered.items() if answer.get(key) is not None}
    problem = proofs.unknown_lost(lost, list(dict.fromkeys([*registered, *(expected or ())])))
    if problem:
        raise PlanRefused(problem)
    silent = proofs.silences(registered, answers, expected, lost)
    if not answers:
        raise PlanRefused(f"no hypervisor answered: {proofs.named(silent)}")
    return Fleet(answers, silent)


def locate(
    names: t.Sequence[str],
    vms_by_host: t.Mapping[str, t.Sequence[Vm]],
    silent: Silences,
    hypervisors: t.Collection[str] = (),
    *,
    host: str | None = None,
    whole: bool = False,
    nowhere: bool = False,
) -> Located[Vm]:
    """Where each of ``names`` is, by the VMs of each hypervisor; raises PlanRefused if there is no
    name. ``hypervisors`` are those of the inventory, also outside of the play. Only those on
    ``host`` are meant if it is not empty; None: the verb has no such option. ``whole``: what is
    left of it elsewhere hinders it too. ``nowhere``: one that is known by its card alone does
    not."""
    if not names:
        raise PlanRefused("no VM is named; give -e vm_name=web1, or virt_names for several")
    require_named(names)
    located: Located[Vm] = Located()
    everywhere = vms_by_host
    if host:
        vms_by_host = on_host(host, vms_by_host, silent)
    for name in dict.fromkeys(names):
        every = {own: vm for own, vms in vms_by_host.items() for vm in vms if vm["name"] == name}
        places = leftover.without(every)
        if len(places) > 1:
            phases = {where: vm["phase"] for where, vm in places.items()}
            uuids = [vm["uuid"] for vm in places.values()]
            selectable = host is not None
            message = twice.duplicate_vm_message(name, phases, uuids, selectable=selectable)
            located.problems.append(message)
        elif places:
            ((place, vm),) = places.items()
            why = None if vm.get("nowhere") else vm.get("error")
            taken = nowhere and bool(vm.get("nowhere"))
            left = None if taken else leftover.refusal(name, place, vm)
            refused = [*filter(None, [left, f"{name!r} on {place}: {why}" if why else None])]
            refused += leftover.hindrances(name, every) if whole else []
            if refused:
                located.problems.append(refused[0])
            else:
                located.places[name] = (place, vm)
        elif host and (others := _having(name, everywhere)) and host in vms_by_host:
            located.problems.append(f"{host} has no VM {name!r}; it is on {' and '.join(others)}")
        elif name in (*vms_by_host, *silent, *hypervisors):
            located.problems.append(
                f"{name!r} is a hypervisor, not a VM; ansible-playbook fleet.virt.list shows the"
                " VMs"
            )
        else:
            missing = proofs.missing("absent", silent)
            if missing:
                located.problems.append(
                    f"{name!r} is on no hypervisor that responded, but may be on one that did not"
                    f" ({proofs.named(missing)}); {proofs.remedy(missing)}"
                )
            located.absent.append(name)
    return located


def select(
    selected: Selected,
    vms_by_host: t.Mapping[str, t.Sequence[Grouped]],
    silent: Silences,
    hypervisors: t.Collection[str] = (),
    host: str | None = None,
    *,
    whole: bool = False,
    nowhere: bool = False,
) -> Located[Grouped]:
    """:func:`locate` each of the VMs that are meant; a pattern or a group without any is a
    problem. Only those on ``host`` are meant if it is not empty; None: the verb has no such option.
    ``whole`` and ``nowhere`` as there.
    """
    require_named(selected.names)
    meant = on_host(host, vms_by_host, silent) if host else vms_by_host
    listed = expand(selected, members(vm for vms in meant.values() for vm in vms))
    if listed.empty and not listed.names:
        raise PlanRefused(none_meant(listed.empty, selected, silent))
    located = locate(
        *(listed.names, vms_by_host, silent, hypervisors), host=host, whole=whole, nowhere=nowhere
    )
    located.problems[:0] = listed.empty
    located.silent = "".join(more_meant(selected, silent))
    return located


@dataclass
class Shares:
    """The names of each hypervisor; ``silent`` as in :class:`Located`."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    silent: str = ""


def shares(
    selected: Selected,
    vms_by_host: t.Mapping[str, t.Sequence[Grouped]],
    silent: Silences,
    host: str | None = None,
) -> Shares:
    """Which hypervisor has which of the VMs that are meant; raises PlanRefused with everything that
    is unproven. ``host`` as in :func:`select`."""
    where = select(selected, vms_by_host, silent, host=host)
    problems = [*where.problems, *absences(where, silent)]
    if problems:
        raise PlanRefused("; ".join(problems))
    decision = Shares(silent=where.silent)
    for name, (place, _vm) in where.places.items():
        decision.shares.setdefault(place, []).append(name)
    return decision


def absences(located: Located[Vm], silent: Silences) -> list[str]:
    """Why a verb that needs its VMs cannot act, where none is on a hypervisor that responded."""
    if proofs.missing("absent", silent):
        return []  # that is a problem already
    return [
        f"no hypervisor has a VM {name!r}; ansible-playbook fleet.virt.list shows the VMs"
        for name in located.absent
    ]


def _having(name: str, vms_by_host: t.Mapping[str, t.Sequence[Vm]]) -> list[str]:
    return [host for host, vms in vms_by_host.items() if any(vm["name"] == name for vm in vms)]


def on_host(
    host: str, vms_by_host: t.Mapping[str, t.Sequence[Vm]], silent: Silences
) -> dict[str, list[Vm]]:
    """The VMs on ``host``; on others only what may be the other end of a move of one of them."""
    if host not in vms_by_host and host not in silent:
        raise PlanRefused(
            f"vm_host: {host!r} is not a hypervisor of this play; its hypervisors:"
            f" {', '.join([*vms_by_host, *silent])}"
        )
    own = {vm["uuid"] for vm in vms_by_host.get(host, ()) if not vm.get("leftover")}
    return {
        name: [vm for vm in vms if name == host or vm["uuid"] in own]
        for name, vms in vms_by_host.items()
    }


def members(vms: t.Iterable[GroupedVm]) -> list[Member]:
    """The VMs of answers, for :func:`expand`."""
    own = (vm for vm in vms if not vm.get("leftover"))
    return [Member(vm["name"], vm["groups"], bool(vm.get("error"))) for vm in own]


def more_meant(selected: Selected, silent: Silences) -> list[str]:
    """The silent hypervisors, of which each may have VMs that a pattern or a group means."""
    missing = proofs.missing("selection", silent) if selected.plural else {}
    return [proofs.named(missing)] if missing else []


def none_meant(empty: t.Sequence[str], selected: Selected, silent: Silences) -> str:
    """The refusal where no pattern and no group has a VM; a silent hypervisor may have some."""
    silence = more_meant(selected, silent)
    return "; ".join([*empty, *silence, *([proofs.remedy(silent)] if silence else [])])


def not_done(silent: str) -> list[str]:
    """The failure of a verb that did what it could; ``silent`` as in :class:`Located`."""
    if not silent:
        return []
    return [
        "not all hypervisors answered, and VMs there that were meant too were not changed:"
        f" {silent}"
    ]
