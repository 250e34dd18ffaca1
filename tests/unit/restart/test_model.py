# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every history of a VM that is restarted elsewhere, with the steps that the product plans.

Three hypervisors share storage; the VM is on A at first, or a move of it from A to B was killed.
Two controllers, each of which may be killed after any effect; hypervisors that hang, die, and come
back; people who say that one is off although it only hangs; leases of locks that lapse. Each
sentence on which the design rests is left out in turn, and then a history that breaks a promise
must be found.
"""

from __future__ import annotations

import functools
import typing as t
from collections import deque

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import Plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.plan import RestartFacts

HOSTS = "ABC"
PATH = "/shared/web1.qcow2"
ON, HUNG, OFF = "on", "hung", "off"
_KILLS = 1
_LIES = 1


class Host(t.NamedTuple):
    """``defined`` is the disk of the VM's definition; ``marked``: as being moved; ``runs``: with
    the disk open for writing; ``lapsed``: the storage has taken the lock from a process that hangs.
    """

    power: str = ON
    defined: str | None = None
    marked: bool = False
    at_boot: bool = False
    runs: bool = False
    lapsed: bool = False


class Card(t.NamedTuple):
    hosts: tuple[str, ...]
    counter: int
    path: str


class Run(t.NamedTuple):
    """A controller in the middle of its work: on ``new``, what it read, and the steps that remain,
    by their number in that plan. ``late``: handing over."""

    old: tuple[str, ...]
    new: str
    facts: RestartFacts
    step: int = 0
    late: bool = False


class World(t.NamedTuple):
    hosts: tuple[Host, ...]
    card: Card
    names: frozenset[str]
    runs: tuple[Run | None, ...] = (None, None)
    trouble: int = 0
    kills: int = 0
    lies: int = 0
    broken: str = ""  # a promise


class Sentences(t.NamedTuple):
    """What the design says; False: it is left out."""

    probed: bool = True  # the lock of the disk is looked at before anything is renamed
    proven: bool = True  # a hypervisor that nobody calls off is off
    all_proven: bool = True  # each that the card names, but for the one that takes over
    card_looked_at: bool = True  # before each step, whether another has taken it meanwhile
    single_taker: bool = True  # a card that another has taken is not taken
    names_used_once: bool = True  # names of disks carry the counter
    renamed: bool = True  # disks get other names at all
    lapse_ends_writing: bool = True  # who lost its lock writes no more
    truthful: bool = False  # nobody says that one is off which only hangs
    trouble: int = 3  # how often hypervisors hang or die in one history


START = World(
    (Host(defined=PATH, at_boot=True, runs=True), Host(), Host()),
    Card(("A",), 0, PATH),
    frozenset({PATH}),
)
# Killed before the VM arrived, and after: that is trouble enough
DEPARTING = START._replace(card=Card(("A", "B"), 0, PATH), trouble=1)
ARRIVED = DEPARTING._replace(
    hosts=(
        Host(defined=PATH, marked=True),
        Host(defined=PATH, marked=True, at_boot=True, runs=True),
        Host(),
    )
)
STARTS = (START, DEPARTING, ARRIVED)


def _set(world: World, name: str, **changes: t.Any) -> World:
    hosts = list(world.hosts)
    place = HOSTS.index(name)
    hosts[place] = hosts[place]._replace(**changes)
    return world._replace(hosts=tuple(hosts))


def _host(world: World, name: str) -> Host:
    return world.hosts[HOSTS.index(name)]


def _locked(world: World) -> bool:
    return any(host.runs and not host.lapsed for host in world.hosts)


def _boot(world: World, name: str, rules: Sentences) -> World:
    """What libvirt does by itself."""
    host = _host(world, name)
    world = _set(world, name, power=ON, lapsed=False)
    if host.power == HUNG and host.runs and host.lapsed:
        runs = not rules.lapse_ends_writing
        return _set(world, name, runs=runs)
    if host.power == OFF and host.at_boot and host.defined in world.names:
        if name not in world.card.hosts:
            return world._replace(broken=f"{name} starts a stale definition")
        if not _locked(world):
            return _set(world, name, runs=True)
    return world


def _happenings(world: World, rules: Sentences) -> t.Iterator[World]:
    """What nobody of us does."""
    for name, host in zip(HOSTS, world.hosts, strict=True):
        if host.power == ON and world.trouble < rules.trouble:
            more = world._replace(trouble=world.trouble + 1)
            if host.runs:
                yield _set(more, name, power=HUNG)
            yield _stopped(_set(more, name, power=OFF, runs=False, lapsed=False), name)
        if host.power == HUNG and host.runs and not host.lapsed:
            yield _set(world, name, lapsed=True)
        if host.power != ON:
            yield _boot(world, name, rules)
        if host.power == HUNG:
            yield _set(world, name, power=OFF, runs=False, lapsed=False)
    for number, run in enumerate(world.runs):
        if run is not None and world.kills < _KILLS:
            yield _ended(world._replace(kills=world.kills + 1), number)


def _stopped(world: World, name: str) -> World:
    """Without the controllers' work on a hypervisor that is off."""
    runs = tuple(None if run and run.new == name else run for run in world.runs)
    return world._replace(runs=runs)


