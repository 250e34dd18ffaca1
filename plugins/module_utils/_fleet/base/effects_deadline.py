# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running many calls that may hang, each with its own time limit.

libvirt's calls block: a dead guest agent, a stale mount under a disk or a cut link can hold one
for minutes, and nothing in the library interrupts it. So work runs in daemon threads; a thread
that exceeds the limit of its item is abandoned and replaced, and the item becomes an entry with an
error. Nothing waits for an abandoned thread, not even the end of the process.

Once a call hangs, more calls run in parallel, so that several hanging calls time out together.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import typing as t

from ..._errors import DeadlineExceeded, FleetVirtError
from ..._records import dataclass

Item = t.TypeVar("Item")
Value = t.TypeVar("Value")


@dataclass(frozen=True)
class Ok(t.Generic[Value]):
    """The value that the function returned."""

    value: Value


@dataclass(frozen=True)
class Failed:
    """The error, if there is no value."""

    error: FleetVirtError


Outcome = t.Union[Ok[Value], Failed]

_RESCUERS = 4  # calls that run in parallel once one was found hanging


class TooManyHang(FleetVirtError):
    """Not started, because so many calls hang already that more would hang too."""

    def __init__(self, what: str, hanging: int) -> None:
        super().__init__(f"{what}: not attempted because {hanging} earlier calls are hanging")


class _Worker:
    """A reusable thread: reading a large fleet takes many short calls, each with its own limit.

    Its work must not raise. A hanging thread is not waited for; if its call ever returns, the
    thread is free again like any other.
    """

    def __init__(self) -> None:
        self.work: t.Callable[[], None] | None = None
        self.given = threading.Lock()
        self.given.acquire()
        threading.Thread(target=self._run, daemon=True).start()

    def give(self, work: t.Callable[[], None]) -> None:
        """Assign ``work`` to this thread, which must be free."""
        self.work = work
        self.given.release()

    def _run(self) -> None:
        while True:
            self.given.acquire()
            if self.work is not None:
                self.work()
            self.work = None  # and what it refers to
            if len(_free) >= _MOST_FREE:
                return
            _free.append(self)


_MOST_FREE = 256
_free: list[_Worker] = []
# a child process does not inherit threads
os.register_at_fork(after_in_child=_free.clear)


def _start(work: t.Callable[[], None]) -> None:
    """Run ``work`` in a thread."""
    try:
        worker = _free.pop()
    except IndexError:
        worker = _Worker()
    worker.give(work)


def _without_frames(error: FleetVirtError) -> FleetVirtError:
    """The error without its traceback.

    Its frames reference libvirt's objects and the error itself: a cycle that only Python's garbage
    collector frees, at any moment, in any thread. Freeing one of libvirt's objects resets that
    thread's last error, which is then missing from an exception that is just being created.
    """
    error.__context__ = None
    return error.with_traceback(None)


class _Run(t.Generic[Item, Value]):
    """One call of :func:`each`: which worker has been working on which item since when."""

    def __init__(self, function: t.Callable[[Item], Value], items: t.Sequence[Item]) -> None:
        self.function = function
        self.items = items
        self.outcomes: list[Outcome[Value] | None] = [None] * len(items)
        self.next = 0
        self.open = len(items)
        self.bug: BaseException | None = None
        self.active: dict[int, tuple[int, float]] = {}  # worker -> (item, started)
        self.changed = threading.Condition()

    def fail(self, index: int, error: FleetVirtError) -> None:
        self.outcomes[index] = Failed(error)
        self.open -= 1

    def work(self, worker: int) -> None:
        while True:
            with self.changed:
                if self.next >= len(self.items) or self.bug is not None:
                    return
                index, self.next = self.next, self.next + 1
                self.active[worker] = (index, time.monotonic())
            outcome: Outcome[Value] | None = None
            bug: BaseException | None = None
            try:
                outcome = Ok(self.function(self.items[index]))
            except FleetVirtError as error:
                outcome = Failed(_without_frames(error))
            except BaseException as error:  # passed to the caller's thread, which raises it
                bug = error
            with self.changed:
                if self.active.pop(worker, None) is None:
                    return  # abandoned meanwhile: the item already has its error
                self.outcomes[index] = outcome
                self.bug = self.bug or bug
                self.open -= 1
                if not self.open or bug is not None:
                    self.changed.notify_all()


def each(
    function: t.Callable[[Item], Value],
    items: t.Sequence[Item],
    *,
    seconds: float,
    what: t.Callable[[Item], str],
    parallel: int = 1,
    patience: int | None = None,
) -> list[Outcome[Value]]:
    """Outcome of ``function`` for every item, in the order of ``items``.

    ``seconds`` is the limit for one item; ``what`` names an item in the error. ``parallel``
    items are processed at once. When ``patience`` items have exceeded their limit, those not yet
    started are TooManyHang. A FleetVirtError is an outcome; any other exception is a bug in this
    collection and is raised here.
    """
    run = _Run(function, items)
    workers = 0
    hanging = 0

    def hire(count: int) -> None:
        nonlocal workers
        for _dummy in range(count):
            workers += 1
            _start(functools.partial(run.work, workers))

    with run.changed:
        hire(min(parallel, len(items)))
        while run.open and run.bug is None:
            now = time.monotonic()
            due = min((since for _dummy, since in run.active.values()), default=now) + seconds
            run.changed.wait(max(0.001, due - now))
            now = time.monotonic()
            for worker, (index, since) in list(run.active.items()):
                if now - since >= seconds:
                    del run.active[worker]
                    run.fail(index, DeadlineExceeded(what(items[index]), seconds))
                    hire(1 if hanging else max(1, _RESCUERS - parallel + 1))
                    hanging += 1
            if patience is not None and hanging >= patience:
                while run.next < len(items):
                    run.fail(run.next, TooManyHang(what(items[run.next]), hanging))
                    run.next += 1
    if run.bug is not None:
        raise run.bug
    return t.cast("list[Outcome[Value]]", run.outcomes)


def call(function: t.Callable[[], Value], *, seconds: float, what: str) -> Value:
    """Value of ``function()``; raises DeadlineExceeded after ``seconds``."""
    outcome = each(lambda _dummy: function(), [None], seconds=seconds, what=lambda _dummy: what)[0]
    if isinstance(outcome, Ok):
        return outcome.value
    error = outcome.error
    try:
        raise error
    finally:
        del error, outcome  # see _without_frames
