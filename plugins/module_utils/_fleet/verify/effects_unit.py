# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs in the unit of a proof: borg shows the archive, and a VM runs from it and is asked.

The archive stays as it is: each disk is an overlay over what borg shows of it. The VM is transient
and libvirt ends it with this process; the unit's last command removes what is left.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import stat
import sys
import threading
import time
import typing as t
from dataclasses import replace
from pathlib import Path

from ... import _lxml
from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused, visible
from ..._libvirt import (
    DOMAIN_CRASHED,
    DOMAIN_GET_HOSTNAME_AGENT,
    DOMAIN_PAUSED,
    DOMAIN_PAUSED_CRASHED,
    DOMAIN_PAUSED_IOERROR,
    DOMAIN_START_AUTODESTROY,
    ERR_NO_DOMAIN,
)
from ..._records import dataclass, field
from ..backup import archives
from ..backup import effects_borg as borg
from ..base import effects_programs as programs
from ..base.effects_connection import Connection, connect
from ..console import png, read_screenshot
from ..hosts import read_serial_output, serial_output
from ..restore import definition as restored
from ..restore import effects_state as states
from ..restore.effects_archive import Archive
from . import definition, read, verdict
from .definition import ProofPlaces, ProofVm
from .options import READ
from .verdict import CRASHED, ENDED, READ_ERROR, SHUT_OFF, Evidence

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..backup.archives import Manifest

CACHE = "/var/cache/fleet-virt/borg"
_POLL = 0.5
_MOUNT_SECONDS = 600.0  # borg reads what is in the archive first
_START_SECONDS = 180.0
_SCREEN_SECONDS = 30.0
_MORE_SECONDS = 10.0  # for a second answer, once there is one
_MIB = 1024**2
_MOST_SCREEN = 16 * _MIB
_MOST_NAME = 64
_WORDS = 4096


@dataclass(frozen=True)
class ProofOrder:
    """What a unit is told, through a pipe: there is a passphrase in it. ``run`` and ``files`` are
    its folders, which are its own."""

    uri: str
    timeout: float
    uuid: str
    vm: str
    repository: str
    archive: str
    place: str
    passphrase: str = field(repr=False)
    ssh_key: str | None
    manifest: str
    definition: str
    expected: bool
    unbootable: str
    depth: str
    boot_seconds: int
    overlay_mib: int
    run: str
    files: str


def main() -> t.NoReturn:
    """Prove the archive of the order on standard input; print what was found, as JSON."""
    order = ProofOrder(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_caller, daemon=True).start()
    try:
        with connect(order.uri, order.timeout) as connection:
            answer = BootedProof(order).found(connection)
    except FleetVirtError as error:
        answer = {"error": str(error)}
    except Exception as error:  # its caller has to know
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)  # nothing is waited for: the unit's last command ends and removes all of it


def _end_with_caller() -> None:
    """End as soon as the caller is gone."""
    waiting = select.poll()
    waiting.register(0, select.POLLIN | select.POLLHUP)
    waiting.poll()
    os._exit(1)


