# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making a hypervisor a member of a cell, and taking it out again."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import stat
import time
import typing as t

from ..._errors import DeadlineExceeded, DependencyMissing, PlanRefused
from ..._records import dataclass
from ..base import effects_config_files as config_files
from ..base import effects_files as files
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from ..cell import cib, corosync, read
from ..cell.facts import CellDone, FenceResource
from ..cell.files import (
    AGENT,
    COROSYNC_KEY,
    ENVIRONMENT,
    ENVIRONMENT_TEXT,
    PACEMAKER_KEY,
    SERVICES,
    SHEBANG,
    STATE,
    UNIT,
    UNIT_TEXT,
)
from .options import CellJob

if t.TYPE_CHECKING:
    from ..._lxml import Element

_ONLINE = 180.0
_ANSWER = 60.0  # one that is being started says nothing yet
_RESOURCE = 30
_DEVICES = 150.0  # one that was slow at first is asked again after a minute
_STOP = 330.0  # longer than systemd's own limit
_PAUSE = 1.0
_QDEVICE = "corosync-qdevice.service"


@dataclass(frozen=True)
class CellOrder:
    """The job of a hypervisor with its secrets: the keys of Corosync and of Pacemaker, and
    ``devices`` with their passwords."""

    job: CellJob
    keys: tuple[bytes, bytes]
    devices: tuple[FenceResource, ...]


def order_of(job: CellJob, secrets: t.Mapping[str, object]) -> CellOrder:
    """The job that the controller sent, and its secrets, which it sent apart."""
    devices = []
    for device in job.devices:
        start = f"{device.id}/"
        own = {
            name[len(start) :]: str(value)
            for name, value in secrets.items()
            if name.startswith(start)
        }
        devices.append(dataclasses.replace(device, secrets=own))
    keys = [bytes.fromhex(str(secrets.get(name, ""))) for name in ("corosync", "pacemaker")]
    return CellOrder(job, (keys[0], keys[1]), tuple(devices))


@dataclass(frozen=True)
class _File:
    path: str
    content: bytes
    mode: int
    owner: tuple[str, str]

    def is_there(self) -> bool:
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                same = file.read() == self.content
        except OSError:
            return False
        return same and (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (
            self.mode,
            *(_ids(self.owner) or (-1, -1)),
        )


def _ids(owner: tuple[str, str]) -> tuple[int, int] | None:
    import grp
    import pwd

    try:
        return pwd.getpwnam(owner[0]).pw_uid, grp.getgrnam(owner[1]).gr_gid
    except KeyError:
        return None


def write(order: CellOrder, *, check: bool) -> CellDone:
    """Write the files of a member; one that leaves is stopped, and loses them."""
    job = order.job
    present = corosync.read(config_files.read(corosync.PATH))
    if job.leave:
        return _leave(job, present.cell, check=check)
    root = ("root", "root")
    wanted = [
        _File(COROSYNC_KEY, order.keys[0], 0o400, root),
        _File(PACEMAKER_KEY, order.keys[1], 0o440, ("hacluster", "haclient")),
        _File(AGENT, (SHEBANG + job.agent).encode(), 0o755, root),
        _File(ENVIRONMENT, ENVIRONMENT_TEXT.encode(), 0o644, root),
        _File(UNIT, UNIT_TEXT.encode(), 0o644, root),
        # the last one, by which the next run knows that it was a member
        _File(corosync.PATH, corosync.text_of(job.settings).encode(), 0o644, root),
    ]
    differing = [file for file in wanted if not file.is_there()]
    joins = present.cell != job.settings.cell
    active = [name for name in reversed(SERVICES) if joins and systemd.is_active(name)]
    if active:  # of a member that has lost its file, as well as what a package has started
        what, remedy = "Pacemaker has to be stopped on", f"copy {corosync.PATH} of a member to it"
        _refuse_vms(job.host, what, read.monitored(), remedy)
    steps = [f"stop {name}" for name in active] + [f"write {file.path}" for file in differing]
    if not check:
        for name in active:
            _stop(name)
        if joins:
            _forget()
        for file in differing:
            owner = _ids(file.owner)
            if owner is None:
                raise DependencyMissing(
                    f"the user {file.owner[0]} is missing; install pacemaker, which has it"
                )
            os.makedirs(os.path.dirname(file.path), mode=0o755, exist_ok=True)
            files.write(file.path, file.content, mode=file.mode, owner=owner, locked=True)
        if any(file.path == UNIT for file in differing):
            systemd.systemctl("daemon-reload")
    return {"changed": bool(steps), "steps": steps}


def _leave(job: CellJob, cell: str | None, *, check: bool) -> CellDone:
    services = [_QDEVICE, *reversed(SERVICES)]
    running = [name for name in services if systemd.is_active(name)]
    enabled = [name for name in services if systemd.is_enabled(name)]
    paths = [COROSYNC_KEY, PACEMAKER_KEY, AGENT, ENVIRONMENT, UNIT, corosync.PATH]
    left = [path for path in paths if os.path.lexists(path)]
    if cell != job.settings.cell:
        return {"changed": False, "steps": []}
    steps = [f"stop {name}" for name in running] + [f"disable {name}" for name in enabled]
    steps += [f"remove {path}" for path in left]
    _require_idle(job.host, "the cell is to lose")  # one may have come since it was decided
    if not check:
        for name in running:
            _stop(name)
        for name in enabled:
            systemd.systemctl("disable", name)
        _forget()
        for path in left:
            os.unlink(path)
        for path in (AGENT, UNIT):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(path))
        systemd.systemctl("daemon-reload")
    return {"changed": True, "steps": steps}


