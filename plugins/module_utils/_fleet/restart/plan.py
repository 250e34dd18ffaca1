# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restart a VM elsewhere: reasons to refuse, and the steps.

The storage has one winner: a hypervisor takes the VM over by renaming the card of the one that is
off, ``NAME@OLD``, to ``NAME@OLD+NEW``. From then on only NEW works on it, and once the VM is
defined and started there the card becomes ``NAME@NEW``. In between the disks get names that no
definition on OLD has, and that no disk ever had: they carry the card's counter. So OLD, when it
comes back, has nothing that it could start.

What exists shows how far a run came. A disk has both names until the old one is removed; the card
is written once all disks have their new names.

A card may name two already: the ends of a move, or OLD and a NEW that died in the middle. Either
may have the VM, so both have to be off; who takes over then puts its name after theirs.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t

from ..._records import dataclass
from ..base.names import playbook_command
from ..cards import keep
from ..cards.card import CardName
from ..engine.steps import Action, Plan, Step

TWO_CARDS = "there are two cards of its name or its UUID"
_COUNTED = re.compile(r"\.r[0-9]{1,6}$")
_COUNTS = re.compile(r"\.r([0-9]{1,5})(?=\.|$)")


@dataclass(frozen=True)
class RestartFacts:
    """A VM that is to run on ``new`` instead of ``old``, as ``new`` sees it.

    ``old`` are all hypervisors that are off, by what this run was told. ``hosts`` and ``counter``
    are of its card, whose definition names the disks ``paths``. ``files`` are those of their old
    and new names that exist; ``linked`` the new names that are the same file as the old one.
    ``defined`` are the disks of the domain on ``new``, None without one; ``autostart`` is what its
    card says, ``starts_at_boot`` what libvirt has. ``hindrance``: why what is defined there is no
    leftover of the VM. ``blockers`` prevent that it is taken over, whatever was done of it;
    ``locked`` are files that a process has open for writing. ``card`` is the card's file.
    """

    name: str
    old: tuple[str, ...]
    new: str
    hosts: tuple[str, ...]
    counter: int
    paths: tuple[str, ...]
    files: frozenset[str] = frozenset()
    linked: frozenset[str] = frozenset()
    defined: tuple[str, ...] | None = None
    autostart: bool = False
    starts_at_boot: bool = False
    phase: str | None = None
    hindrance: str | None = None
    blockers: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    card: str = ""

    @property
    def begun(self) -> bool:
        """Whether ``new`` has taken the card, and not handed it over to itself yet."""
        before = self.hosts[:-1]
        return bool(before) and self.hosts[-1] == self.new and set(before) <= set(self.old)

    @property
    def is_defined(self) -> bool:
        """Whether ``new`` has the VM of the card. One with none of its disks is a leftover: the VM
        was there once, and is defined again."""
        return self.defined is not None and not self._files_of_card.isdisjoint(self.defined)

    @property
    def _files_of_card(self) -> frozenset[str]:
        return frozenset({*self.paths, *targets_of(self)})

    @property
    def hosts_before(self) -> tuple[str, ...]:
        """Those of the card's that may have had the VM before."""
        return tuple(host for host in self.hosts if host != self.new)

    @property
    def is_over(self) -> bool:
        """Whether the VM is on ``new``, and nowhere else by its card."""
        return self.hosts == (self.new,)


@dataclass(frozen=True)
class TakeCard(Action):
    """Rename the card, so that only ``new`` works on the VM."""


@dataclass(frozen=True)
class RenameDisk(Action):
    """Give a disk its new name."""

    path: str
    target: str
    linked: bool


@dataclass(frozen=True)
class WriteCard(Action):
    """Write the card with the new names of the disks."""

    targets: tuple[str, ...]
    counter: int


@dataclass(frozen=True)
class DefineVm(Action):
    """Define the domain as the card says."""