class BootedProof:
    """A backup on its way to a verdict."""

    def __init__(self, order: ProofOrder) -> None:
        self.order = order
        access = borg.Access(order.passphrase, CACHE, order.ssh_key)
        self.archive = Archive(access, order.place, order.repository, order.archive, waits=False)
        self.manifest: Manifest = archives.read_manifest(order.manifest)
        self.seen = Evidence(expected=order.expected, limit=order.boot_seconds)
        self.screen: png.Picture | None = None

    def found(self, connection: Connection) -> dict[str, object]:
        """What there is to say of the archive."""
        order = self.order
        if order.depth == READ:
            self._read()
        if order.unbootable:
            self.seen = replace(self.seen, not_started=order.unbootable)
        elif not self.seen.damage:
            self._boot(connection)
        if verdict.must_be_read(self.seen):
            self._read()
        result = verdict.judge(self.seen)
        screen = None
        if self.screen is not None and len(self.screen.content) <= _MOST_SCREEN:
            screen = base64.b64encode(self.screen.content).decode("ascii")
        return {
            "proof": result.proof,
            "how": result.how,
            "seconds": self.seen.seconds,
            "screen": screen,
        }

    def _read(self) -> None:
        """Compare every byte with the manifest's digests. What is wrong is read twice: another
        process may have freed space in the repository meanwhile."""
        for file in self.manifest.files:
            for last in (False, True):
                try:
                    self.archive.pour(file, lambda _offset, _block: None)
                except (archives.ArchiveError, borg.Damaged) as error:
                    if last:
                        self.seen = replace(self.seen, damage=f"{file.path}: {error}")
                        return
                else:
                    break
        self.seen = replace(self.seen, read=True)

    def _boot(self, connection: Connection) -> None:
        """Run the VM until it has answered, or its time is over."""
        self._prepare(connection)
        vm = self._prepared_vm()
        try:
            dom = connection.call(
                f"start {definition.name_of(self.order.uuid)}",
                connection.conn.createXML,
                _lxml.tostring(vm.root),
                DOMAIN_START_AUTODESTROY,
                seconds=_START_SECONDS,
            )
        except LibvirtFailure as error:
            # Raises if it is libvirt that failed, and not the VM
            connection.call("ask libvirt", connection.conn.getLibVersion)
            self.seen = replace(self.seen, not_started=str(error))
            return
        try:
            self._ask(connection, dom, vm)
            if vm.screen and self.seen.stopped not in (SHUT_OFF, ENDED):
                self._look(connection, dom)
        finally:
            with contextlib.suppress(FleetVirtError):
                connection.call("end the proof's VM", dom.destroy, seconds=_START_SECONDS)

    def _prepare(self, connection: Connection) -> None:
        """Show the archive to QEMU's user alone, with an overlay over each disk."""
        order = self.order
        user, group = _user_of_qemu(connection)
        shown = f"{order.run}/archive"
        os.makedirs(os.path.dirname(order.run), mode=0o711, exist_ok=True)
        os.mkdir(order.run, 0o710)
        os.chown(order.run, -1, group)
        os.mkdir(shown, 0o700)
        os.makedirs(os.path.dirname(order.files), mode=0o711, exist_ok=True)
        os.mkdir(order.files, 0o711)
        show(self.archive, shown, user, group)
        for disk in self.manifest.backup.disks:
            saved = Path(shown, disk.path)
            _require_file(saved, disk.size)
            overlay = self._overlay(disk.target)
            words = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw"]
            programs.run([*words, "-b", str(saved), overlay, str(disk.size)])
        for path in self._states():
            states.put(self.archive, self.manifest, path)

    def _overlay(self, target: str) -> str:
        return f"{self.order.files}/{target}.qcow2"

    @property
    def _nvram(self) -> str:
        return f"{self.order.files}/nvram.fd"

    def _states(self) -> list[str]:
        paths = []
        root = self._saved_definition()
        if self.manifest.file(archives.NVRAM) is not None:
            paths.append(self._nvram)
        if restored.has_tpm(root) and self.manifest.file(archives.TPM) is not None:
            paths.append(f"{restored.TPM_FOLDER}/{self.order.uuid}")
        return paths

    def _saved_definition(self) -> _lxml.Element:
        return _lxml.parse(self.order.definition, f"{archives.DOMAIN} of {self.order.vm}")

    def _prepared_vm(self) -> ProofVm:
        order, disks = self.order, self.manifest.backup.disks
        return definition.proof(
            self._saved_definition(),
            order.uuid,
            (order.vm, order.archive),
            disks,
            ProofPlaces(
                {disk.target: self._overlay(disk.target) for disk in disks},
                {disk.target: f"{order.run}/archive/{disk.path}" for disk in disks},
                self._nvram,
                order.files,
            ),
            nvram=self.manifest.file(archives.NVRAM) is not None,
        )

    def _ask(self, connection: Connection, dom: VirDomain, vm: ProofVm) -> None:
        """Ask its agent and read its consoles until both have answered, as far as it has them."""
        begin = time.monotonic()
        end = begin + self.order.boot_seconds
        while True:
            before = verdict.answered(self.seen)
            self._ask_once(connection, dom, vm)
            now = time.monotonic()
            if verdict.answered(self.seen) and not before:
                self.seen = replace(self.seen, seconds=round(now - begin))
                end = min(end, now + _MORE_SECONDS)
            both = (self.seen.agent or not vm.agent) and (self.seen.login or not vm.consoles)
            if self.seen.stopped or both or now > end:
                return
            self._require_room()
            time.sleep(_POLL)

    def _ask_once(self, connection: Connection, dom: VirDomain, vm: ProofVm) -> None:
        lines = [
            line
            for path in vm.consoles
            for line in serial_output.lines(read_serial_output.first_log([path])[1])
            if line
        ]
        login = any(map(verdict.is_login, lines))
        self.seen = replace(self.seen, login=login, printed=lines[-1] if lines else "")
        try:
            state, reason = connection.call("look at the proof's VM", dom.state, 0)
        except LibvirtFailure as error:
            if error.code != ERR_NO_DOMAIN:
                raise
            log = read_serial_output.first_log([read.libvirt_log(self.order.uuid)])[1]
            self.seen = replace(self.seen, stopped=verdict.stopped(log))
            return
        if state == DOMAIN_CRASHED or (state, reason) == (DOMAIN_PAUSED, DOMAIN_PAUSED_CRASHED):
            self.seen = replace(self.seen, stopped=CRASHED)
        elif (state, reason) == (DOMAIN_PAUSED, DOMAIN_PAUSED_IOERROR):
            self._require_room()
            self.seen = replace(self.seen, stopped=READ_ERROR)
        elif vm.agent and not self.seen.agent and _has_agent(connection, dom):
            with contextlib.suppress(FleetVirtError):  # it is asked again
                ask = "ask the agent in the proof's VM"
                name = connection.call(ask, dom.hostname, DOMAIN_GET_HOSTNAME_AGENT)
                self.seen = replace(
                    self.seen, agent=visible(str(name), "")[:_MOST_NAME] or "it has no host name"
                )

    def _require_room(self) -> None:
        """Raise PlanRefused if the guest has written more than it may, or the folder is full."""
        used = sum(path.stat().st_blocks * 512 for path in Path(self.order.files).iterdir())
        most = self.order.overlay_mib
        if used > most * _MIB or shutil.disk_usage(self.order.files).free < _MIB:
            raise PlanRefused(
                f"its guest wrote more than there is room for ({most} MiB in"
                f" {os.path.dirname(self.order.files)}), so nothing is known of it; set"
                " virt_proof_mib, or virt_proof_folder to another folder"
            )

    def _look(self, connection: Connection, dom: VirDomain) -> None:
        with contextlib.suppress(FleetVirtError):  # the consoles have told as much
            self.screen = connection.call(
                "look at the screen of the proof's VM",
                read_screenshot.picture,
                connection.conn,
                dom,
                0,
                seconds=_SCREEN_SECONDS,
            )
            self.seen = replace(self.seen, screen=self.screen is not None)