def _forget() -> None:
    """Remove what Pacemaker has stored: of two configurations that meet the newer one wins, and
    not that of the cell."""
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(STATE):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)


def _stop(service: str) -> None:
    """Stop a service; pacemaker may hang while it joins, and systemd then ends it."""
    with contextlib.suppress(DeadlineExceeded):
        systemd.stop(service, _STOP)
    if systemd.is_active(service):
        raise PlanRefused(
            f"{service} did not stop within {_STOP:g} seconds{systemd.journal([service])}. See"
            f" journalctl -u {service}, and run this again"
        )


def activate(order: CellOrder, *, check: bool) -> CellDone:
    """Have corosync and Pacemaker run here with the files that were written."""
    job = order.job
    services = [*SERVICES, *([_QDEVICE] if job.settings.qdevice else [])]
    enable = [name for name in services if not systemd.is_enabled(name)]
    idle = [name for name in services if not systemd.is_active(name)]
    steps = [f"enable {name}" for name in enable] + [f"start {name}" for name in idle]
    joins = check and corosync.read(config_files.read(corosync.PATH)).cell != job.settings.cell
    if joins:
        idle = services
        steps = [f"enable {name}" for name in enable] + [f"start {name}" for name in idle]
    restart = reload = False
    if SERVICES[0] not in idle:
        values = read.running_values()
        restart = corosync.needs_restart(job.settings, values)
        reload = not restart and corosync.running_differs(job.settings, values)
    if restart:
        _require_idle(job.host, "corosync has to be restarted on")
        steps.append(f"restart {' and '.join(SERVICES)}")
    if reload:
        steps.append("reload corosync.conf")
    if not check:
        if enable:
            systemd.systemctl("enable", *enable)
        if restart:
            for name in reversed(SERVICES):
                _stop(name)
        if restart or idle:
            systemd.systemctl("reset-failed", *services, may_fail=True)
            systemd.systemctl("start", *services)
        if reload:
            programs.run(["corosync-cfgtool", "-R"])
        if restart or idle:
            _await_online({job.host}, quorum=False)
    return {"changed": bool(steps), "steps": steps}


def _require_idle(host: str, what: str) -> None:
    """Refuse what would stop VMs, also where Pacemaker runs and does not say whether it has any."""
    end = time.monotonic() + _ANSWER
    while (seen := read.monitored()) is None and systemd.is_active(SERVICES[-1]):
        if time.monotonic() > end:
            raise PlanRefused(
                f"{what} {host}, whose Pacemaker does not answer, so nobody knows which VMs run"
                f" there{systemd.journal([SERVICES[-1]])}. See journalctl -u pacemaker on {host},"
                " and run this again"
            )
        time.sleep(_PAUSE)
    _refuse_vms(host, what, seen, "evacuate it")


