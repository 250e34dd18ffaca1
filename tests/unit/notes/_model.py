# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every order of the steps with which controllers create one VM, and of faults meanwhile.

A step is one effect or one reading on one hypervisor. Faults strike a contact, as nobody notices
them earlier. The contact is in vain. The message arrives only after the controller gave up. A run
is killed while it writes a reading. Another machine has the hypervisor's name by then, and the old
one, somewhere, its VMs. With a hypervisor that is doubtful any contact of anybody may be in vain,
and the next may not: it is down, hangs, returns, or is cut off from some, from any moment on, which
covers every time of that fault. A run that crashed is one that does not go on: it may stop after
every step, which needs no fault here.

Three things keep the number of states small, and leave no history out. Time of a hypervisor's
clock counts the changes of its VMs, since readings between two changes say the same. Where
hypervisors are alike, the first controller's VM is on the first of them, whatever it is called. And
what an actor does on one hypervisor changes places with everything that others do elsewhere, so it
is done as soon as it can be, or after another's next contact of that hypervisor (where it only
reads: after its next change), or never.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ._product import Looked, Placed, Product, Seen, Vm

UNREAD, WRITTEN = "unread", "written"
# Due no more until another contact of the same hypervisor
WAITING = {UNREAD: "unread, waits", WRITTEN: "written, waits"}
WOKEN = {waits: due for due, waits in WAITING.items()}
Answer = t.Union[Seen, str, None]  # None did not answer
NONE: frozenset[str] = frozenset()


class Host(t.NamedTuple):
    """A hypervisor."""

    machine: str
    vm: Vm = None
    held: frozenset[str] = NONE
    torn: frozenset[str] = NONE
    clock: int = 0
    doubtful: bool = False  # any contact may be in vain


class Actor(t.NamedTuple):
    """A run of a controller; ``detached``: its controller gave it up, but its module goes on."""

    controller: int
    runs: int  # that may yet begin
    number: int = 0  # of runs and rounds so far
    phase: str = "idle"
    round: int = 0
    answers: tuple[Answer, ...] = ()
    looked: Looked = ()
    told: frozenset[str] = NONE
    torn: frozenset[str] = NONE
    placed: Placed | None = None
    home: str = ""
    facts: Seen | None = None
    retries: bool = False
    doomed: bool = False  # it is settled that it withdraws
    waits: bool = False
    asks: bool = True  # what is noted, if that is needed
    detached: bool = False

    @property
    def run(self) -> str:
        """The run's UUID."""
        return f"{self.controller:08x}-0000-4000-8000-{self.number:012x}"


class State(t.NamedTuple):
    """The fleet, and what runs."""

    hosts: tuple[Host, ...]
    actors: tuple[Actor, ...]
    faults: int  # that may yet be
    gone: int = 0  # built VMs on machines whose name another has


@dataclass(frozen=True)
class Setting:
    """Hypervisors, the inventory of each controller, and what may happen.

    ``kinds`` are the faults that there are. Of each of ``noted`` every hypervisor holds a reading
    of every other. ``homes`` are the hypervisors on which each controller may put the VM.
    """

    name: str
    inventories: tuple[str, ...]
    runs: tuple[int, ...]
    faults: int
    kinds: str = "silent late other torn"
    noted: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    rounds: int = 1  # more of a run, after a conflict
    doubtful: str = ""  # hypervisors of which every contact may be in vain
    down: str = ""  # and of which every contact is
    begins: tuple[str, ...] = ()  # the first steps, where not all are tried
    in_turn: bool = False  # a controller begins once those before it have ended, or crashed


Move = tuple[str, State]
HOME_PHASES = ("claim", "build", "finish", "withdraw")