def _ended(world: World, number: int) -> World:
    runs = list(world.runs)
    runs[number] = None
    return world._replace(runs=tuple(runs))


def _facts(world: World, old: tuple[str, ...], new: str, rules: Sentences) -> RestartFacts:
    card = world.card
    paths = {card.path, plan.disk_name(card.path, card.counter + 1)}
    files = frozenset(paths & world.names)
    both = files if len(files) == 2 else frozenset()
    own = _host(world, new).defined
    return RestartFacts(
        name="web1",
        old=old,
        new=new,
        hosts=card.hosts,
        counter=card.counter,
        paths=(card.path,),
        files=files,
        linked=both - {card.path},
        defined=None if own is None else (own,),
        autostart=True,
        starts_at_boot=_host(world, new).at_boot,
        phase="migrating" if _host(world, new).marked else None,
        locked=(card.path,)
        if not _host(world, new).runs and rules.probed and _locked(world)
        else (),
    )


def _begun(world: World, number: int, rules: Sentences) -> t.Iterator[World]:
    """A controller begins: somebody says which hypervisor is off, and where the VM is to go."""
    named = world.card.hosts
    for new in HOSTS:
        busy = any(run is not None and run.new == new for run in world.runs)
        if busy or _host(world, new).power != ON:
            continue
        if new in named and (len(named) == 1 or named[-1] != new):
            continue  # it has the VM, or is the source of its move
        old = tuple(host for host in named if host != new)
        hosts = [_host(world, host) for host in old]
        # the only one, or the one that somebody asks for, if the rest is not looked at
        asked = hosts if rules.all_proven else hosts[:1]
        if any(host.power == ON for host in asked):
            continue  # it answers
        lied = any(host.power == HUNG for host in asked) and rules.proven
        if lied and (rules.truthful or world.lies >= _LIES):
            continue
        facts = _facts(world, old, new, rules)
        late = facts.is_over or (facts.begun and _is_ready(world, new))
        made = _planned(facts, late=late)
        if made.refusals or (late and not made.steps):
            continue
        runs = list(world.runs)
        runs[number] = Run(old, new, facts, late=late)
        yield world._replace(runs=tuple(runs), lies=world.lies + lied)


@functools.cache
def _planned(facts: RestartFacts, *, late: bool) -> Plan[RestartFacts]:
    return plan.hand_over(facts) if late else plan.take_over(facts)


def _is_ready(world: World, new: str) -> bool:
    return _host(world, new).runs


def _next(world: World, number: int, rules: Sentences) -> t.Iterator[World]:
    """The next effect of a controller."""
    run = world.runs[number]
    if run is None:
        yield from _begun(world, number, rules)
        return
    made = _planned(run.facts, late=run.late)
    if run.step == len(made.steps):
        yield from _after(world, number, run, rules)
        return
    action = made.steps[run.step].action
    on = run._replace(step=run.step + 1)
    runs = list(world.runs)
    runs[number] = on
    after = world._replace(runs=tuple(runs))
    card = world.card
    if isinstance(action, (plan.TakeCard, plan.HandOver)):
        hosts = (*run.facts.hosts, run.new) if isinstance(action, plan.TakeCard) else (run.new,)
        taken = (card.hosts, card.counter) != (run.facts.hosts, run.facts.counter)
        if taken and rules.single_taker:  # its file is another
            yield _ended(world, number)
        else:
            yield after._replace(card=card._replace(hosts=hosts))
    elif rules.card_looked_at and card.hosts != (*run.old, run.new):
        yield _ended(world, number)
    elif isinstance(action, plan.RenameDisk):
        if rules.probed and _locked(world):
            yield _ended(world, number)
        elif not rules.renamed:
            yield after
        else:
            yield from _renamed(world, after, number, action)
    elif isinstance(action, plan.WriteCard):
        path = action.targets[0] if rules.renamed else card.path
        yield after._replace(card=card._replace(path=path, counter=action.counter))
    elif isinstance(action, plan.DefineVm):
        yield _set(after, run.new, defined=card.path)
    else:
        yield _set(after, run.new, at_boot=True)


def _renamed(world: World, after: World, number: int, action: plan.RenameDisk) -> t.Iterator[World]:
    if action.path not in world.names:
        yield _ended(world, number)
        return
    if _locked(world):
        after = after._replace(broken="a disk is renamed while a process writes to it")
    yield _ended(world._replace(names=world.names | {action.target}), number)  # killed in between
    yield after._replace(names=(world.names | {action.target}) - {action.path})


