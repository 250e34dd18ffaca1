# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One harness for every module: what check mode says is what happens, and it happens once.

    from ansible_collections.fleet.virt.tests.integration import harness

    wanted = {"name": "web1", "state": "running"}
    done = harness.verify(ansible, lab, "hv1", "fleet.virt.virt_state", wanted)
    assert done.real["hv1"]["state"] == "running"

:func:`verify` runs a task (or a playbook, :func:`verify_playbook`) in check mode, for real, again,
and once more in check mode, always with --diff, against real libvirt, and asserts

- that the prediction equals the change: every value of the result, and the diff. What exists only
  afterwards reads "(generated)" in the prediction, for names that are declared so;
- that there is a diff exactly when something changed;
- that check mode left domains, volumes, pools, networks and files exactly as they were;
- that "changed" is what happened: a task that says so changed something that is watched, and one
  that does not changed nothing;
- that the second run is unchanged, and that check mode says so too.

The four rounds of a task are one play, in which the harness looks at everything after each; its
check mode is that of the task. A playbook is run four times, with --check as people do.

:func:`refuse` is for wrong input: check mode and the real run fail with the same message, and
neither touches anything.
"""

from __future__ import annotations

import fnmatch
import json
import re
import tempfile
import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.fleet.virt.tests.integration import snapshot
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Event
from ansible_collections.fleet.virt.tests.integration.support.rounds import (
    Round,
    looking_between,
    parts,
    play_of,
)
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

__all__ = [
    "GENERATED",
    "ROUNDS",
    "TASK",
    "HarnessResult",
    "Judge",
    "Liar",
    "Run",
    "State",
    "judged",
    "judged_refused",
    "refuse",
    "state_of",
    "verify",
    "verify_playbook",
]

GENERATED = "(generated)"
TASK = "the task that is verified"
ROUNDS = (
    Round("check mode", check=True),
    Round("real run", check=False),
    Round("second run", check=False),
    Round("check mode afterwards", check=True),
)
# What ansible-core adds to a result by itself, and what says nothing of the hypervisor; each run of
# Ansible has an id of its own, but for those that one process prepared
_NOT_RESULT = (
    *("_ansible_*", "invocation", "ansible_facts.discovered_interpreter_python"),
    "_work.run",
)

Result = dict[str, t.Any]
State = dict[str, t.Any]


class Liar(AssertionError):
    """A task that does not do what it says, or does not say what it does."""


@dataclass(frozen=True)
class Run:
    """One round: its results by task and host, and what it printed."""

    what: str
    returncode: int
    output: str
    results: dict[tuple[str, str], Result]
    failed: dict[tuple[str, str], str]

    @property
    def changed(self) -> list[tuple[str, str]]:
        """The (task, host) pairs that say they changed something."""
        return [key for key, result in self.results.items() if result.get("changed")]


@dataclass(frozen=True)
class HarnessResult:
    """Results by host (of the task verified; of a playbook, of its last task on each host)."""

    predicted: dict[str, Result]
    real: dict[str, Result]
    again: dict[str, Result]
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class _Subject:
    """What is run and what is looked at."""

    ansible: Ansible
    lab: Laboratory
    playbook: str
    variables: Mapping[str, t.Any]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    watch: tuple[str, ...]
    watch_local: tuple[str, ...]
    limit: float
    bare: tuple[str, ...] = ()

    def each_alone(self, rounds: Sequence[Round]) -> Iterator[tuple[Run, State]]:
        """The playbook once for each round, and the state after it."""
        for turn in rounds:
            done = self.ansible.playbook(
                self.playbook,
                self.variables,
                self.arguments,
                check=turn.check,
                diff=True,
                environment=self.environment,
                limit=self.limit,
            )
            yield _run(turn, done.returncode, str(done), done.events), self.state()

    def in_one_play(self, rounds: Sequence[Round]) -> Iterator[tuple[Run, State]]:
        """The same of a play that has all rounds (support/rounds.py)."""
        states: list[State] = []
        done = looking_between(
            lambda variables: self.ansible.playbook(
                self.playbook,
                {**self.variables, **variables},
                self.arguments,
                diff=True,
                environment=self.environment,
                limit=self.limit,
            ),
            lambda: states.append(self.state()),
        )
        for number, part in enumerate(parts(done, len(rounds))):
            state = states[number] if number < len(states) else {}
            yield _run(rounds[number], part.returncode, part.output, part.events), state

    def state(self) -> State:
        """Every running hypervisor, and the controller's files."""
        ready = [host for host in self.lab.hosts if not host.bare or host.name in self.bare]
        hosts = [host for host in ready if host.state == "running"]
        names = [host.name for host in hosts]
        with ThreadPoolExecutor(max_workers=8) as pool:
            found = pool.map(lambda name: state_of(self.lab, name, self.watch), names)
            states = dict(zip(names, found))
        return {**states, "controller": {"files": snapshot.files(self.watch_local)}}


