# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking VMs over whose hypervisor is off, on the one that runs them from now on."""

from __future__ import annotations

import dataclasses
import functools
import os
import posixpath
import typing as t
from collections.abc import Mapping

from ... import _lxml
from ..._errors import PlanRefused
from ..._records import dataclass
from ..base import effects_definitions as domains
from ..base import effects_files as files
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, find_uuid
from ..base.read_file_identity import is_same
from ..cards import effects_cards, read_cards, read_leftovers, read_vms
from ..cards.card import Card, CardFile, CardName, disk_files
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.steps import Action, Plan
from ..fencing.plan import alive
from ..fencing.read_silence import sign_of_life
from ..storage import effects_storage as storage
from ..storage import read_file_users as file_users
from . import definition, named, read
from . import plan as restart_plan
from .options import RestartOptions, RestartWork, SeenCard
from .plan import DefineVm, HandOver, RenameDisk, RestartFacts, SetAutostart, TakeCard, WriteCard

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_LOCK_SECONDS = 300.0


@dataclass
class _RestartJob(verb.Job[RestartFacts]):
    """One VM. ``file`` is its card as it is now, ``machine`` what that said at first, ``here`` this
    hypervisor's own, ``places`` where files may be that a card names."""

    file: CardFile
    running: bool
    machine: str | None = None
    here: str | None = None
    places: named.Places = named.Places()

    @property
    def card(self) -> Card:
        """Its card."""
        return read.card_of(self.file)

    def step_is_done(self) -> None:
        super().step_is_done()
        self.after = self.step.effect(self.after)

    def keep_cards(self) -> None:
        """The steps do that: until it is handed over, the card names both hypervisors."""

    def entry(self) -> verb.Shown:
        # one that the collection has seeded has a user who can log in
        waits = self.running and self.card.stored.user is not None
        return {"steps": self.steps, "running": self.running, "waits": waits}

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        before, after = self.facts, self.after
        return (
            {"hypervisors": [*before.hosts], "disks": [*before.paths]},
            {"hypervisors": [*after.hosts], "disks": [*after.paths]},
        )


def run(
    connection: Connection, options: RestartOptions, work: RestartWork, *, check: bool
) -> Mapping[str, object]:
    """Take over the VMs that ``names`` says, or hand over their cards; the module's result.

    That the other hypervisor is off was proven before; one that answers all the same is refused.
    """
    verb.require_local(connection, "disks are renamed where they are mounted")
    old = options["host"]
    asked = [place for place in options["addresses"] or old if place not in work.ignored]
    sign = sign_of_life(asked, options["ports"])
    if sign is not None:
        raise PlanRefused(alive(old, sign, fenced=False))
    late = work.stage == "finish"
    planner = restart_plan.hand_over if late else restart_plan.take_over
    seen = {card.name: card for card in work.seen}

    def job(here: read.Here, name: str) -> _RestartJob:
        try:
            file = _card_of(here, name, old, seen.get(name), late=late)
            card = read.card_of(file)
        except PlanRefused as error:  # of this VM, and no other is kept from being taken over
            nothing = RestartFacts(name, tuple(old), here.name, (), 0, ())
            none = CardFile("", CardName(name, ()), problem=str(error))
            refused = Plan[RestartFacts]((), (str(error),))
            return _RestartJob(connection, name, None, nothing, refused, none, running=False)
        facts = read.facts_of(connection, file, here, old)
        if check and work.unlocking:
            facts = dataclasses.replace(facts, locked=())
        plan = planner(facts)
        own = (card.running, card.machine, here.machine, here.places)
        return _RestartJob(connection, name, card.uuid, facts, plan, file, *own)

    def jobs() -> list[_RestartJob]:
        names = list(dict.fromkeys(options["names"]))
        read_here = read.read_named if late else read.read_all
        here = read_here(connection, options)
        return [job(here, name) for name in names]

    with owners.host_lock(_LOCK_SECONDS, "restart"):
        return verb.run(
            connection, options["names"], jobs, _ACTIONS.carry_out, check=check, together=False
        )


def _card_of(
    here: read.Here, name: str, old: t.Sequence[str], seen: SeenCard | None, *, late: bool
) -> CardFile:
    """The card of a VM that names a hypervisor that is off, or this one once it was handed over: of
    a VM that was looked at exactly the file that was seen then, in its folder. ``late``: this run
    has written that anew since."""
    of_vm = [file for file in here.files if file.at.name == name]
    ours = [file for file in of_vm if not {*old}.isdisjoint(file.at.hosts)]
    ours = ours or [file for file in of_vm if file.at.hosts == (here.name,)]
    if seen is not None:
        folder = posixpath.dirname(seen.path)
        ours = [
            file
            for file in ours
            if file.folder == folder and file.card is not None and file.card.uuid == seen.uuid
            if late or (file.path == seen.path and is_same(file.identity, seen.identity))
        ]
    if not ours:
        named = " or ".join(old)
        raise PlanRefused(
            f"{here.name} sees no card of {name!r} that names {named}"
            + (f", or {seen.path} is no longer the file that was looked at" if seen else "")
            + "; run this again"
        )
    if len(ours) > 1:
        raise PlanRefused(f"{name!r} stays: {restart_plan.second_card(ours[0].path, ours[1].path)}")
    return ours[0]


def _take(job: _RestartJob, _step: TakeCard) -> None:
    at = job.card.at.on(*job.facts.hosts, job.facts.new)
    effects_cards.take(job.file.folder, job.card.at, at, job.file.identity)
    _read_again(job, at)


def _give_back(job: _RestartJob, _step: TakeCard) -> None:
    at = job.card.at.on(*job.facts.hosts)
    effects_cards.take(job.file.folder, job.card.at, at, job.file.identity)
    _read_again(job, at)


