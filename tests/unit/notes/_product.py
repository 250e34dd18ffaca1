# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's own functions of notes and of the names rule, called as a creation calls them.

Nothing is decided here that the collection decides; what comes from its action plugins is only the
order, and which answer is given to which function. A text of ``note`` or ``rule`` may be changed
before it is loaded, and a step of the order left out, to see that the model misses it.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule

NAME = "web9"
Vm = t.Optional[tuple[str, bool]]  # its run, and whether it is built
Edit = tuple[types.ModuleType, str, str]


class Seen(t.NamedTuple):
    """What a hypervisor answers."""

    machine: str
    at: int
    vm: Vm
    held: frozenset[str]
    torn: frozenset[str] = frozenset()


class Placed(t.NamedTuple):
    """A decision of ``place``, as far as later steps need it."""

    hosts: tuple[str, ...]
    lacks: tuple[tuple[str, tuple[str, ...]], ...]
    claims: frozenset[str]
    at_once: bool
    answering: frozenset[str]
    tells: bool

    def notes_for(self, host: str) -> tuple[str, ...]:
        """The readings that a hypervisor is to get, and older claims."""
        return dict(self.lacks).get(host, ())


Looked = tuple[tuple[str, t.Optional[Seen]], ...]  # None did not answer


def changed(module: types.ModuleType, *edits: tuple[str, str]) -> types.ModuleType:
    """The module with these texts replaced, each of which it has exactly once."""
    source = inspect.getsource(module)
    for old, new in edits:
        assert source.count(old) == 1, (source.count(old), old)
        source = source.replace(old, new)
    loaded = types.ModuleType(module.__name__)
    loaded.__package__ = module.__package__
    exec(compile(source, str(module.__file__), "exec"), vars(loaded))  # noqa: S102
    return loaded


