# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The migration itself: a transient unit of this host, watched with limits.

libvirt's program runs in the unit, and libvirt goes on with the move even if that is killed. So
neither the end of this module nor that of the controller ends it, and the next run finds it.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ..._errors import FleetVirtError, PlanRefused
from ..._pure.migration import progress
from ..._pure.migration.command import downtimes
from ..base import locks, programs, systemd
from ..base.connection import Connection
from . import progress as migration_progress
from . import sockets as migration_sockets
from .facts import job_of

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_POLL = 0.25
_ASK_SECONDS = 5.0  # between two questions whether the destination still answers
_SILENT_SECONDS = 40.0  # libvirt's own keepalive has given up by then
_STALL_SECONDS = 120.0  # in which not a byte was copied
_PAUSED_SECONDS = 60.0  # that a move has at least once its guest is paused
_END_SECONDS = 30.0  # that a job may take to end after it was told to


@dataclass
class Watched:
    """What was seen of the move: ``error`` is None if libvirt says it succeeded. ``disks`` are the
    bytes of disks that had to be copied, as libvirt knew last."""

    error: str | None = None
    lines: list[str] = field(default_factory=list)
    processed: int = 0
    disks: int = 0
    hangs: bool = False


def unit_of(uuid: str) -> str:
    """The unit that moves the VM ``uuid``."""
    return f"fleet-virt-migrate-{uuid}.service"


def _log(uuid: str) -> Path:
    return locks.own_folder() / f"migrate-{uuid}.log"