def _run(turn: Round, returncode: int, output: str, events: Sequence[Event]) -> Run:
    results: dict[tuple[str, str], Result] = {}
    failed: dict[tuple[str, str], str] = {}
    for event in events:
        key = (event.task, event.host)
        number = 2
        while key in results:  # the same name twice: told apart by its turn
            key = (f"{event.task} ({number})", event.host)
            number += 1
        results[key] = event.result
        if event.status in {"failed", "unreachable"}:
            failed[key] = str(event.result.get("msg", event.result))
    return Run(turn.name, returncode, output, results, failed)


def state_of(lab: Laboratory, name: str, watch: Sequence[str] = ()) -> State:
    """The snapshot of a hypervisor, in one command."""
    source = Path(snapshot.__file__).read_text(encoding="utf-8")
    options = json.dumps({"watch": list(watch)})
    done = lab.python(name, source, [options])
    return t.cast("State", json.loads(done.stdout))


def verify(
    ansible: Ansible,
    lab: Laboratory,
    hosts: str,
    module: str,
    args: Mapping[str, t.Any],
    *,
    expect_changed: bool = True,
    before: Sequence[Mapping[str, t.Any]] = (),
    task: Mapping[str, t.Any] | None = None,
    become: bool = True,
    generated: Iterable[str] = ("uuid",),
    predicted_ignore: Iterable[str] = (),
    **options: t.Any,
) -> HarnessResult:
    """Verify one task of ``module`` with ``args`` on the pattern ``hosts``.

    :param before: tasks that run before it, each time, for example one that registers.
    :param task: further keywords of the task, for example run_once.
    :param options: and the others, as of :func:`verify_playbook`.
    :raises Liar: what it found, in words.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-virt-harness-") as folder:
        tasks = [*before, {"name": TASK, module: dict(args), **(task or {})}]
        playbook = play_of(Path(folder), hosts, tasks, ROUNDS, become=become)
        subject = _subject(ansible, lab, playbook, **options)
        judge = Judge(frozenset(generated), tuple(predicted_ignore), frozenset([TASK]))
        return judged(judge, subject.state(), subject.in_one_play(ROUNDS), expect_changed)


def verify_playbook(
    ansible: Ansible,
    lab: Laboratory,
    playbook: Path | str,
    *,
    expect_changed: bool = True,
    generated: Iterable[str] = ("uuid",),
    predicted_ignore: Iterable[str] = (),
    **options: t.Any,
) -> HarnessResult:
    """Verify a playbook, given by its path or by its full name (``fleet.virt.query``).

    :param generated: names of values (the last part of the path) that a prediction may leave open.
    :param predicted_ignore: patterns of paths in the result that are not compared, as seldom as
        can be: ``vms.0.seconds``.
    :param options: ``variables`` are extra variables, ``arguments`` further ones of
        ansible-playbook, for example ``--limit hv1``, ``environment`` and ``limit`` as for
        :class:`Ansible`; ``watch`` are paths on the hypervisors to look at besides libvirt's own
        folders, ``watch_local`` some on the controller; ``bare`` are bare hosts to be looked at
        because libvirt is on them by now.
    :raises Liar: what it found, in words.
    """
    subject = _subject(ansible, lab, playbook, **options)
    judge = Judge(frozenset(generated), tuple(predicted_ignore), None)
    return judged(judge, subject.state(), subject.each_alone(ROUNDS), expect_changed)


def _subject(
    ansible: Ansible,
    lab: Laboratory,
    playbook: Path | str,
    *,
    variables: Mapping[str, t.Any] | None = None,
    arguments: Sequence[str] = (),
    watch: Sequence[str] = (),
    watch_local: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    limit: float = 300,
    bare: Iterable[str] = (),
) -> _Subject:
    return _Subject(
        ansible,
        lab,
        str(playbook),
        variables or {},
        tuple(arguments),
        environment or {},
        tuple(watch),
        tuple(watch_local),
        limit,
        tuple(bare),
    )


def judged(
    judge: Judge, start: State, rounds: Iterator[tuple[Run, State]], expect_changed: bool
) -> HarnessResult:
    """Judge the four rounds, each with the state after it."""
    predicted, after_check = next(rounds)
    judge.succeeded(predicted)
    judge.untouched(start, after_check, "check mode changed something")
    real, after_real = next(rounds)
    judge.succeeded(real)
    judge.predicted(predicted, real)
    judge.diffs(predicted)
    judge.diffs(real)
    judge.honest(real, snapshot.differences(after_check, after_real))
    if bool(judge.changed(real)) != expect_changed:
        raise Liar(
            f"expected changed={expect_changed}, the real run says changed={not expect_changed}"
            f"\n{real.output}"
        )
    again, after_again = next(rounds)
    judge.unchanged(again)
    judge.untouched(after_real, after_again, "the second run changed something")
    settled, at_last = next(rounds)
    judge.unchanged(settled)
    judge.untouched(after_again, at_last, "check mode changed something afterwards")
    runs = (predicted, real, again, settled)
    return HarnessResult(*(judge.by_host(run) for run in runs[:3]), runs)


def refuse(
    ansible: Ansible,
    lab: Laboratory,
    hosts: str,
    module: str,
    args: Mapping[str, t.Any],
    *,
    match: str,
    before: Sequence[Mapping[str, t.Any]] = (),
    task: Mapping[str, t.Any] | None = None,
    become: bool = True,
    **options: t.Any,
) -> HarnessResult:
    """Verify that a task is refused, in check mode and for real, and that nothing is touched.

    :param match: a regular expression that the message must contain, on every host.
    :param options: and the others, as of :func:`verify`.
    :raises Liar: what it found, in words.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-virt-harness-") as folder:
        # so that the second is tried after the first
        verified = {"name": TASK, module: dict(args), "ignore_errors": True, **(task or {})}
        tasks = [*before, verified]
        playbook = play_of(Path(folder), hosts, tasks, ROUNDS[:2], become=become)
        subject = _subject(ansible, lab, playbook, **options)
        return judged_refused(subject.state(), subject.in_one_play(ROUNDS[:2]), match)


