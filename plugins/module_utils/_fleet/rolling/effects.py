# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rolling work on a hypervisor: its marks, and the VM that shows whether it starts any."""

from __future__ import annotations

import secrets
import typing as t

from ..._errors import FleetVirtError, PlanRefused
from ..._libvirt import DOMAIN_RUNNING, DOMAIN_START_AUTODESTROY
from ..base.effects_connection import Connection
from ..cell import quorum
from ..hosts import cells, read_cell, rolling_marks
from ..hosts.host_info import capabilities
from ..hosts.rolling_marks import BEGUN, PASSED, RollingMark
from ..notes import effects as notes
from ..notes.read import now
from ..storage import effects_storage as storage
from . import read

if t.TYPE_CHECKING:
    from .facts import RollingAnswer
    from .options import RollingWork

_PROBE = "fleet-virt-probe-"


def stage(connection: Connection, work: RollingWork, *, check: bool) -> t.Mapping[str, object]:
    """The result of one stage."""
    stages: dict[str, t.Callable[..., t.Mapping[str, object]]] = {
        "claim": _claim,
        "check": _check,
        "finish": _finish,
        "clear": _clear,
    }
    if work.stage == "begin":
        return _begin(connection, work.turn, check=check)
    if work.stage == "reboot":
        return {**read.look(connection), "held": read.is_held(connection, work.digest)}
    if work.stage not in stages:
        return read.look(connection)
    return stages[work.stage](connection, work.digest, check=check)


def _claim(connection: Connection, digest: str, *, check: bool) -> RollingAnswer:
    """Mark it as begun, before it is put into maintenance: a kill in between must not leave a
    hypervisor in maintenance of which no run knows why."""
    there = _there(connection)
    old = [mark for mark in there if mark.digest != digest]
    lacking = not any(mark.state == BEGUN and mark.digest == digest for mark in there)
    if not check:
        _mark(connection, BEGUN, digest, there)
        _forget(connection, old)
    return {"changed": lacking or bool(old), "claimed": True}


def _begin(connection: Connection, turn: t.Sequence[str], *, check: bool) -> RollingAnswer:
    """Require that no VM runs, and that its cell can do without all of the ``turn`` now. In check
    mode the VMs are still there."""
    cell = cells.entry(read_cell.view(connection))
    needed = None if cell is None else quorum.problem(turn, cell)
    if needed is not None:
        raise PlanRefused(f"{needed}; bring those back, then run this again")
    running = [] if check else read.running(connection)
    if running:
        raise PlanRefused(
            f"{', '.join(running)} still run{'s' if len(running) == 1 else ''} there, so nothing is"
            " done there"
        )
    return {"changed": False, "ready": True, "versions": read.versions(connection)}


def _check(connection: Connection, digest: str, *, check: bool) -> RollingAnswer:
    """Start a VM, remove it, and mark the hypervisor as passed."""
    if check:
        return {"changed": False, "well": True, "versions": read.versions(connection)}
    _probe(connection)
    looked = read.look(connection)
    changed = _mark(connection, PASSED, digest, _there(connection))
    return {
        "changed": changed,
        "well": True,
        "versions": looked["versions"],
        "reboot": looked["reboot"],
    }


def _finish(connection: Connection, _digest: str, *, check: bool) -> RollingAnswer:
    begun = [mark for mark in _there(connection) if mark.state == BEGUN]
    if not check:
        _forget(connection, begun)
    return {"changed": bool(begun), "finished": True}


def _clear(connection: Connection, _digest: str, *, check: bool) -> RollingAnswer:
    there = _there(connection)
    if not check:
        _forget(connection, there)
    return {"changed": bool(there), "finished": True}


def _there(connection: Connection) -> list[RollingMark]:
    names = read.volumes(connection)
    return [mark for name in names if (mark := rolling_marks.parse(name)) is not None]


def _mark(connection: Connection, state: str, digest: str, there: t.Sequence[RollingMark]) -> bool:
    if any(mark.state == state and mark.digest == digest for mark in there):
        return False
    notes.keep(connection, RollingMark(state, digest, now()).volume)
    return True


def _forget(connection: Connection, old: t.Iterable[RollingMark]) -> None:
    pool = notes.pool_of(connection)
    for mark in old:
        storage.delete_volume(connection, pool, mark.volume)


def _probe(connection: Connection) -> None:
    """Start the smallest VM and remove it; libvirt does so too if this process dies."""
    conn = connection.conn
    about = capabilities(connection.call("read capabilities", conn.getCapabilities))
    kind = "kvm" if "kvm" in about["domain_types"] else about["domain_types"][0]
    name = f"{_PROBE}{secrets.token_hex(4)}"
    xml = (
        f"<domain type='{kind}'><name>{name}</name><memory unit='MiB'>32</memory>"
        "<os><type>hvm</type></os></domain>"
    )
    domain = connection.call("start a trial VM", conn.createXML, xml, DOMAIN_START_AUTODESTROY)
    try:
        state = connection.call("read the trial VM", domain.state, 0)[0]
    finally:
        connection.call("remove the trial VM", domain.destroy)
    if state != DOMAIN_RUNNING:
        raise FleetVirtError("a trial VM was started there, and did not run")