@dataclass(frozen=True)
class SetAutostart(Action):
    """Have libvirt start it when this host boots, as the card says."""


@dataclass(frozen=True)
class HandOver(Action):
    """Rename the card once more: the VM is on ``new``."""


def disk_name(path: str, counter: int) -> str:
    """The name of a disk after the VM was restarted elsewhere for the ``counter``-th time."""
    folder, name = posixpath.split(path)
    stem, dot, suffix = name.rpartition(".")
    if not stem:  # no suffix, or nothing before it
        stem, dot, suffix = name, "", ""
    stem = _COUNTED.sub("", stem)
    return posixpath.join(folder, f"{stem}.r{counter}{dot}{suffix}")


def next_counter(paths: t.Iterable[str], counter: int) -> int:
    """The counter of the next names. A card that was lost, or removed while the VM had a disk
    elsewhere, begins at none again, and the disks still have the names that it gave them."""
    names = [posixpath.basename(path) for path in paths]
    return 1 + max([counter, *(int(count) for name in names for count in _COUNTS.findall(name))])


def new_names(paths: t.Collection[str], counter: int) -> tuple[str, ...]:
    """The names that disks get whose card has that ``counter``."""
    following = next_counter(paths, counter)
    return tuple(disk_name(path, following) for path in paths)


def targets_of(facts: RestartFacts) -> tuple[str, ...]:
    """The names that the disks get."""
    return new_names(facts.paths, facts.counter)


def take_over(facts: RestartFacts) -> Plan[RestartFacts]:
    """The steps until the domain is defined, none if it is; they may begin at any state that an
    interrupted run has left."""
    if facts.is_over or (facts.begun and facts.is_defined):
        problem = _not_as_defined(facts)
        return Plan((), (problem,)) if problem else Plan(tuple(_boot_steps(facts)))
    refusals = [*_not_left(facts), *facts.blockers, *_refusals(facts)]
    if refusals:
        return Plan((), tuple(refusals))
    steps: list[Step[RestartFacts]] = []
    name, new = facts.name, facts.new
    if not facts.begun:
        text = f"take the card of {name} from {' and '.join(facts.hosts)}"
        steps.append(Step(TakeCard(), text, _taken))
    targets = targets_of(facts)
    for path, target in zip(facts.paths, targets):
        if path in facts.files:
            steps.append(_rename(path, target, linked=target in facts.linked))
    counter = next_counter(facts.paths, facts.counter)
    after = _written(targets, counter)
    written = WriteCard(targets, counter)
    steps.append(Step(written, f"write the new names of the disks into the card of {name}", after))
    left = "" if facts.defined is None else ", in place of what is left of it there from before"
    steps.append(Step(DefineVm(), f"define {name} on {new}{left}", _defined))
    return Plan((*steps, *_boot_steps(facts)))


def _boot_steps(facts: RestartFacts) -> t.Iterator[Step[RestartFacts]]:
    """Before it is started, which makes its card be as the VM is."""
    if facts.autostart and not facts.starts_at_boot and not facts.is_over:
        text = f"start {facts.name} when {facts.new} boots"
        yield Step(SetAutostart(), text, _starting_at_boot)


def hand_over(facts: RestartFacts) -> Plan[RestartFacts]:
    """The last step, once the VM is defined and, if it is to run, started."""
    if facts.is_over:
        return Plan()
    if not facts.begun or not facts.is_defined:
        return Plan((), (f"{facts.name!r} was not taken over by {facts.new}",))
    problem = _not_as_defined(facts)
    if problem:
        return Plan((), (problem,))
    done = Step(HandOver(), f"the card of {facts.name} names {facts.new} alone", _handed_over)
    return Plan((done,))


def second_card(path: str, other: str) -> str:
    """That a VM has another card than that in the file ``path``."""
    return (
        f"{TWO_CARDS}, {path} and {other}; see which of them is"
        " current, and move the other out of the folder, unless stat shows one file under two"
        " mounts: unmount one of these then"
    )