class Product:
    """The functions, each of whose results for the same arguments is kept.

    The order: ``claims`` are written, what is written is ``read_again``, a hypervisor without
    them counts as silent (``unnoted``), a reading has the time at which its VMs were read
    (``stamped``), and a VM that a run only began to create is new as well (``begun``, which
    ``PlaceRound`` does not do yet).
    """

    def __init__(self, *edits: Edit, **left_out: bool) -> None:
        self.note = changed(note, *[edit[1:] for edit in edits if edit[0] is note])
        self.rule = changed(rule, *[edit[1:] for edit in edits if edit[0] is rule])
        for name in vars(self.note):
            if name in vars(self.rule) and not name.startswith("_"):
                setattr(self.rule, name, getattr(self.note, name))
        self.leaves_out = frozenset(name for name, is_so in left_out.items() if is_so)
        self.texts: dict[str, str] = {}
        for name in (
            "parsed",
            "_lacking",
            "place",
            "confirm",
            "newer",
            "written",
            "told",
            "reading",
        ):
            setattr(self, name, functools.cache(getattr(self, name)))

    def parsed(self, held: frozenset[str]) -> list[t.Any]:
        """The notes that a hypervisor holds."""
        return self.note.notes(sorted(held))

    def reading(self, host: str, machine: str, at: int, vm: Vm) -> t.Any:
        """The reading of a hypervisor that answered."""
        text = self.note.text_of(host, [self._vm(vm)] if vm else [])
        made = self.note.reading(machine, at, text)
        self.texts[made.volume] = text
        return made

    @staticmethod
    def _vm(vm: tuple[str, bool]) -> dict[str, t.Any]:
        run = vm[0]
        own = {"addresses": [], "groups": [], "active": False, "macs": []}
        return {**own, "name": NAME, "uuid": run.replace("-4", "-5", 1), "run": run}

    def told(self, held: frozenset[str], answering: frozenset[str]) -> frozenset[str]:
        """The volumes whose content a hypervisor tells (``notes.read.texts``)."""
        last = self.note.latest(self.parsed(held))
        return frozenset(note.volume for machine, note in last.items() if machine not in answering)

    def written(
        self, held: frozenset[str], claims: tuple[str, ...], readings: tuple[str, ...]
    ) -> frozenset[str]:
        """What a hypervisor holds then (``notes.effects.write``)."""
        there = set(held)
        if "claims" not in self.leaves_out:
            there.update(claims)
        gone: set[str] = set()
        for volume in readings:
            made = self.note.parse(volume)
            there.add(volume)
            if volume not in held and volume in self.texts:
                vms = self.note.opened(made, self.texts[volume])[1]
                old = self.note.superseded(self.parsed(held), made, vms)
                gone |= {note.volume for note in old}
        return frozenset(there - gone)

    def stamped(self, readings: t.Iterable[str], clocks: t.Mapping[str, int]) -> tuple[str, ...]:
        """The readings with the time at which they are written, which is wrong."""
        made = []
        for volume in readings:
            old, text = self.note.parse(volume), self.texts.get(volume)
            if text is None:  # a claim
                made.append(volume)
                continue
            new = self.note.reading(old.machine, clocks.get(old.machine, old.at), text)
            self.texts[new.volume] = text
            made.append(new.volume)
        return tuple(made)

    def claims(self, seen: Seen) -> tuple[str, ...]:
        """The volumes of the claims of a run, of what its hypervisor told after it."""
        assert seen.vm
        made = self.note.claims_of(seen.machine, seen.at, seen.vm[0], [self._vm(seen.vm)])
        return tuple(claim.volume for claim in made if claim.kind == "name")

    def others_claims(self, held: frozenset[str], run: str) -> list[str]:
        """The claims of other runs."""
        return t.cast("list[str]", self.note.claims_in(held, run))

    def _answering(self, looked: Looked) -> dict[str, t.Any]:
        return {name: self.rule.Answering(seen.machine, seen.held) for name, seen in looked if seen}

    def _standing(self, looked: Looked, told: frozenset[str], torn: frozenset[str]) -> t.Any:
        silent = {name: Silence("it is down") for name, seen in looked if not seen}
        texts = {volume: "" if volume in torn else self.texts[volume] for volume in told}
        return self.rule.judge(self._answering(looked), silent, texts)

    def _conflicts(self, looked: Looked, standing: t.Any, run: str = "") -> list[str]:
        there = {self._vm(seen.vm)["uuid"] for _name, seen in looked if seen and seen.vm}
        wanted = self.rule.Wanted(NAME)
        return t.cast("list[str]", self.rule.conflicts(wanted, standing, there, run))

    def _lacking(self, looked: Looked) -> tuple[tuple[str, tuple[str, ...]], ...]:
        readings = {
            name: self.reading(name, seen.machine, seen.at, seen.vm)
            for name, seen in looked
            if seen
        }
        vms = {name: [self._vm(seen.vm)] if seen.vm else [] for name, seen in looked if seen}
        held = {name: seen.held for name, seen in looked if seen}
        machines = {name: seen.machine for name, seen in looked if seen}
        passed_on = self.note.passed_on(held, machines)
        lacks = []
        for name, own in held.items():
            others = {readings[other]: vms[other] for other in readings if other != name}
            wanted = self.note.lacking(self.parsed(own), others)
            volumes = [*passed_on[name], *(reading.volume for reading in wanted)]
            lacks.append((name, tuple(volumes)))
        return tuple(lacks)

    def place(
        self, looked: Looked, told: frozenset[str], torn: frozenset[str], first: bool
    ) -> str | Placed:
        """The decision of ``virt_place``: where; ``ask`` what is noted first, or the reason why
        nothing is created."""
        there = self._answering(looked)
        if not there:
            return "no hypervisor answered"
        standing = self._standing(looked, told, torn)
        begun = [name for name, seen in looked if seen and seen.vm and not seen.vm[1]]
        built = [name for name, seen in looked if seen and seen.vm and seen.vm[1]]
        if built:
            return "it exists"
        new = not begun or "begun" not in self.leaves_out
        if new and first and self.rule.silent_machines(there):
            return "ask"
        if new and standing.problem:
            return str(standing.problem)
        conflicts = self._conflicts(looked, standing) if new else []
        if conflicts:
            return "; ".join(conflicts)
        tells = bool(standing.silent or standing.foreign)
        claims = [
            volume for _n, seen in looked if seen for volume in self.note.claims_in(seen.held)
        ]
        return Placed(
            hosts=tuple(begun[:1] or there),
            lacks=self._lacking(looked) if new else (),
            claims=frozenset(claims if new else ()),
            at_once=not (new and standing.silent),
            answering=frozenset(host.machine for host in there.values() if tells),
            tells=tells,
        )

    def confirm(
        self,
        looked: Looked,
        told: frozenset[str],
        torn: frozenset[str],
        home: str,
        claims: tuple[str, ...],
        placed: Placed,
    ) -> tuple[bool, bool]:
        """The decision of ``virt_place`` on the claim at ``home``: whether it is finished, and
        whether the VM is tried again."""
        run = self.note.parse(claims[0]).run
        noted = tuple(
            (name, seen if seen and (name == home or self._keeps(seen, claims)) else None)
            for name, seen in looked
        )
        standing = self._standing(noted, told, torn)
        if standing.problem:
            return False, False
        if any(name != home and seen and seen.vm for name, seen in looked):
            return False, True
        newer = any(self.newer(seen, run, placed.claims) for _name, seen in looked if seen)
        refused = newer or bool(self._conflicts(looked, standing, run))
        return not refused, refused

    def newer(self, seen: Seen, run: str, since: frozenset[str]) -> bool:
        """Whether a hypervisor holds claims of other runs that came since."""
        there = {"": self.rule.Answering(seen.machine, seen.held)}
        return bool(self.rule.claimed(self.rule.Wanted(NAME), there, run, since))

    def _keeps(self, seen: Seen, claims: tuple[str, ...]) -> bool:
        return bool({"unnoted", "claims"} & self.leaves_out) or set(claims) <= seen.held
