# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The migration itself: a transient unit of this host, watched with limits.

virsh runs in the unit, and libvirt continues the move even if virsh is killed. So the move survives
this module and the controller, and the next run finds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import typing as t
from pathlib import Path

from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass, field
from ..base import effects_locks as locks
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from ..base.effects_connection import Connection
from . import effects_progress as migration_progress
from . import progress
from . import read_sockets as migration_sockets
from .plan import downtimes
from .read import job_of

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_POLL = 0.25
_ASK_SECONDS = 5.0  # between two checks whether the destination still responds
_SILENT_SECONDS = 40.0  # libvirt's own keepalive has given up by then
_STALL_SECONDS = 120.0  # without a byte copied
_PAUSED_SECONDS = 60.0  # that a move gets at least once its guest is paused
_END_SECONDS = 30.0  # that a job may take to end after it was aborted


@dataclass
class Watched:
    """Progress and outcome of a move: ``error`` is None if libvirt reports success. ``disks`` are
    the bytes of disks to copy, as libvirt last reported them."""

    error: str | None = None
    lines: list[str] = field(default_factory=list)
    processed: int = 0
    disks: int = 0
    hangs: bool = False


def unit_of(uuid: str) -> str:
    """Name of the unit that moves the VM ``uuid``."""
    return f"fleet-virt-migrate-{uuid}.service"


def _log(uuid: str) -> Path:
    return locks.own_folder() / f"migrate-{uuid}.log"


def start(uuid: str, argv: t.Sequence[str]) -> None:
    """Start the move in a unit of its own."""
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
    """State of the unit: running, done or failed; None if there is no unit."""
    values = systemd.properties(unit_of(uuid), "LoadState", "ActiveState", "SubState")
    if values.get("LoadState") == "not-found" or values.get("ActiveState") == "inactive":
        return None
    if values.get("ActiveState") == "failed":
        return "failed"
    return "done" if values.get("SubState") == "exited" else "running"


def output(uuid: str) -> str:
    """The output of virsh."""
    with contextlib.suppress(OSError):
        text = _log(uuid).read_text(encoding="utf-8", errors="replace")
        return " ".join(text.removeprefix("error: ").split())[:2000]
    return ""


def clear(uuid: str) -> None:
    """Remove the unit, which has ended."""
    systemd.clear(unit_of(uuid))
    with contextlib.suppress(FileNotFoundError):
        _log(uuid).unlink()
    migration_progress.forget(uuid)
    migration_sockets.forget(uuid)


class Watch:
    """Watches the move of one VM."""

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
        """Wait until it ends, by itself, for taking too long, or as the destination is gone."""
        began, limit = time.monotonic(), self.seconds
        why, pause = "", self.pause
        while self._is_running():
            now = time.monotonic()
            self._progress(now)
            if now - began > limit and pause:
                # its memory no longer changes, so the same time again is enough
                pause, limit = False, limit + max(limit, _PAUSED_SECONDS)
                self._suspend()
            elif now - began > limit:
                why = f"it took longer than {limit:g} seconds and was aborted"
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
            self.seen.error = output(self.uuid) or "libvirt ended it without an error message"
        return self.seen

    def _suspend(self) -> None:
        """Pause the guest so that its memory no longer changes; libvirt resumes it on arrival."""
        self._say(f"{self.name}: paused after {self.seconds:g} s")
        with contextlib.suppress(FleetVirtError):
            self.connection.call(f"pause {self.name}", self.dom.suspend)

    def _is_running(self) -> bool:
        return self._job() is not None or state(self.uuid) == "running"

    def _job(self) -> str | None:
        """libvirt's job; None also if the domain is gone, as after a finished move."""
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
        if processed != self._processed:  # less if another phase starts counting
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
        """Raise the permitted downtime of the guest when its next stage is due."""
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
        """Abort the job, if need be by closing its connections."""
        with contextlib.suppress(FleetVirtError):
            self.connection.call(f"end the job of {self.name}", self.dom.abortJob)
        if self._ended(5.0):
            return
        self._yank()
        migration_sockets.cut(self.uuid)
        self.seen.hangs = not self._ended(_END_SECONDS)

    def _ended(self, seconds: float) -> bool:
        limit = time.monotonic() + seconds
        while self._is_running():
            if time.monotonic() > limit:
                return False
            time.sleep(_POLL)
        return True

    def _yank(self) -> None:
        """Have QEMU drop connections to a dead peer that it would wait for (QMP's yank)."""

        def ask(command: t.Mapping[str, object]) -> str:
            argv = ["virsh", "--connect", self.connection.uri, "qemu-monitor-command", self.uuid]
            done = programs.attempt([*argv, json.dumps(command)], seconds=20.0)
            return done.out if done is not None else ""

        with contextlib.suppress(FleetVirtError, ValueError, KeyError, TypeError):
            listed = json.loads(ask({"execute": "query-yank"}))["return"]
            instances = [
                instance
                for instance in listed
                if instance.get("type") == "migration"
                or (
                    instance.get("type") == "block-node"
                    and "migration-" in instance.get("node-name", "")
                )
            ]
            if instances:
                ask({"execute": "yank", "arguments": {"instances": instances}})
