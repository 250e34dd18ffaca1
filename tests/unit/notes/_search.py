# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking for a state of the model that must not be."""

from __future__ import annotations

import typing as t
from collections import deque
from dataclasses import dataclass

from ._model import Actor, Host, Model, Setting, State, machine_of
from ._product import NAME


@dataclass
class Result:
    """What a search ended with; ``history`` is the shortest to a violation."""

    states: int
    violation: str = ""
    history: tuple[str, ...] = ()


def search(model: Model, wrong: t.Callable[[State], str], most: int = 10_000_000) -> Result:
    """Every state, nearest first, until ``wrong`` says what is wrong with one."""
    first = model.first()
    before: dict[State, tuple[State, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        violation = wrong(state)
        if violation or len(before) > most:
            steps: list[str] = []
            step = before[state]
            while step is not None:
                steps += [step[1]] if step[1] else []
                step = before[step[0]]
            return Result(len(before), violation or "too many states", tuple(reversed(steps)))
        for label, after in model.moves(state):
            if after not in before:
                before[after] = (state, label)
                queue.append(after)
    return Result(len(before))


class Wrong:
    """What is wrong with a state: two VMs of the name that creations built; or one that a run alone
    does not create although it should, with no fault more and ``downs`` silent."""

    def __init__(self, model: Model, downs: t.Collection[str] = ()) -> None:
        self.model, self.downs, self.known = model, downs, set[tuple[Host, ...]]()

    def __call__(self, state: State) -> str:
        if sum(bool(host.vm and host.vm[1]) for host in state.hosts) + state.gone > 1:
            return "there are two VMs of the name"
        if state.hosts not in self.known:
            self.known.add(state.hosts)
            for inventory in dict.fromkeys(self.model.setting.inventories):
                for down in self.downs:
                    if not self._created(state, inventory, down):
                        return f"a run that follows, {inventory} without {down!r}, creates nothing"
        return ""

    def _created(self, state: State, inventory: str, down: str) -> bool:
        model = self.model
        hosts = dict(zip(model.names, state.hosts))
        up = {name: hosts[name] for name in inventory if name not in down}
        if any(host.vm and host.vm[1] for host in state.hosts) or state.gone:
            return True
        if self._may_refuse(up, inventory, [name for name in inventory if name in down]):
            return True
        setting = Setting("", (inventory,), (1,), 0, down=down, rounds=2)
        alone = Model(model.product, setting, "".join(model.names))
        after = State(state.hosts, (Actor(0, 1, number=50),), 0)
        while moves := list(alone.moves(after)):
            after = moves[0][1]
        return any(host.vm and host.vm[1] for host in after.hosts)

    def _may_refuse(self, up: dict[str, Host], inventory: str, silent: list[str]) -> bool:
        """Whether it must or may be refused, by the words of the rule."""
        machines = {host.machine for host in up.values()} | {machine_of(name) for name in silent}
        held = [note for host in up.values() for note in self.model.product.parsed(host.held)]
        known = {note.machine for note in held if not hasattr(note, "run")}
        noted = [
            note
            for note in held
            if note.machine in {machine_of(name) for name in silent}
            if hasattr(note, "run") or NAME in self.model.product.texts[note.volume]
        ]
        unknown = any(machine_of(name) not in known for name in silent)
        torn = any(host.torn for host in up.values())
        few = bool(silent) and len(up) * 2 <= len(inventory)
        return bool(few or known - machines or noted or unknown or torn)