def judged_refused(start: State, rounds: Iterator[tuple[Run, State]], match: str) -> HarnessResult:
    """Judge two rounds in which the task has to be refused."""
    judge = Judge(frozenset(), (), frozenset([TASK]))
    runs = []
    for run, state in rounds:
        runs.append(run)
        messages = {host: text for (name, host), text in run.failed.items() if name == TASK}
        answers = {host for (name, host) in run.results if name == TASK}
        if not answers or set(messages) != answers:
            raise Liar(f"{run.what}: not refused by {answers - set(messages)}\n{run.output}")
        judge.untouched(start, state, f"{run.what} was to be refused, but changed")
        for host, text in messages.items():
            if not re.search(match, text, re.DOTALL):  # a line for each mistake
                raise Liar(f"{run.what}: {host} says {text!r}, without {match!r}")
    if runs[0].failed != runs[1].failed:
        raise Liar(f"other messages in check mode: {runs[0].failed} -> {runs[1].failed}")
    predicted, real = (judge.by_host(run) for run in runs)
    return HarnessResult(predicted, real, {}, tuple(runs))


class Judge:
    """Every judgement the harness passes."""

    def __init__(
        self, generated: frozenset[str], ignored: tuple[str, ...], only: frozenset[str] | None
    ) -> None:
        self.generated = generated
        self.ignored = (*_NOT_RESULT, *ignored)
        self.only = only

    def chosen(self, run: Run) -> dict[tuple[str, str], Result]:
        """The results that are judged."""
        return {k: v for k, v in run.results.items() if self.only is None or k[0] in self.only}

    def changed(self, run: Run) -> list[tuple[str, str]]:
        """Who among them says that something changed."""
        return [key for key, result in self.chosen(run).items() if result.get("changed")]

    def by_host(self, run: Run) -> dict[str, Result]:
        """The last result of each host."""
        return {host: result for (_, host), result in self.chosen(run).items()}

    def succeeded(self, run: Run) -> Run:
        """It ran to its end, and the task was there."""
        if run.returncode or not self.chosen(run):
            raise Liar(f"{run.what} failed ({run.returncode})\n{run.output}")
        return run

    def unchanged(self, run: Run) -> Run:
        """It succeeded and says that nothing changed."""
        self.succeeded(run)
        if self.changed(run):
            raise Liar(f"{run.what}: says changed: {self.changed(run)}\n{run.output}")
        self.diffs(run)
        return run

    @staticmethod
    def untouched(before: State, after: State, what: str) -> None:
        """Everything is as it was."""
        found = snapshot.differences(before, after)
        if found:
            raise Liar("\n".join([f"{what}:", *found[:40]]))

    def honest(self, run: Run, found: list[str]) -> None:
        """It says changed exactly when something changed."""
        if self.changed(run) and not found:
            raise Liar(
                f"{run.what}: says changed, but nothing that is watched changed; add the paths"
                f" it changes to watch or watch_local\n{run.output}"
            )
        if found and not run.changed:
            raise Liar("\n".join([f"{run.what}: says unchanged, but changed:", *found[:40]]))

    def diffs(self, run: Run) -> None:
        """There is a diff exactly when something changed."""
        for key, result in self.chosen(run).items():
            if bool(result.get("changed")) != _has_diff(result.get("diff")):
                raise Liar(
                    f"{run.what}: {key[0]} on {key[1]} says changed={bool(result.get('changed'))}"
                    f" with the diff {json.dumps(result.get('diff'))}"
                )

    def predicted(self, predicted: Run, real: Run) -> None:
        """The prediction is what happened."""
        expected, actual = self.chosen(predicted), self.chosen(real)
        lines = []
        for key in dict.fromkeys([*expected, *actual]):
            if key not in expected or key not in actual:
                where = "the real run" if key in actual else "check mode"
                lines.append(f"{key[0]} on {key[1]}: only in {where}")
                continue
            lines += [
                f"{key[0]} on {key[1]}: {line}"
                for line in self.mismatches(expected[key], actual[key])
            ]
        if lines:
            raise Liar("\n".join(["check mode predicted something else (-> real):", *lines[:40]]))

    def mismatches(self, predicted: t.Any, real: t.Any, path: str = "") -> list[str]:
        """Where a prediction and what came of it differ."""
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in self.ignored):
            return []
        if isinstance(predicted, dict) and isinstance(real, dict):
            lines = []
            for key in sorted({*predicted, *real}, key=str):
                below = f"{path}.{key}" if path else str(key)
                if key in predicted and key in real:
                    lines += self.mismatches(predicted[key], real[key], below)
                elif not any(fnmatch.fnmatchcase(below, pattern) for pattern in self.ignored):
                    lines.append(f"{below}: {'not predicted' if key in real else 'did not come'}")
            return lines
        if isinstance(predicted, list) and isinstance(real, list):
            if len(predicted) != len(real):
                return [
                    f"{path}: {len(predicted)} entries -> {len(real)}: {predicted!r} -> {real!r}"
                ]
            return [
                line
                for index, pair in enumerate(zip(predicted, real))
                for line in self.mismatches(*pair, f"{path}.{index}")
            ]
        if self._same(predicted, real, path):
            return []
        return [f"{path}: {predicted!r} -> {real!r}"]

    def _same(self, predicted: t.Any, real: t.Any, path: str) -> bool:
        if predicted == GENERATED:
            return path.rpartition(".")[2] in self.generated and real not in (None, "", [], {})
        if (
            not isinstance(predicted, str)
            or not isinstance(real, str)
            or GENERATED not in predicted
        ):
            return bool(type(predicted) is type(real) and predicted == real)
        lines = predicted.splitlines(), real.splitlines()
        return len(lines[0]) == len(lines[1]) and all(map(self._same_line, *lines))

    def _same_line(self, predicted: str, real: str) -> bool:
        """One line of a text, such as a diff, in which generated values are embedded."""
        if GENERATED not in predicted:
            return predicted == real
        named = set(re.split(r"[^\w]+", predicted.replace(GENERATED, " ")))
        pattern = re.escape(predicted).replace(re.escape(GENERATED), r"\S.*?")
        return bool(named & self.generated and re.fullmatch(pattern, real))


def _has_diff(diff: t.Any) -> bool:
    if isinstance(diff, list):
        return any(_has_diff(one) for one in diff)
    if not isinstance(diff, dict):
        return bool(diff)
    if "prepared" in diff:
        return bool(str(diff["prepared"]).strip())
    return diff.get("before") != diff.get("after")
