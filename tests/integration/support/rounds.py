# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks several times in one play, in check mode and for real, and a look around after each time.

A run of Ansible for each would cost its start again and again. The play waits while somebody looks:
a task asks through one named pipe and reads the answer from another.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import typing as t
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .ansible import Event, Run

__all__ = ["Part", "Round", "looking_between", "parts", "play_of"]

_LOOK = "a look around after "
_LIMIT = 300  # seconds for a look: the play ends when whoever looks is gone
_ASKS, _ANSWER = b"a", b"e"
_GO, _STOP = b"go\n", b"stop\n"
_WAIT = 'printf a > "$0/asks" && read answer < "$0/answers" && test "$answer" = go'


@dataclass(frozen=True)
class Round:
    """One time: its name, and whether it is in check mode."""

    name: str
    check: bool


@dataclass(frozen=True)
class Part:
    """What a run of Ansible did in one round; ``returncode`` as if it had been the only one.

    ``output`` is what it printed in this round, after the command.
    """

    returncode: int
    events: Sequence[Event]
    output: str


def play_of(
    folder: Path,
    hosts: str,
    tasks: Sequence[Mapping[str, t.Any]],
    rounds: Sequence[Round],
    *,
    become: bool,
) -> Path:
    """Write the play of these tasks, once for each round, into a folder."""
    wait = f"timeout {_LIMIT} sh -c {shlex.quote(_WAIT)} "
    steps: list[Mapping[str, t.Any]] = []
    for turn in rounds:
        steps.append({"name": turn.name, "check_mode": turn.check, "block": list(tasks)})
        steps.append(
            {
                "name": f"{_LOOK}{turn.name}",
                "ansible.builtin.debug": {
                    "msg": "{{ lookup('ansible.builtin.pipe', look_wait ~ (look_folder | quote)) }}"
                },
                "vars": {"look_wait": wait},
                "run_once": True,
            }
        )
    play = {
        "name": "Verify",
        "hosts": hosts,
        "gather_facts": False,
        "become": become,
        "tasks": steps,
    }
    path = folder / "play.yml"
    path.write_text(json.dumps([play]), encoding="utf-8")
    return path


def looking_between(run: Callable[[Mapping[str, str]], Run], look: Callable[[], object]) -> Run:
    """Run such a play, given further variables for it, and look after each round.

    Nobody looks after a round that no host has ended.
    """
    with TemporaryDirectory(prefix="fleet-virt-look-") as folder, ThreadPoolExecutor(1) as pool:
        pipes = []
        for name in ("asks", "answers"):
            path = os.path.join(folder, name)
            os.mkfifo(path, 0o600)
            pipes.append(os.open(path, os.O_RDWR))  # of both ends one is open, so nobody waits
        asks, answers = pipes
        try:
            running = pool.submit(run, {"look_folder": folder})
            running.add_done_callback(lambda _: os.write(asks, _ANSWER))
            while os.read(asks, 1) == _ASKS:
                try:
                    look()
                except BaseException:
                    os.write(answers, _STOP)
                    raise
                os.write(answers, _GO)
            return running.result()
        finally:
            pool.shutdown()
            for pipe in pipes:
                os.close(pipe)


def parts(run: Run, rounds: int) -> list[Part]:
    """What each round did; one that did not begin has no events and is a failure."""
    events: list[list[Event]] = [[]]
    for event in run.events:
        if event.task.startswith(_LOOK):
            events.append([])
        else:
            events[-1].append(event)
    printed = run.stdout.split(f"\nTASK [{_LOOK}")
    printed += [""] * rounds

    def output(number: int) -> str:
        return str(dataclasses.replace(run, stdout=printed[number]))

    whole = [Part(_status(round_), round_, output(i)) for i, round_ in enumerate(events[:-1])]
    ended = len(whole)
    if ended < rounds:  # the one during which the run ended
        whole.append(Part(run.returncode or 1, events[-1], output(ended)))
    missing = range(len(whole), rounds)
    return [*whole, *(Part(run.returncode or 1, [], output(number)) for number in missing)]


def _status(events: Sequence[Event]) -> int:
    """What Ansible says of a run with these results."""
    if any(event.status == "unreachable" for event in events):
        return 4
    return 2 if any(event.status == "failed" and not event.ignored for event in events) else 0