def _after(world: World, number: int, run: Run, rules: Sentences) -> t.Iterator[World]:
    """What follows the plan: it is started, then handed over."""
    world = _ended(world, number)
    host = _host(world, run.new)
    if not run.late and not host.runs and not _locked(world) and host.defined in world.names:
        world = _set(world, run.new, runs=True)
    if not run.late and _host(world, run.new).runs:
        facts = _facts(world, run.old, run.new, rules)
        if not plan.hand_over(facts).refusals and facts.begun:
            runs = list(world.runs)
            runs[number] = Run(run.old, run.new, facts, late=True)
            world = world._replace(runs=tuple(runs))
    yield world


def _promises(world: World) -> str:
    """The promise that this state breaks, if any."""
    if world.broken:
        return world.broken
    if sum(host.runs and not host.lapsed for host in world.hosts) > 1:
        return "two processes write to the disk"
    if not world.names:
        return "the disk is lost"
    for name, host in zip(HOSTS, world.hosts, strict=True):
        stale = host.defined is not None and name not in world.card.hosts
        if stale and host.defined == world.card.path and not host.runs:
            return f"a definition on {name} fits, though the card does not name it"
    return ""


def _ends_well(world: World, rules: Sentences) -> str:
    """Why a run that nothing disturbs does not bring the VM back, if its hypervisor is off."""
    world = world._replace(runs=(None, None), kills=_KILLS, lies=_LIES)
    for _attempt in range(3):
        if any(host.runs for host in world.hosts):
            return ""
        *before, last = world.card.hosts
        powers = {_host(world, host).power for host in before or [last]}
        if powers != {OFF} or _host(world, last).power == HUNG:
            return ""  # one answers
        if _host(world, last).power == ON and _host(world, last).marked:
            return ""  # and has it
        begun = next(_begun(world, 0, rules), None)
        if begun is None:
            on = [name for name in HOSTS if _host(world, name).power == ON]
            return f"nobody of {on} can restart it" if on else ""
        world = begun
        while world.runs[0] is not None:
            *_, world = _next(world, 0, rules)
    return "" if any(host.runs for host in world.hosts) else "it does not end"


def _in_order(world: World) -> World:
    """The same with its controllers in order: which is which does not matter."""
    one, other = world.runs
    if other is None or (one is not None and one.new <= other.new):
        return world
    return world._replace(runs=(other, one))


def _search(rules: Sentences, *starts: World) -> tuple[int, list[str]]:
    """The number of states, and the first history that breaks a promise."""
    before: dict[World, World | None] = dict.fromkeys(starts or STARTS)
    todo = deque(before)
    while todo:
        world = todo.popleft()
        problem = _promises(world) or _ends_well(world, rules)
        if problem:
            history = [problem]
            at: World | None = world
            while at is not None:
                history.append(str(at))
                at = before[at]
            return len(before), history[::-1]
        following = list(_happenings(world, rules))
        for number in range(2):
            following += _next(world, number, rules)
        for after in map(_in_order, following):
            if after not in before:
                before[after] = world
                todo.append(after)
    return len(before), []


def test_restart_in_all_histories_keeps_promises() -> None:
    states, history = _search(Sentences())
    print(f"{states} states")
    assert not history, "\n".join(history)
    assert states > 1_000


@pytest.mark.parametrize(
    "sentence",
    [
        "probed",
        "single_taker",
        "names_used_once",
        "renamed",
        "lapse_ends_writing",
        "card_looked_at",
    ],
)
def test_restart_without_sentence_breaks_a_promise(
    sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sentence == "names_used_once":
        named = plan.disk_name
        _planned.cache_clear()
        monkeypatch.setattr(plan, "disk_name", lambda path, _counter: named(path, 1))
    _states, history = _search(Sentences()._replace(**{sentence: False}))
    _planned.cache_clear()
    assert history, "nothing rests on it"
    print(history[-1])


def test_proof_suffices_where_locks_do_not() -> None:
    """And without it, locks that a storage gives away are not enough. One trouble: a hypervisor
    that is switched on again while its VMs are taken over, and then hangs, needs the locks."""
    unlocked = Sentences(truthful=True, lapse_ends_writing=False, trouble=1)
    history = _search(unlocked)[1]
    assert not history, "\n".join(history)
    assert _search(unlocked._replace(proven=False))[1]


def test_source_and_destination_have_to_be_proven_off() -> None:
    """Its source is off already; where only one of them is looked at, the other may hang."""
    unlocked = Sentences(truthful=True, lapse_ends_writing=False, trouble=2)
    start = _set(ARRIVED, "A", power=OFF)
    assert not _search(unlocked, start)[1]
    history = _search(unlocked._replace(all_proven=False), start)[1]
    assert history[-1] == "two processes write to the disk" if history else history