def _not_left(facts: RestartFacts) -> t.Iterator[str]:
    """Why the definition on ``new`` stays, which another one would replace."""
    if facts.hindrance is not None:
        card = facts.card or f"the card of {facts.name}"
        yield (
            f"{facts.new} has {facts.name!r} itself, and no leftover of it: {facts.hindrance}; see"
            f" which is current: if what {facts.new} has, remove {card} and run"
            f" {playbook_command('repair_vms')}; else stop and undefine it there"
        )


def _refusals(facts: RestartFacts) -> t.Iterator[str]:
    name = facts.name
    if not (facts.begun or set(facts.hosts) <= set(facts.old)):
        again = playbook_command("restart_elsewhere", virt_host=",".join(facts.old))
        yield (
            f"the card of {name!r} names {' and '.join(facts.hosts)}, not {' or '.join(facts.old)}"
            f" alone; run this again: {again}"
        )
    yield from locks(facts)
    targets = targets_of(facts)
    if len({*targets, *facts.paths}) != 2 * len(facts.paths):
        yield f"two disks of {name!r} would have one name, {', '.join(targets)}; rename one of them"
    for path, target in zip(facts.paths, targets):
        if path not in facts.files and target not in facts.files:
            yield f"{path} of {name!r} does not exist; put it back, or mount its storage"
        elif path in facts.files and target in facts.files and target not in facts.linked:
            yield f"{target} exists, and no disk may ever have had that name; move it away"


def locks(facts: RestartFacts) -> list[str]:
    """That disks are in use."""
    return [
        f"{path} is locked: a process still writes to the disk of {facts.name!r}, so"
        f" {' or '.join(facts.hosts_before)} is not off, or something else uses it; nothing was"
        " renamed. Switch that off, and run this again"
        for path in facts.locked
    ]


def _not_as_defined(facts: RestartFacts) -> str:
    """Why the domain that is defined on ``new`` is not the one that the card describes."""
    if facts.defined is None:
        return keep.not_there(facts.card, CardName(facts.name, facts.hosts), facts.new)
    if facts.phase is not None:
        return (
            f"{facts.name!r} on {facts.new} is in phase {facts.phase}; end what was begun there"
            f" first: {playbook_command('repair_vms', vm_name=facts.name)}"
        )
    if facts.begun and facts.defined != facts.paths:
        return (
            f"{facts.name!r} on {facts.new} has other disks than its card says; compare virsh"
            f" dumpxml {facts.name} with the card"
        )
    return ""


def _rename(path: str, target: str, *, linked: bool) -> Step[RestartFacts]:
    def link(facts: RestartFacts) -> RestartFacts:
        files, both = facts.files | {target}, facts.linked | {target}
        return dataclasses.replace(facts, files=files, linked=both)

    def renamed(facts: RestartFacts) -> RestartFacts:
        files = (facts.files | {target}) - {path}
        return dataclasses.replace(facts, files=files, linked=facts.linked - {target})

    text = f"rename {path} to {posixpath.basename(target)}"
    return Step(RenameDisk(path, target, linked), text, renamed, torn=(link,))


def _taken(facts: RestartFacts) -> RestartFacts:
    return dataclasses.replace(facts, hosts=(*facts.hosts, facts.new))


def _written(targets: tuple[str, ...], counter: int) -> t.Callable[[RestartFacts], RestartFacts]:
    return lambda facts: dataclasses.replace(facts, paths=targets, counter=counter)


def _starting_at_boot(facts: RestartFacts) -> RestartFacts:
    return dataclasses.replace(facts, starts_at_boot=True)


def _defined(facts: RestartFacts) -> RestartFacts:
    return dataclasses.replace(facts, defined=facts.paths)


def _handed_over(facts: RestartFacts) -> RestartFacts:
    return dataclasses.replace(facts, hosts=(facts.new,))
