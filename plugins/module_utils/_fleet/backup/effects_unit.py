# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs in the unit of a backup: libvirt's job, its reader, borg, and a watch over them.

QEMU copies what the guest overwrites into scratch files first, and lets the *guest's* write fail
where that fails. So the watch ends the job long before, when the caller is gone, when the reader
has ended, or when libvirt has ended the job; and however this process ends, the unit's last command
ends the job and removes what is left.

borg asks a command for the paths that it saves, and commits the archive only if that succeeds. It
is told the disks at once, and the rest when it has read them: only then does it ask for more than
the pipes hold. Only if they are of one moment does it get the manifest, and the command succeed.
What goes wrong until then, also the death of this process, leaves no archive.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
import typing as t
from datetime import datetime, timezone

from ... import _lxml
from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass, field
from ..base import durations
from ..base import effects_programs as programs
from ..base.effects_connection import Connection, connect
from ..base.effects_lookup import read_metadata
from ..base.json_values import as_mapping
from ..engine import effects_backups as backups
from ..engine import leases
from ..snapshots import effects_quiesce as quiesce_guest
from . import archives, places, read
from . import effects_borg as borg
from . import effects_saved_files as files
from .effects_shown_disk import ShownDisk
from .facts import BackupDisk

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_POLL = 0.1
_LOOK_SECONDS = 0.5
_BEGIN_SECONDS = 120.0
_START_SECONDS = 30.0
_RESTART_SECONDS = 30.0  # in which libvirt answers again
_FULL = 0.8  # of the scratch's room; then the guest comes first
_MIB = 1024**2
_CACHE = "/var/cache/fleet-virt/borg"
_CREATE = (
    *("create", "--json", "--sparse", "--numeric-ids", "--paths-from-command"),
    *("--chunker-params", "fixed,262144", "--files-cache=disabled", "--compression", "lz4"),
)
_PATHS, _VERDICT, _GO = "paths", "verdict", b"go"
_COMMAND = ("sh", "-c", f'cat {_PATHS} && exec >&- && test "$(cat {_VERDICT})" = go')
_GIVES_WAY = "something else was to be done with it, such as a move or a snapshot, which wins"
# glibc would get each block's memory from the kernel, which is most of what the reader costs
_BUFFERS = ("MALLOC_MMAP_THRESHOLD_=33554432", "MALLOC_TRIM_THRESHOLD_=67108864")
_BLOCK = 4096  # characters that borg reads of paths before it begins with the first
_PIPES = 1 << 20  # more than what is between the writer of paths and borg can hold
Said = t.TypeVar("Said")
Answer = dict[str, object]  # as JSON; ``gave_way``: it can be tried again at once


class _GaveWayError(FleetVirtError):
    """Other work on the VM has begun."""


@dataclass(frozen=True)
class UnitOrder:
    """What a unit is told, through a pipe: there is a passphrase in it."""

    uri: str
    timeout: float
    name: str
    uuid: str
    host: str
    active: bool
    quiesce: str
    to: str
    passphrase: str = field(repr=False)
    ssh_key: str | None
    scratch: str
    scratch_mib: int
    domain: str
    seed: str | None
    disks: list[BackupDisk]
    left_out: list[archives.LeftOut] = field(default_factory=list)
    one_file: list[archives.OneFile] = field(default_factory=list)


def read_order(text: bytes) -> UnitOrder:
    """The order that ``dataclasses.asdict`` and JSON made a line of."""
    given = json.loads(text)
    for key, kind in (
        ("disks", BackupDisk),
        ("left_out", archives.LeftOut),
        ("one_file", archives.OneFile),
    ):
        given[key] = [kind(**entry) for entry in given[key]]
    return UnitOrder(**given)


def main() -> t.NoReturn:
    """Back up the VM of the order on standard input; print what came of it, as JSON."""
    line = sys.stdin.buffer.readline()
    work = _Backup(read_order(line))
    signal.signal(signal.SIGTERM, work.end_early)
    answer = work.run()
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    # The unit ends what is left: threads, the reader, borg
    os._exit(1 if "error" in answer else 0)