def _read_again(job: _RestartJob, at: CardName) -> None:
    job.file = read_cards.load(job.file.folder, at)


A = t.TypeVar("A", bound=Action)


def _guarded(act: t.Callable[[_RestartJob, A], None]) -> t.Callable[[_RestartJob, A], None]:
    """The same, but only while the card is the one that this run has taken: a hypervisor that hung
    meanwhile, and was said to be off, is no longer the one that works on the VM."""

    def guarded(job: _RestartJob, step: A) -> None:
        if not effects_cards.is_same(job.file.folder, job.file.at, job.file.identity):
            raise PlanRefused(
                f"{job.file.path} is gone: another hypervisor has taken it; nothing more is done"
                " here"
            )
        act(job, step)

    return guarded


def _rename(_job: _RestartJob, step: RenameDisk) -> None:
    """Nothing is ever replaced: a link fails where something has the name."""
    if file_users.is_locked(step.path):
        raise PlanRefused(f"{step.path} is locked: a process writes to it again")
    _link(step.path, step.target)


def _rename_back(_job: _RestartJob, step: RenameDisk) -> None:
    if os.path.lexists(step.target):
        _link(step.target, step.path)


def _link(before: str, after: str) -> None:
    folder = posixpath.dirname(after)
    if not (os.path.lexists(after) and os.path.samefile(before, after)):
        try:
            os.link(before, after, follow_symlinks=False)
        except OSError as error:
            raise PlanRefused(f"{after}: {error.strerror or error}") from None
        files.flush(folder)
    os.unlink(before)
    files.flush(folder)


def _write(job: _RestartJob, step: WriteCard) -> None:
    card = job.card
    names = dict(zip(card.disks, step.targets))
    root = definition.with_disks(card.root, names)
    text = _lxml.tostring(root)
    written = dataclasses.replace(card, definition=text, counter=step.counter, machine=job.here)
    _write_card(job, written)


def _write_card(job: _RestartJob, card: Card) -> None:
    with effects_cards.lock():
        effects_cards.write(job.file.folder, card)
    _read_again(job, card.at)


def _write_back(job: _RestartJob, _step: WriteCard) -> None:
    """The counter stays: should libvirt have the definition all the same, whose answer did not
    come, no disk ever gets the names in it."""
    names = dict(zip(job.card.disks, job.facts.paths))
    root = definition.with_disks(job.card.root, names)
    text = _lxml.tostring(root)
    before = dataclasses.replace(job.card, definition=text, machine=job.machine)
    _write_card(job, before)


def _define(job: _RestartJob, _step: DefineVm) -> None:
    card = job.card
    for folder in sorted({posixpath.dirname(path) for path in card.disks}):
        pool = storage.pool_at(job.connection, folder)
        usable = None if pool is None else storage.find_pool(job.connection, pool, None)
        if usable is not None:  # so that libvirt knows the new names
            refresh = functools.partial(usable.existing.refresh, 0)
            storage.patiently(job.connection, f"refresh pool {pool}", refresh)
    # The card has been read again since it was judged, and others can write it
    root = read.ready(job.connection, card.root, job.places)
    strangers = read.strangers(root, job.places)
    if strangers:
        raise PlanRefused("; ".join(strangers))
    _remove_leftover(job)
    text = _lxml.tostring(root)
    domains.define(job.connection, f"define {card.name}", text)


def _undefine(job: _RestartJob, _step: DefineVm) -> None:
    """Else another hypervisor gives the disks the names that this definition has."""
    dom = find_uuid(job.connection, job.card.uuid)
    if dom is not None and job.connection.call(f"read whether {job.name} runs", dom.isActive):
        raise PlanRefused(f"{job.name!r} runs on {job.facts.new} by now")
    if dom is not None:
        domains.undefine(job.connection, dom, keep_nvram=True)


def _remove_leftover(job: _RestartJob) -> None:
    """Undefine what is left of the VM here, with the autostart that it had; raises PlanRefused if
    there is more of it, or anything else than was planned for."""
    card = job.card
    left = find_uuid(job.connection, card.uuid)
    vm = None if left is None else read_vms.vm_of(job.connection, left)
    if left is None:
        return
    shared = read_vms.shared_folders(job.connection)
    why: str | None = "it runs there without a definition"
    if vm is not None:
        why = read_leftovers.hindrance(job.connection, left, vm, shared, card, card.disks)
        named = tuple(path for path in disk_files(read_vms.root(vm)) or () if path)
        if why is None and named != job.facts.defined:
            why = "it was defined meanwhile"
    if why is not None:
        raise PlanRefused(f"{job.facts.new} has {job.name!r} itself: {why}; run this again")
    domains.undefine(job.connection, left, keep_nvram=True)


def _set_autostart(job: _RestartJob, _step: SetAutostart) -> None:
    job.connection.call("switch autostart on", _domain(job).setAutostart, 1)


def _domain(job: _RestartJob) -> VirDomain:
    dom = find_domain(job.connection, job.name)
    if dom is None:
        raise PlanRefused(f"{job.name!r} is no longer here; run this again")
    return dom


def _hand_over(job: _RestartJob, _step: HandOver) -> None:
    _domain(job)
    at = job.card.at.on(job.facts.new)
    effects_cards.take(job.file.folder, job.card.at, at, job.file.identity)
    _read_again(job, at)


_ACTIONS = (
    verb.Actions[_RestartJob]()
    .on(TakeCard, _take, _give_back)
    .on(RenameDisk, _guarded(_rename), _guarded(_rename_back))
    .on(WriteCard, _guarded(_write), _guarded(_write_back))
    .on(DefineVm, _guarded(_define), _guarded(_undefine))
    .on(SetAutostart, _guarded(_set_autostart))
    .on(HandOver, _hand_over)
)
