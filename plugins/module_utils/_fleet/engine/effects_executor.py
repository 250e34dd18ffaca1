# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carrying out plans: every verb's steps go through here.

Several plans take turns in one thread: with several threads on one connection, libvirt's client
occasionally does not wake the one whose reply has arrived (seen with 9.0, not with 11.3). A step is
a generator that yields while it waits. Where steps have stages, all plans finish one before any
begins the next.
"""

from __future__ import annotations

import time
import typing as t

from ..._errors import PlanRefused, error_message
from ..._records import dataclass, field
from .steps import Snapshot, Step

_POLL = 0.25

Turns = t.Iterator[None]  # yields whenever it waits


class StepRunner(t.Protocol[Snapshot]):
    """How the steps of one verb on one domain are done."""

    def do(self, step: Step[Snapshot]) -> Turns:
        """Do ``step``; raises if it failed."""

    def undo(self, step: Step[Snapshot]) -> None:
        """Roll back ``step``, which was done; not called once an irreversible step has begun."""

    def finish(self) -> None:
        """Read the outcome; called at the end, also after a failure."""


@dataclass
class Run(t.Generic[Snapshot]):
    """One plan that is carried out: the steps that were done, and the problem, if any.

    ``irreversible``: a step has begun after which nothing is undone. ``rollback`` says what could
    not be undone, if so; what was done before that stays, for the next run. ``undo_failed``: the
    step that failed is undone too, since it may be partly done, or be done without an answer.
    ``stage`` is the current one of all runs, ``following`` that of its next step.
    """

    steps: t.Sequence[Step[Snapshot]]
    work: StepRunner[Snapshot]
    done: list[Step[Snapshot]] = field(default_factory=list)
    problem: Exception | None = None
    irreversible: bool = False
    rollback: str = ""
    undo_failed: bool = False
    stage: int = 0
    following: int = 0

    def _turns(self) -> t.Generator[None, None, None]:
        begun: list[Step[Snapshot]] = []
        try:
            for step in self.steps:
                self.following = step.stage
                while self.following > self.stage:
                    yield
                self.irreversible = self.irreversible or step.irreversible
                begun.append(step)
                yield from self.work.do(step)
                self.done.append(step)
        except BaseException:  # an interruption too
            if not self.irreversible:
                self._undo(begun if self.undo_failed else self.done)
            raise
        finally:
            self.work.finish()

    def _undo(self, steps: t.Sequence[Step[Snapshot]]) -> None:
        """Undo ``steps``; a failure of that ends it, and does not hide the first one."""
        for step in reversed(steps):
            try:
                self.work.undo(step)
            except Exception as error:
                self.rollback = f"could not roll back {step.text!r}: {error_message(error)}"
                return


def carry_out(runs: t.Iterable[Run[Snapshot]]) -> None:
    """Carry out all ``runs`` at the same time, each in the order of its steps.

    A failure ends only its own run, and is recorded there.
    """
    turns = [(run, run._turns()) for run in runs if run.steps]
    try:
        while turns:
            turns = [(run, turn) for run, turn in turns if _goes_on(run, turn)]
            if turns and not _begin_stage([run for run, _one in turns]):
                time.sleep(_POLL)
    finally:
        for _run, turn in turns:  # those that were interrupted
            turn.close()


def _begin_stage(runs: t.Sequence[Run[Snapshot]]) -> bool:
    """Let all runs begin the next stage if none is still in one before it; whether they do."""
    stage = min(run.following for run in runs)
    if any(run.following <= run.stage for run in runs):
        return False
    for run in runs:
        run.stage = stage
    return True


def _goes_on(run: Run[Snapshot], turns: t.Generator[None, None, None]) -> bool:
    try:
        next(turns)
    except StopIteration:
        return False
    except Exception as error:
        run.problem = error
        if run.rollback:
            run.problem = PlanRefused(
                f"{error_message(error)}; moreover, {run.rollback}; run this again"
            )
        return False
    return True