class _Backup:
    """One backup: a thread does it, this one watches."""

    def __init__(self, order: UnitOrder) -> None:
        self.order = order
        self.folder = read.folder(order.uuid)
        self.disks = order.disks
        self.begun = False
        self.gives_way = threading.Event()
        self.answer: Answer | None = None
        self.reader: programs.Running | None = None
        self.shown: list[ShownDisk] = []
        self.at = ""
        self.consistency = archives.SHUT_OFF
        # Those that libvirt's job does not have are read from their files
        self.still = [disk for disk in self.disks if not (order.active and disk.written)]
        self._before = [files.identity(disk) for disk in self.still]

    def run(self) -> Answer:
        """Do it, and watch; what came of it."""
        worker = threading.Thread(target=self._work, daemon=True)
        with connect(self.order.uri, self.order.timeout) as connection:
            dom = connection.call(
                f"find {self.order.name}", connection.conn.lookupByUUIDString, self.order.uuid
            )
            worker.start()
            ended = self._watch(connection, dom)
            if ended is None and "error" in (self.answer or {}):
                time.sleep(_POLL)  # systemd tells borg to end at the same time
                ended = _gave_way(_GIVES_WAY) if self.gives_way.is_set() else None
        if self.order.active:
            with contextlib.suppress(FleetVirtError), self._asking() as (connection, dom):
                end_job(connection, dom)
                # Of one that was ended early, the worker may still be beginning the job
                if ended is None and not read.has_own_job(connection, dom):
                    (self.folder / read.JOB_ENDED).touch()
        return ended or self.answer or {"error": "it ended without a result"}

    def end_early(self, *_signal: object) -> None:
        """End it: something else is to be done with the VM."""
        self.gives_way.set()

    def _watch(self, connection: Connection, dom: VirDomain) -> Answer | None:
        """Wait for the end; why it was ended early."""
        caller = select.poll()
        caller.register(0, select.POLLIN | select.POLLHUP)
        looked = time.monotonic()
        while self.answer is None:
            if self.gives_way.is_set():
                return _gave_way(_GIVES_WAY)
            if caller.poll(_POLL * 1000):  # nothing more is ever sent: the other end is closed
                return {"error": "the run that had asked for it is gone"}
            if self.order.active and self._scratch_bytes() > self._most_scratch():
                why = (
                    f"the guest overwrote so much meanwhile that {_FULL:.0%} of the"
                    f" {self.order.scratch_mib} MiB for that in {self.order.scratch} are used, and"
                    " it must not be stopped by them; make more space, set virt_backup_scratch to"
                    " another folder, or save the VM at another time"
                )
                return {"error": why}
            if not self.begun:
                continue
            if self.reader is not None and self.reader.poll() is not None:
                time.sleep(_POLL)  # both are told to end at the same time
                if self.gives_way.is_set():
                    return _gave_way(_GIVES_WAY)
                why = "qemu-storage-daemon ended, which reads the disks; try again"
                return self._reason(connection, dom, why)
            if time.monotonic() - looked >= _LOOK_SECONDS:
                looked = time.monotonic()
                with contextlib.suppress(FleetVirtError):  # libvirt is being restarted
                    with self._asking() as (anew, domain):
                        lost = self._lost_by(anew, domain)
                    if lost:
                        return _gave_way(lost)
        return None

    def _reason(self, connection: Connection, dom: VirDomain, error: str) -> Answer:
        """Why it failed: the ``error`` may follow from what was done to the VM."""
        lost = None
        with contextlib.suppress(FleetVirtError):
            lost = self._lost(connection, dom)
        return _gave_way(lost) if lost else {"error": error}

    @contextlib.contextmanager
    def _asking(self) -> t.Iterator[tuple[Connection, VirDomain]]:
        """A connection of its own, and the domain: others end with a libvirtd that is restarted,
        but the job does not."""
        with connect(self.order.uri, self.order.timeout) as connection:
            find = connection.conn.lookupByUUIDString
            yield connection, connection.call(f"find {self.order.name}", find, self.order.uuid)

    def _patiently(
        self, connection: Connection, dom: VirDomain, ask: t.Callable[[Connection, VirDomain], Said]
    ) -> Said:
        """What libvirt says, which may be restarted meanwhile; raises FleetVirtError if it does not
        say it within a while."""
        with contextlib.suppress(FleetVirtError):
            return ask(connection, dom)
        limit = time.monotonic() + _RESTART_SECONDS
        while True:
            try:
                with self._asking() as (anew, domain):
                    return ask(anew, domain)
            except FleetVirtError:
                if time.monotonic() > limit:
                    raise
            time.sleep(_LOOK_SECONDS)

    def _lost(self, connection: Connection, dom: VirDomain) -> str | None:
        """Why the disks are no longer those of one moment; raises as :meth:`_patiently`."""
        return self._patiently(connection, dom, self._lost_by)

    def _lost_by(self, connection: Connection, dom: VirDomain) -> str | None:
        if not self.order.active:
            started = connection.call(f"read the state of {self.order.name}", dom.isActive)
            if started or self._changed():
                return "it was started meanwhile, or its files were changed, which wins"
        else:
            connection.call("ask libvirt", connection.conn.getLibVersion)
            if not read.has_own_job(connection, dom):
                connection.call("ask libvirt", connection.conn.getLibVersion)
                return (
                    "it was shut off meanwhile, or moved, or libvirt ended the job for something"
                    " else, all of which win"
                )
            if self._changed():
                return "files of its disks were changed by others than it, which wins"
        return None

    def _changed(self) -> bool:
        return [files.identity(disk) for disk in self.still] != self._before

    def _scratch_bytes(self) -> int:
        used = 0
        for disk in self.disks:
            path = read.scratch_file(self.order.scratch, self.order.uuid, disk.target)
            with contextlib.suppress(FileNotFoundError):
                used += os.stat(path).st_blocks * 512
        return used

    def _most_scratch(self) -> float:
        return self.order.scratch_mib * _MIB * _FULL

    def _work(self) -> None:
        try:
            answer = self._saved()
        except _GaveWayError as error:
            answer = _gave_way(str(error))
        except FleetVirtError as error:
            answer = {"error": str(error)}
        except Exception as error:  # the watch has to know
            answer = {"error": f"{type(error).__name__}: {error}"}
        self.answer = self.answer or answer

    def _saved(self) -> Answer:
        self._prepare()
        with connect(self.order.uri, self.order.timeout) as connection:
            dom = connection.call(
                f"find {self.order.name}", connection.conn.lookupByUUIDString, self.order.uuid
            )
            socket = None
            if self.order.active:
                with backups.beginning(self.order.uuid):
                    self._require_unmarked(connection, dom)
                    socket = self._begin(connection, dom)
            self.at = archives.moment(datetime.now(timezone.utc))
            self._copy_files(connection, dom)
            self.begun = True
            try:
                self._show_disks(socket)
                return self._borg(connection, dom)
            except FleetVirtError as error:
                return self._reason(connection, dom, str(error))

    def _require_unmarked(self, connection: Connection, dom: VirDomain) -> None:
        """Raise unless no other run has begun to work on the VM since the backup was planned: it
        has looked for this unit after it had marked the VM."""
        stored = read_metadata(connection, dom)
        if stored is not None and stored.phase is not None:
            work = leases.WORK.get(stored.phase, "changed")
            raise _GaveWayError(f"it is being {work}, which wins")

    def _prepare(self) -> None:
        os.makedirs(self.folder / "disks", mode=0o700)
        os.makedirs(self.order.scratch, mode=0o711, exist_ok=True)
        for disk in self.disks:
            (self.folder / archives.disk_path(disk.target)).touch(mode=0o600)
        for pipe in (_PATHS, _VERDICT):
            os.mkfifo(self.folder / pipe, 0o600)
        (self.folder / archives.DOMAIN).write_text(self.order.domain, encoding="utf-8")
        if self.order.seed is not None:
            (self.folder / archives.SEED).write_text(self.order.seed, encoding="utf-8")

    def _begin(self, connection: Connection, dom: VirDomain) -> str:
        """Begin libvirt's job, with the guest's file systems frozen if possible; its socket."""
        xml = connection.call(f"read {self.order.name}", dom.XMLDesc, 0)
        number = _lxml.parse(xml, f"domain {self.order.name}").get("id")
        socket = f"{read.private_folder(number)}/{read.SOCKET}"
        written = [disk for disk in self.disks if disk not in self.still]
        text = _lxml.tostring(_request(self.order, written, socket))

        def begin() -> None:
            connection.call(
                f"begin the backup of {self.order.name}",
                dom.backupBegin,
                text,
                None,
                0,
                seconds=_BEGIN_SECONDS,
            )

        frozen = quiesce_guest.around(connection, dom, begin, self.order.quiesce)
        self.consistency = archives.FROZEN if frozen else archives.CRASH_CONSISTENT
        return socket

    def _copy_files(self, connection: Connection, dom: VirDomain) -> None:
        """Copy the state of its firmware and of its TPM."""

        def ask(asked: Connection, domain: VirDomain) -> str:
            return str(asked.call(f"read {self.order.name}", domain.XMLDesc, 0))

        text = self._patiently(connection, dom, ask)
        root = _lxml.parse(text, f"domain {self.order.name}")
        files.copy_state(root, self.order.uuid, self.folder)

    def _show_disks(self, socket: str | None) -> None:
        """Have each disk shown as a raw file (FUSE)."""
        reader = self._serve_files() if self.still else ""
        for disk in self.disks:
            path = archives.disk_path(disk.target)
            of_job = socket is not None and disk not in self.still
            shown = ShownDisk(self.folder, path, str(socket) if of_job else reader, disk.target)
            self.shown.append(shown)
            if shown.size != disk.size:
                raise PlanRefused(
                    f"disk {disk.target} is {shown.size} bytes and was {disk.size}; try again"
                )

    def _serve_files(self) -> str:
        """Have QEMU read the files that no VM writes to; the socket of what it reads."""
        socket = str(self.folder / "nbd")
        argv = ["env", *_BUFFERS, programs.find("qemu-storage-daemon") or "qemu-storage-daemon"]
        argv += ["--nbd-server", f"addr.type=unix,addr.path={socket}"]
        for disk in self.still:
            export = {"type": "nbd", "id": disk.target, "node-name": disk.target}
            argv += ["--blockdev", json.dumps(files.node(disk))]
            argv += ["--export", json.dumps({**export, "name": disk.target})]
        # It makes the socket before the exports, and this last
        ready = self.folder / "ready"
        self.reader = programs.beside([*argv, "--pidfile", str(ready)], talks=False)
        limit = time.monotonic() + _START_SECONDS
        while not ready.exists():
            if self.reader.poll() is not None or time.monotonic() > limit:
                raise PlanRefused(
                    "qemu-storage-daemon did not open the disks; its messages are in the journal of"
                    f" {self.order.uuid}'s unit on the hypervisor"
                )
            time.sleep(0.02)
        return socket

    def _borg(self, connection: Connection, dom: VirDomain) -> Answer:
        """Save what is in the folder; borg commits the archive after the manifest."""
        order = self.order
        backup = archives.Backup(
            order.name,
            order.uuid,
            order.host,
            self.at,
            self.consistency,
            tuple(archives.SavedDisk(disk.target, disk.size, disk.format) for disk in self.disks),
        )
        repository = places.parse(order.to).repository(order.uuid)
        access = borg.Access(order.passphrase, _CACHE, order.ssh_key)
        gate = threading.Thread(target=self._gate, args=(connection, dom, backup), daemon=True)
        gate.start()
        comment = borg.placeholders_escaped(archives.comment(backup))
        words = [*_CREATE, "--comment", comment, f"{repository}::{backup.archive}", "--"]
        limit = float(durations.transfer(sum(disk.size for disk in self.disks)))

        def create() -> programs.Ended:
            return borg.run(access, [*words, *_COMMAND], seconds=limit, folder=str(self.folder))

        if not borg.has_used(access, repository):
            with contextlib.suppress(borg.RepositoryExists):
                borg.make(access, repository)
        try:
            ended = create()
        except borg.NoRepository:  # it has not asked for a path yet
            borg.make(access, repository)
            ended = create()
        warnings = borg.warnings(ended)
        if warnings:
            borg.run(access, ["delete", f"{repository}::{backup.archive}"])
            raise PlanRefused(f"borg warned: {'; '.join(warnings)[:500]}; try again")
        stats = as_mapping(
            as_mapping(as_mapping(json.loads(ended.out)).get("archive")).get("stats")
        )
        return {
            "archive": backup.archive,
            "consistency": backup.consistency,
            "size": sum(disk.size for disk in self.disks),
            "added": stats.get("deduplicated_size"),
        }

    def _gate(self, connection: Connection, dom: VirDomain, backup: archives.Backup) -> None:
        """Tell borg what to save, and in the end whether to commit it."""
        try:
            lost = self._passed(connection, dom, backup)
            answer = _gave_way(lost) if lost else None
        except Exception as error:  # the watch has to know
            answer = self._reason(connection, dom, f"{type(error).__name__}: {error}")
        if answer:
            self.answer = answer  # and borg waits until the unit has ended
            return
        with os.fdopen(files.opened(self.folder / _VERDICT), "wb") as verdict:
            verdict.write(_GO)

    def _passed(
        self, connection: Connection, dom: VirDomain, backup: archives.Backup
    ) -> str | None:
        disks = [disk.path for disk in backup.disks]
        small = [archives.DOMAIN, archives.NVRAM, archives.TPM, archives.SEED]
        small = [path for path in small if (self.folder / path).exists()]
        with os.fdopen(files.opened(self.folder / _PATHS), "wb") as paths:
            paths.write(_padded(disks, _BLOCK))
            paths.flush()
            os.set_blocking(paths.fileno(), True)
            paths.write(_padded(small, _PIPES))
            paths.flush()
            saved = [shown.digested() for shown in self.shown]
            saved += [files.digested(self.folder, path) for path in small]
            order = self.order
            parts = (tuple(saved), tuple(order.left_out), tuple(order.one_file))
            content = archives.Manifest(backup, *parts)
            text = archives.manifest(content)
            (self.folder / archives.MANIFEST).write_text(text, encoding="utf-8")
            why = self._lost(connection, dom)
            if why is None:
                paths.write(f"{archives.MANIFEST}\n".encode())
        return why


