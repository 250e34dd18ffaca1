# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which end has the VM after a move has ended, and what is done there: tables of cases.

libvirt defines the VM on the destination when it has been transferred completely, and not before.
So a definition there is the VM, and is never removed.
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

    AGAIN = "both are checked again; after the limit, the outcome is unknown"
    JOIN = "nothing: the next run joins the move in progress"
    FINISH = "the move is finished: what is left of it on the source is removed"
    REPLACE = "the same, but first the definition on the source is removed"
    UNDO = "the move is undone: the destination is cleaned up"
    WAIT = "both may still change; after the limit, the owner of the VM cannot be determined"
    STOP = "both may still change; after the limit, what waits on the destination is stopped"


_S, _D, _V = SourceState, DestinationState, Verdict
_COLUMNS = (_D.SILENT, _D.ABSENT, _D.FOREIGN, _D.COMING, _D.WAITING, _D.ARRIVED)
_ROWS = {
    _S.ABSENT: (_V.WAIT, _V.WAIT, _V.WAIT, _V.WAIT, _V.WAIT, _V.FINISH),
    _S.OFF: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.WAIT, _V.REPLACE),
    _S.PAUSED: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.WAIT, _V.WAIT),
    _S.RUNNING: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.STOP, _V.WAIT),
}
# Verdicts that do not need the destination
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
    """What is done regardless of the destination; None if it depends on it."""
    return _ALONE.get(source)


class Act(enum.Enum):
    """What is done with the VM where it is."""

    LEAVE = "it stays as it is"
    RESUME = "it runs again"
    STOP = "it ends: only the move had started it, paused"


class Left(t.NamedTuple):
    """What is done with the VM on the source; whether it is shut off then, and should not be."""

    act: Act
    off: bool
    lost: bool = False


# By its state there and before the move: running, shutoff, or not recorded
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
    """What is done with the VM on the destination; whether its volumes on the source may be
    removed, since it is known to be complete; whether it is shut off and should not be."""

    act: Act
    remove: bool
    lost: bool = False


# By its state there and before the move: running, shutoff, or not recorded
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
    """The table's key for a recorded earlier state of a VM, which may have been edited by hand."""
    return state if state in ("running", "shutoff") else None
