# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which end has the VM after a move that ended somehow, and what it gets there: tables of cases.

libvirt defines the VM on the destination when all of it has travelled, and not before. So a
definition there is the VM, and is never taken away.

This file is private to the collection.
"""

from __future__ import annotations

import enum
import typing as t


class SourceState(enum.Enum):
    """What the source has of the VM."""

    SILENT = "it does not answer"
    MOVING = "it is there, and libvirt still moves it"
    ABSENT = "it is not there"
    OFF = "it is defined and shut off"
    PAUSED = "it is paused: for the last of its memory, or since the move had started it"
    RUNNING = "it runs"


class DestinationState(enum.Enum):
    """What the destination has of the VM."""

    SILENT = "it does not answer"
    ABSENT = "nothing of that name is there"
    FOREIGN = "what has its name is another VM, or is defined without the marks of a move"
    COMING = "it is not defined, and does not wait: it has begun to run, or was shut off"
    WAITING = "it is not defined, and QEMU waits for it"
    ARRIVED = "it is defined with the marks of its move"


class Verdict(enum.Enum):
    """What is done about it."""

    AGAIN = "both are looked at again; after the limit, nobody knows what became of it"
    JOIN = "nothing: the next run joins the move that goes on"
    FINISH = "the move is finished: what is left of it on the source goes"
    REPLACE = "so it is, and before that the definition on the source goes"
    UNDO = "the move is undone: the destination becomes clean"
    WAIT = "both may still change; after the limit, where the VM belongs cannot be told"
    STOP = "both may still change; after the limit, what waits on the destination is stopped"


_S, _D, _V = SourceState, DestinationState, Verdict
_COLUMNS = (_D.SILENT, _D.ABSENT, _D.FOREIGN, _D.COMING, _D.WAITING, _D.ARRIVED)
_ROWS = {
    _S.ABSENT: (_V.WAIT, _V.WAIT, _V.WAIT, _V.WAIT, _V.WAIT, _V.FINISH),
    _S.OFF: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.WAIT, _V.REPLACE),
    _S.PAUSED: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.WAIT, _V.WAIT),
    _S.RUNNING: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.STOP, _V.WAIT),
}
# The destination need not be asked
_ALONE = {_S.SILENT: _V.AGAIN, _S.MOVING: _V.JOIN}
VERDICTS: t.Mapping[tuple[SourceState, DestinationState], Verdict] = {
    (source, destination): verdict
    for source, row in {
        **_ROWS,
        **{source: (verdict,) * len(_COLUMNS) for source, verdict in _ALONE.items()},
    }.items()
    for destination, verdict in zip(_COLUMNS, row)
}


def verdict_of(source: SourceState) -> Verdict | None:
    """What is done whatever the destination has; None if that depends on it."""
    return _ALONE.get(source)


class Act(enum.Enum):
    """What the VM gets where it is."""

    LEAVE = "it stays as it is"
    RESUME = "it runs again"
    STOP = "it ends: only the move had started it, paused"


class Left(t.NamedTuple):
    """What the VM gets on the source; whether it is shut off then, and was not to be."""

    act: Act
    off: bool
    lost: bool = False


# By what it is there and what it was before the move: running, shutoff, or not noted
UNDONE: t.Mapping[tuple[SourceState, str | None], Left] = {
    (_S.OFF, "running"): Left(Act.LEAVE, off=True, lost=True),  # its hypervisor went down
    (_S.OFF, "shutoff"): Left(Act.LEAVE, off=True),
    (_S.OFF, None): Left(Act.LEAVE, off=True),
    (_S.PAUSED, "running"): Left(Act.RESUME, off=False),
    (_S.PAUSED, "shutoff"): Left(Act.STOP, off=True),
    (_S.PAUSED, None): Left(Act.RESUME, off=False),
    (_S.RUNNING, "running"): Left(Act.LEAVE, off=False),
    (_S.RUNNING, "shutoff"): Left(Act.LEAVE, off=False),
    (_S.RUNNING, None): Left(Act.LEAVE, off=False),
}


class Arrival(enum.Enum):
    """What the VM is on the destination, when it has arrived."""

    PAUSED = "paused"
    RUNNING = "it runs, or sleeps"
    OFF = "shut off"
    OTHER = "crashed, or on its way to be shut off"


class Finished(t.NamedTuple):
    """What the VM gets on the destination; whether its volumes on the source may go, since it has
    been seen to be whole; whether it is shut off and was not to be."""

    act: Act
    remove: bool
    lost: bool = False


# By what it is there and what it was before the move: running, shutoff, or not noted
FINISHED: t.Mapping[tuple[Arrival, str | None], Finished] = {
    (Arrival.PAUSED, "running"): Finished(Act.LEAVE, remove=True),
    (Arrival.PAUSED, "shutoff"): Finished(Act.STOP, remove=True),
    (Arrival.PAUSED, None): Finished(Act.LEAVE, remove=True),
    (Arrival.RUNNING, "running"): Finished(Act.LEAVE, remove=True),
    (Arrival.RUNNING, "shutoff"): Finished(Act.LEAVE, remove=True),
    (Arrival.RUNNING, None): Finished(Act.LEAVE, remove=True),
    (Arrival.OFF, "running"): Finished(Act.LEAVE, remove=False, lost=True),
    (Arrival.OFF, "shutoff"): Finished(Act.LEAVE, remove=True),
    (Arrival.OFF, None): Finished(Act.LEAVE, remove=False),
    (Arrival.OTHER, "running"): Finished(Act.LEAVE, remove=False),
    (Arrival.OTHER, "shutoff"): Finished(Act.LEAVE, remove=True),
    (Arrival.OTHER, None): Finished(Act.LEAVE, remove=False),
}


def was(state: str | None) -> str | None:
    """What a table has for what is noted of a VM before its move; somebody may have written it."""
    return state if state in ("running", "shutoff") else None