def start(uuid: str, argv: t.Sequence[str]) -> None:
    """Begin the move as a unit of its own."""
    clear(uuid)
    program = programs.find(argv[0])
    if program is None:
        raise PlanRefused(f"{argv[0]} is not installed; install the package libvirt-clients")
    descriptor = os.open(_log(uuid), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    os.close(descriptor)
    properties = (
        "RemainAfterExit=yes",
        f"StandardOutput=append:{_log(uuid)}",
        f"StandardError=append:{_log(uuid)}",
        "Environment=LC_ALL=C LANGUAGE=C",
    )
    words = systemd.own_unit(unit_of(uuid), [program, *argv[1:]], properties=properties)
    with migration_sockets.noted(uuid, lambda: state(uuid) == "running"):
        programs.run(words)


def state(uuid: str) -> str | None:
    """What the unit does: running, done or failed; None if there is none."""
    values = systemd.properties(unit_of(uuid), "LoadState", "ActiveState", "SubState")
    if values.get("LoadState") == "not-found" or values.get("ActiveState") == "inactive":
        return None
    if values.get("ActiveState") == "failed":
        return "failed"
    return "done" if values.get("SubState") == "exited" else "running"


def said(uuid: str) -> str:
    """What libvirt's program printed."""
    with contextlib.suppress(OSError):
        text = _log(uuid).read_text(encoding="utf-8", errors="replace")
        return " ".join(text.removeprefix("error: ").split())[:2000]
    return ""


def clear(uuid: str) -> None:
    """Take the unit away, which has ended."""
    systemd.clear(unit_of(uuid))
    with contextlib.suppress(FileNotFoundError):
        _log(uuid).unlink()
    migration_progress.forget(uuid)
    migration_sockets.forget(uuid)


class Watch:
    """Waiting for the move of one VM."""

    def __init__(
        self,
        connection: Connection,
        remote: Connection,
        dom: VirDomain,
        address: str,
        seconds: float,
        max_downtime: int | None,
        *,
        pause: bool,
    ) -> None:
        self.connection = connection
        self.remote = remote
        self.dom = dom
        self.name = str(dom.name())
        self.uuid = str(dom.UUIDString())
        self.address = address
        self.seconds = seconds
        self._downtimes = downtimes(max_downtime, seconds) if max_downtime else []
        self.pause = pause
        self.seen = Watched()
        self._began = time.monotonic()
        self._line = self._asked = self._answered = self._changed = self._began
        self._processed = 0

    def wait(self) -> Watched:
        """Until it has ended, by itself or because it took too long or the other end is gone."""
        began, limit = time.monotonic(), self.seconds
        why, pause = "", self.pause
        while self._goes_on():
            now = time.monotonic()
            self._progress(now)
            if now - began > limit and pause:
                # it changes nothing any more, so as much time again is enough
                pause, limit = False, limit + max(limit, _PAUSED_SECONDS)
                self._suspend()
            elif now - began > limit:
                why = f"it took longer than {limit:g} seconds and was ended"
            elif now - self._changed > _STALL_SECONDS:
                why = f"nothing was copied for {_STALL_SECONDS:g} seconds"
            elif not self._other_end(now):
                why = f"{self.address} has not answered for {_SILENT_SECONDS:g} seconds"
            if why:
                self._end()
                break
            time.sleep(_POLL)
        if why:
            self.seen.error = why
        elif state(self.uuid) != "done":
            self.seen.error = said(self.uuid) or "libvirt ended it without saying why"
        return self.seen

    def _suspend(self) -> None:
        """Have the guest change nothing any more; libvirt lets it run again where it arrives."""
        self._say(f"{self.name}: paused, {self.seconds:g} s are over")
        with contextlib.suppress(FleetVirtError):
            self.connection.call(f"pause {self.name}", self.dom.suspend)

    def _goes_on(self) -> bool:
        return self._job() is not None or state(self.uuid) == "running"

    def _job(self) -> str | None:
        """libvirt's job; None also when the domain is gone, which a finished move makes it."""
        try:
            return job_of(self.connection, self.dom)
        except FleetVirtError:
            return None

    def _progress(self, now: float) -> None:
        try:
            stats = self.connection.call(f"read the job of {self.name}", self.dom.jobStats, 0)
        except FleetVirtError:
            return
        processed = int(stats.get("data_processed", 0))
        if processed != self._processed:  # less, where another phase counts anew
            self._processed, self._changed = processed, now
        self.seen.processed = max(self.seen.processed, processed)
        self.seen.disks = int(stats.get("disk_total", 0)) or self.seen.disks
        total = int(stats.get("data_total", 0))
        if total:
            self._allow_downtime(now)
        if total and now - self._line >= progress.SECONDS:
            self._line = now
            self._say(progress.line(self.name, stats))

    def _say(self, line: str) -> None:
        self.seen.lines.append(line)
        migration_progress.note(self.uuid, self.name, line)

    def _allow_downtime(self, now: float) -> None:
        """The next stage of what the guest may stand still at the end."""
        while self._downtimes and now - self._began >= self._downtimes[0][0]:
            _at, milliseconds = self._downtimes.pop(0)
            with contextlib.suppress(FleetVirtError):
                self.connection.call(
                    "set the downtime", self.dom.migrateSetMaxDowntime, milliseconds, 0
                )

    def _other_end(self, now: float) -> bool:
        if now - self._asked >= _ASK_SECONDS:
            self._asked = now
            with contextlib.suppress(FleetVirtError):
                self.remote.call("ask the destination", self.remote.conn.getLibVersion)
                self._answered = time.monotonic()
        return time.monotonic() - self._answered < _SILENT_SECONDS

    def _end(self) -> None:
        """End the job, if need be by taking its own connections away."""
        with contextlib.suppress(FleetVirtError):
            self.connection.call(f"end the job of {self.name}", self.dom.abortJob)
        if self._ended(5.0):
            return
        self._yank()
        migration_sockets.cut(self.uuid)
        self.seen.hangs = not self._ended(_END_SECONDS)

    def _ended(self, seconds: float) -> bool:
        limit = time.monotonic() + seconds
        while self._goes_on():
            if time.monotonic() > limit:
                return False
            time.sleep(_POLL)
        return True

    def _yank(self) -> None:
        """Have QEMU drop connections to a dead peer, which it would wait for (QMP's yank)."""

        def ask(command: t.Mapping[str, object]) -> str:
            argv = ["virsh", "--connect", self.connection.uri, "qemu-monitor-command", self.uuid]
            done = programs.attempt([*argv, json.dumps(command)], seconds=20.0)
            return done.out if done is not None else ""

        with contextlib.suppress(FleetVirtError, ValueError, KeyError, TypeError):
            listed = json.loads(ask({"execute": "query-yank"}))["return"]
            instances = [
                one
                for one in listed
                if one.get("type") == "migration"
                or (one.get("type") == "block-node" and "migration-" in one.get("node-name", ""))
            ]
            if instances:
                ask({"execute": "yank", "arguments": {"instances": instances}})