class Model:
    """The states of a setting, by the steps of a product."""

    def __init__(self, product: Product, setting: Setting, names: str = "") -> None:
        self.product, self.setting = product, setting
        self.names = sorted(set("".join(setting.inventories) + names))
        self.kinds = setting.kinds.split()

    def first(self) -> State:
        """The state in which nothing has happened."""
        machines = {name: machine_of(name) for name in self.names}
        hosts = []
        for name in self.names:
            known = {
                self.product.reading(other, machines[other], 0, None).volume
                for inventory in self.setting.noted
                if name in inventory
                for other in inventory
                if other != name
            }
            doubtful = name in self.setting.doubtful
            hosts.append(Host(machines[name], held=frozenset(known), doubtful=doubtful))
        actors = [Actor(n, runs) for n, runs in enumerate(self.setting.runs)]
        state = State(tuple(hosts), tuple(actors), self.setting.faults)
        for step in self.setting.begins:
            state = next(after for label, after in self.moves(state) if label == step)
        return state

    def moves(self, state: State) -> t.Iterator[Move]:
        """Every next step of every actor, and every fault that it may meet."""
        for number, actor in enumerate(state.actors):
            if self.setting.in_turn and actor.phase != "idle" and not actor.detached:
                yield f"{_who(actor)} crashes", _with(state, number, self._end(actor))
            if actor.phase == "idle":
                if actor.runs:
                    begun = self._begin(actor._replace(runs=actor.runs - 1), 0)
                    yield f"{_who(actor)} begins", _with(state, number, begun)
                    return
            elif actor.phase in HOME_PHASES:
                if not actor.waits:
                    yield from self._at_home(state, number, actor)
                    return
            else:
                for place, name in enumerate(self._inventory(actor)):
                    if _is_due(actor.answers[place]):
                        for label, after in self._contact(state, number, actor, place, name):
                            yield label, self._woken(state, after, name)
                        if self._may_meet(state, number):
                            yield "", _with(state, number, self._deferred(actor, place))
                        return

    @staticmethod
    def _deferred(actor: Actor, place: int) -> Actor:
        answers = list(actor.answers)
        answers[place] = WAITING[str(answers[place])]
        return actor._replace(answers=tuple(answers))

    def _woken(self, before: State, after: State, name: str) -> State:
        """The state in which those that wait for a contact of that hypervisor may go on."""
        differs = self._host(before, name)[:-1] != self._host(after, name)[:-1]
        actors = []
        for actor in after.actors:
            answers = list(actor.answers)
            if answers and name in self._inventory(actor):
                place = self._inventory(actor).index(name)
                writes = "write" in actor.phase or actor.phase == "at once"
                if differs or (writes and answers[place] == WAITING[UNREAD]):
                    answers[place] = WOKEN.get(str(answers[place]), answers[place])
            waits = actor.waits and name != actor.home
            actors.append(actor._replace(waits=waits, answers=tuple(answers)))
        return after._replace(actors=tuple(actors))

    def _inventory(self, actor: Actor) -> str:
        return self.setting.inventories[actor.controller]

    def _begin(self, actor: Actor, rounds: int) -> Actor:
        unread = (UNREAD,) * len(self._inventory(actor))
        number = actor.number + 1
        begun = Actor(actor.controller, actor.runs, number, "look", rounds, unread)
        return begun._replace(told=actor.told, torn=actor.torn)

    def _end(self, actor: Actor) -> Actor:
        runs = 0 if actor.detached else actor.runs
        return Actor(actor.controller, runs, actor.number, detached=actor.detached)

    # --- contacts, and their faults ---

    def _contact(
        self, state: State, number: int, actor: Actor, place: int, name: str
    ) -> t.Iterator[Move]:
        before = actor.answers[place]
        label = f"{_who(actor)}: {actor.phase} {name} ({before})"
        for fault, other, is_reached in self._reached(state, name):
            if is_reached:
                for more, after in self._step(other, number, actor, place, name):
                    yield f"{label}{fault}{more}", after
            else:
                yield f"{label}{fault}", self._answered(other, number, actor, place, None)
                if before == UNREAD and actor.phase == "write" and not actor.doomed:
                    unnoted = self._answered(other, number, actor, place, WRITTEN)
                    yield f"{label}{fault}, but it can be read", unnoted
        writes = before == UNREAD and actor.phase in ("write", "at once")
        if writes and self._may(state, "late", actor):
            late = self._answered(_spent(state), number, actor, place, None)
            only = tuple(UNREAD if n == place else None for n in range(len(actor.answers)))
            message = actor._replace(phase="late write", answers=only, detached=True, runs=0)
            yield f"{label}, but late", late._replace(actors=(*late.actors, message))

    def _reached(self, state: State, name: str) -> t.Iterator[tuple[str, State, bool]]:
        """Whether the hypervisor is reached, for each fault that may come before."""
        host = self._host(state, name)
        if name in self.setting.down:
            yield ", in vain", state, False
            return
        yield "", state, True
        if host.doubtful:
            yield ", in vain", state, False
        elif self._may(state, "silent", None):
            yield ", in vain", _spent(state), False
        if self._may(state, "other", None) and host.machine == machine_of(name):
            gone = state.gone + int(bool(host.vm and host.vm[1]))
            other = self._put(_spent(state), name, Host(machine_of(name.lower())))
            yield ", now another machine", other._replace(gone=gone), True

    def _may(self, state: State, kind: str, actor: Actor | None) -> bool:
        return state.faults > 0 and kind in self.kinds and not (actor and actor.detached)

    def _may_meet(self, state: State, number: int) -> bool:
        """Whether another actor may yet do something; where none does, waiting is a crash, and
        what it leaves is there already."""
        others = (*state.actors[:number], *state.actors[number + 1 :])
        if self.setting.in_turn:
            return any(actor.detached for actor in (*others, state.actors[number]))
        return any(actor.phase != "idle" or actor.runs for actor in others)

    def _host(self, state: State, name: str) -> Host:
        return state.hosts[self.names.index(name)]

    def _put(self, state: State, name: str, host: Host) -> State:
        hosts = list(state.hosts)
        hosts[self.names.index(name)] = host
        return state._replace(hosts=tuple(hosts))

    def _answered(
        self, state: State, number: int, actor: Actor, place: int, answer: Answer
    ) -> State:
        """The state once this hypervisor answered, or did not; after the last, what is decided."""
        answers = (*actor.answers[:place], answer, *actor.answers[place + 1 :])
        actor = actor._replace(answers=answers)
        if actor.phase == "late write":
            return _with(state, number, self._end(actor))
        if actor.phase == "at once":
            actor = self._judged_at_once(actor, place, answer)
        elif isinstance(answer, Seen):
            actor = self._settled_early(actor, answer)
        if actor.phase != "idle" and not any(map(_is_open, actor.answers)):
            actor = self._decided(actor)
        return _with(state, number, actor)

    def _settled_early(self, actor: Actor, seen: Seen) -> Actor:
        """The actor without what it need not remember, as one answer settles what is decided."""
        if actor.phase == "look" and seen.vm and seen.vm[1]:
            return self._end(actor)
        if actor.phase != "write" or actor.round < self.setting.rounds or actor.doomed:
            return actor
        assert actor.placed
        own = seen.vm and seen.vm[0] == actor.run
        if (seen.vm and not own) or self.product.newer(seen, actor.run, actor.placed.claims):
            answers = [answer if _is_unwritten(answer) else None for answer in actor.answers]
            return actor._replace(doomed=True, answers=tuple(answers), told=NONE, torn=NONE)
        return actor

    # --- looking, asking, writing and reading ---

    def _step(
        self, state: State, number: int, actor: Actor, place: int, name: str
    ) -> t.Iterator[Move]:
        host, before = self._host(state, name), actor.answers[place]
        seen = Seen(host.machine, host.clock, host.vm, host.held, host.torn)
        if before == UNREAD and actor.phase in ("write", "at once", "late write"):
            yield from self._write(state, number, actor, place, name)
            return
        if actor.phase in ("ask", "write") and actor.placed and actor.placed.tells:
            told = self.product.told(seen.held, actor.placed.answering)
            torn = {volume for volume in told if volume in seen.torn}
            actor = actor._replace(told=actor.told | told, torn=actor.torn - told | torn)
        yield "", self._answered(state, number, actor, place, seen)

    def _write(
        self, state: State, number: int, actor: Actor, place: int, name: str
    ) -> t.Iterator[Move]:
        host = self._host(state, name)
        assert actor.placed
        assert actor.facts
        claims, readings = self.product.claims(actor.facts), actor.placed.notes_for(name)
        if "stamped" in self.product.leaves_out and actor.detached:
            clocks = {host.machine: host.clock for host in state.hosts}
            readings = self.product.stamped(readings, clocks)
        held = self.product.written(host.held, claims, readings)
        after = self._put(state, name, host._replace(held=held, torn=host.torn & held))
        written = None if actor.doomed else WRITTEN
        yield "", self._answered(after, number, actor, place, written)
        lacked = [volume for volume in readings if volume in self.product.texts]
        made = frozenset(volume for volume in lacked if volume not in host.held)
        if made and self._may(state, "torn", actor):
            held = self.product.written(host.held, claims, ()) | made
            torn = self._put(state, name, host._replace(held=held, torn=host.torn | made))
            yield ", killed in it", _with(_spent(torn), number, self._end(actor))

    def _judged_at_once(self, actor: Actor, place: int, answer: Answer) -> Actor:
        """What the claiming hypervisor makes of another: on, or the controller decides."""
        if answer == WRITTEN:
            return actor
        if isinstance(answer, Seen) and self._is_same(actor, place, answer):
            answers = (*actor.answers[:place], None, *actor.answers[place + 1 :])
            return actor._replace(answers=answers)
        return self._end(actor) if actor.detached else self._written_by_controller(actor)

    def _written_by_controller(self, actor: Actor) -> Actor:
        names = self._inventory(actor)
        unread = tuple(actor.facts if name == actor.home else UNREAD for name in names)
        return actor._replace(phase="write", answers=unread, looked=())

    def _is_same(self, actor: Actor, place: int, now: Seen) -> bool:
        then = actor.looked[place][1]
        if then is None or (then.machine, then.vm) != (now.machine, now.vm):
            return False
        return "compared" in self.product.leaves_out or self._is_unclaimed(
            actor, now.held, then, place
        )

    def _is_unclaimed(self, actor: Actor, held: frozenset[str], then: Seen, place: int) -> bool:
        """Whether a hypervisor holds no claims of others but those that it had, or was given."""
        assert actor.placed
        claims = self.product.others_claims
        name = self._inventory(actor)[place]
        known = {*claims(then.held, actor.run), *actor.placed.notes_for(name)}
        return {*claims(held, actor.run)} <= known

    # --- decisions ---

    def _decided(self, actor: Actor) -> Actor:
        names = self._inventory(actor)
        if actor.phase == "at once":
            return actor._replace(phase="build", answers=(), looked=(), told=NONE, placed=None)
        if actor.phase == "ask":
            return self._begin(actor, actor.round)._replace(asks=False)
        seen = [answer if isinstance(answer, Seen) else None for answer in actor.answers]
        looked = tuple(zip(names, seen))
        if actor.phase == "look":
            placed = self.product.place(looked, actor.told, actor.torn, actor.asks)
            if isinstance(placed, Placed):
                return actor._replace(phase="claim", answers=(), looked=looked, placed=placed)
            if placed != "ask":
                return self._end(actor)
            unread = tuple(UNREAD if answer else None for answer in seen)
            machines = frozenset(answer.machine for answer in seen if answer)
            asked = Placed((), (), NONE, False, machines, True)
            return actor._replace(phase="ask", answers=unread, placed=asked)
        assert actor.placed
        assert actor.facts
        finishes = retries = False
        if not actor.doomed:
            claims = self.product.claims(actor.facts)
            finishes, retries = self.product.confirm(
                looked, actor.told, actor.torn, actor.home, claims, actor.placed
            )
        phase = "finish" if finishes else "withdraw"
        kept = Actor(
            actor.controller, actor.runs, actor.number, phase, actor.round, home=actor.home
        )
        return kept._replace(retries=retries, told=actor.told if retries else NONE)

    # --- what happens on the hypervisor of the VM ---

    def _at_home(self, state: State, number: int, actor: Actor) -> t.Iterator[Move]:
        homes: t.Iterable[str] = [actor.home]
        if actor.phase == "claim":
            assert actor.placed
            allowed = self.setting.homes[actor.controller] if self.setting.homes else self.names
            homes = [name for name in actor.placed.hosts if name in allowed]
            homes = [actor.home] if actor.home else homes  # where it waits
        for name in homes:
            label = f"{_who(actor)}: {actor.phase} on {name}"
            if self._may_meet(state, number):
                yield "", _with(state, number, actor._replace(home=name, waits=True))
            for fault, other, is_reached in self._reached(state, name):
                if is_reached:
                    after = self._do(other, number, actor, name)
                else:
                    after = _with(other, number, self._end(actor))
                yield f"{label}{fault}", self._woken(state, after, name)
            if self._may(state, "late", actor):
                message = actor._replace(detached=True, runs=0, home=name)
                late = _with(_spent(state), number, self._end(actor))
                yield f"{label}, but late", late._replace(actors=(*late.actors, message))

    def _do(self, state: State, number: int, actor: Actor, name: str) -> State:
        host = self._host(state, name)
        if actor.phase == "claim":
            return self._claim(state, number, actor, name)
        if host.vm != (actor.run, False):
            return _with(state, number, self._end(actor))
        if actor.phase == "withdraw":
            gone = self._put(state, name, host._replace(vm=None, clock=host.clock + 2))
            again = actor.retries and actor.round < self.setting.rounds and not actor.detached
            after = self._begin(actor, actor.round + 1) if again else self._end(actor)
            return _with(gone, number, after._replace(asks=not again))
        built = self._put(state, name, host._replace(vm=(actor.run, True)))
        return _with(built, number, self._end(actor))

    def _claim(self, state: State, number: int, actor: Actor, name: str) -> State:
        """Define the VM, in place of one that a dead run began; stamp the claim; note here."""
        host, placed, names = self._host(state, name), actor.placed, self._inventory(actor)
        assert placed
        if host.vm and host.vm[1]:
            return _with(state, number, self._end(actor))
        host = host._replace(vm=(actor.run, False), clock=host.clock + 2)
        facts = Seen(host.machine, host.clock - 1, host.vm, host.held, host.torn)
        actor = actor._replace(home=name, facts=facts)
        then = dict(actor.looked)[name]
        if "reads_again" in self.product.leaves_out:
            actor = actor._replace(phase="build", answers=())
        elif placed.at_once and (
            then is not None
            and (then.machine, then.vm) == (host.machine, None)
            and self._is_unclaimed(actor, host.held, then, names.index(name))
        ):
            held = self.product.written(host.held, (), placed.notes_for(name))
            host = host._replace(held=held, torn=host.torn & held)
            seen = dict(actor.looked)
            unread = tuple(UNREAD if seen[n] and n != name else None for n in names)
            actor = actor._replace(phase="at once", answers=unread)
            if not any(map(_is_open, unread)):
                actor = self._decided(actor)
        elif actor.detached:
            actor = self._end(actor)
        else:
            actor = self._written_by_controller(actor)
        return _with(self._put(state, name, host), number, actor)


def machine_of(name: str) -> str:
    """The machine UUID of a hypervisor to begin with."""
    return f"{ord(name):08x}-0000-4000-8000-000000000000"


def _who(actor: Actor) -> str:
    late = " (given up)" if actor.detached else ""
    return f"controller {actor.controller + 1}, run {actor.number}{late}"


def _is_open(answer: Answer) -> bool:
    """Whether the hypervisor is yet to answer."""
    return isinstance(answer, str)


def _is_unwritten(answer: Answer) -> bool:
    return answer in (UNREAD, WAITING[UNREAD])


def _is_due(answer: Answer) -> bool:
    return isinstance(answer, str) and answer not in WOKEN


def _spent(state: State) -> State:
    return state._replace(faults=state.faults - 1)


def _with(state: State, number: int, actor: Actor) -> State:
    """The state with this actor; what was given up and is done is left out."""
    actors = (*state.actors[:number], actor, *state.actors[number + 1 :])
    kept = tuple(actor for actor in actors if not (actor.detached and actor.phase == "idle"))
    return state._replace(actors=kept)