def _refuse_vms(host: str, what: str, seen: cib.Monitored | None, remedy: str) -> None:
    here = sorted(vm for vm, nodes in seen.vms.items() if host in nodes) if seen else []
    if here:
        raise PlanRefused(
            f"{what} {host}, which runs {', '.join(here)}; {remedy}, and run this again"
        )


def configure(order: CellOrder, *, check: bool) -> CellDone:
    """Wait until all members are there, and write the configuration of the cell."""
    names = {member.name for member in order.job.settings.members}
    root = read.configuration()
    if check:
        steps = [f"remove the node {name}" for name in _gone(root, names)]
        steps += [change.text for change in cib.changes(_or_empty(root), order.devices)]
        return {"changed": bool(steps), "steps": steps}
    _await_online(names, quorum=True)
    steps = []
    root = read.configuration()
    for name in _gone(root, names):
        programs.run(["crm_node", "--force", "--remove", name])
        steps.append(f"remove the node {name}")
    for change in cib.changes(_or_empty(root), order.devices):
        if change.stop:
            _stop_resource(change.stop)
        _change(change)
        steps.append(change.text)
    left = cib.changes(_or_empty(read.configuration()), order.devices)
    if left:
        raise PlanRefused(
            f"Pacemaker did not keep what was written: {'; '.join(change.text for change in left)}"
        )
    _await_devices({device.id for device in order.devices})
    return {"changed": bool(steps), "steps": steps}


def _gone(root: Element | None, members: t.Container[str]) -> list[str]:
    """Nodes that Pacemaker knows and that are members no more."""
    nodes = _or_empty(root).iterfind("configuration/nodes/node")
    return [name for node in nodes if (name := str(node.get("uname"))) not in members]


def _stop_resource(name: str) -> None:
    """Have Pacemaker stop a resource, as far as it does within the limit."""
    meta = ["--meta", "--set-parameter", "target-role", "--parameter-value", "Stopped"]
    programs.run(["crm_resource", "--resource", name, *meta])
    programs.attempt(["crm_resource", "--wait", f"--timeout={_RESOURCE}s"], seconds=2 * _RESOURCE)


def _or_empty(root: Element | None) -> Element:
    from ... import _lxml

    return _lxml.new("cib") if root is None else root


def _change(change: cib.CibChange) -> None:
    """Hand it to cibadmin, whose messages are not shown: they may have its input, with secrets."""
    command = ["cibadmin", *change.words, "--xml-pipe"]
    done = programs.attempt(command, text=change.xml)
    if done is None or done.status != 0:
        status = 127 if done is None else done.status
        raise PlanRefused(f"{' '.join(command)} failed ({status}): {change.text}")


def _await_online(names: t.AbstractSet[str], *, quorum: bool) -> None:
    end = time.monotonic() + _ONLINE
    while True:
        seen = read.monitored()
        missing = sorted(names - seen.online) if seen is not None else sorted(names)
        if seen is not None and not missing and (seen.quorate or not quorum):
            return
        if time.monotonic() > end:
            what = f"{', '.join(missing)} did not get online" if missing else "there is no quorum"
            raise PlanRefused(
                f"{what} within {_ONLINE:g} seconds; members reach each other by UDP on the ports"
                f" 5405 to 5412, see journalctl -u corosync -u pacemaker{systemd.journal(SERVICES)}"
            )
        time.sleep(_PAUSE)


def _await_devices(names: t.AbstractSet[str]) -> None:
    end = time.monotonic() + _DEVICES
    while True:
        seen = read.monitored()
        missing = sorted(names - seen.devices) if seen is not None else sorted(names)
        if not missing:
            return
        if time.monotonic() > end:
            raise PlanRefused(
                f"the fence device {missing[0]} does not work, so nothing would prove that its"
                " hypervisor is off; see crm_mon --one-shot and journalctl -u pacemaker, and"
                f" correct virt_fence{systemd.journal([SERVICES[-1]])}"
            )
        time.sleep(_PAUSE)