def _gave_way(why: str) -> Answer:
    return {"error": why, "gave_way": True}


def end_job(connection: Connection, dom: VirDomain) -> None:
    """End the backup job of this collection; there may be none, or the VM is gone."""
    with contextlib.suppress(FleetVirtError):
        if read.has_own_job(connection, dom):
            connection.call("end the backup job", dom.abortJob, seconds=_BEGIN_SECONDS)


def _request(order: UnitOrder, disks: t.Sequence[BackupDisk], socket: str) -> _lxml.Element:
    """The job's XML; disks that it does not name are not saved."""
    root = _lxml.new("domainbackup", {"mode": "pull"})
    _lxml.add(root, "server", {"transport": "unix", "socket": socket})
    parts = _lxml.add(root, "disks")
    for disk in disks:
        names = {"name": disk.target, "exportname": disk.target}
        element = _lxml.add(parts, "disk", {**names, "backup": "yes", "type": "file"})
        path = read.scratch_file(order.scratch, order.uuid, disk.target)
        _lxml.add(element, "scratch", {"file": path})
    return root


def _padded(paths: t.Sequence[str], block: int) -> bytes:
    """Paths as whole blocks: borg takes the dots away, and begins once it has a block."""
    text = "".join(f"{path}\n" for path in paths)
    missing = block - len(text) % block
    if missing == 1:
        missing += block
    return ("./" * (missing // 2) + "/" * (missing % 2) + text).encode()