def show(archive: Archive, folder: str, user: int, group: int) -> None:
    """Have borg show the archive's files in ``folder``, to one user."""
    options = f"ro,allow_other,uid={user},gid={group}"
    process = borg.mounting(archive.access, archive.where, folder, options)
    said = bytearray()

    def drain() -> None:
        for line in programs.piped(process.stderr):
            said.extend(line[-_WORDS:])
            del said[:-_WORDS]

    draining = threading.Thread(target=drain, daemon=True)
    draining.start()
    limit = time.monotonic() + _MOUNT_SECONDS
    while not os.path.ismount(folder):
        if process.poll() is not None:
            draining.join(_POLL)
            raise borg.failure(said.decode("utf-8", "replace"), archive.access.base)
        if time.monotonic() > limit:
            raise PlanRefused(f"borg did not show the archive within {_MOUNT_SECONDS:g} s")
        time.sleep(0.02)


def _require_file(path: Path, size: int) -> None:
    """Raise ArchiveError unless ``path`` is a plain file in a plain folder of that size: a link in
    an archive would lead QEMU to any file of this hypervisor."""
    folder, file = os.lstat(path.parent), os.lstat(path)
    if not stat.S_ISDIR(folder.st_mode) or not stat.S_ISREG(file.st_mode) or file.st_size != size:
        raise archives.ArchiveError(f"{path.name} is no plain file of {size} bytes in the archive")


def _user_of_qemu(connection: Connection) -> tuple[int, int]:
    """The user and the group that QEMU runs as."""
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    for model in _lxml.parse(text, "capabilities").iterfind("host/secmodel"):
        label = model.findtext("baselabel") or ""
        if model.findtext("model") == "dac":
            user, _colon, group = label.partition(":")
            return int(user), int(group)
    return os.getuid(), os.getgid()


def _has_agent(connection: Connection, dom: VirDomain) -> bool:
    """Whether an agent is connected in the guest, so that asking it does not hang."""
    try:
        text = connection.call("look at the proof's VM", dom.XMLDesc, 0)
    except LibvirtFailure as error:
        if error.code != ERR_NO_DOMAIN:
            raise
        return False  # it is gone, which is seen when its state is looked at again
    root = _lxml.parse(text, "the proof's VM")
    return any(
        target.get("name") == definition.AGENT and target.get("state") == "connected"
        for target in root.iterfind("devices/channel/target")
    )
