# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what a hypervisor has of a cell, from its files and from Pacemaker."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..._errors import DeadlineExceeded, PlanRefused, XmlError
from ..base import effects_config_files as config_files
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from ..base import read_requirements
from . import cib, corosync
from .facts import CellLook, CellView
from .files import COROSYNC_KEY, PACEMAKER_KEY, SERVICES, digest

if t.TYPE_CHECKING:
    from ..._lxml import Element

_SECONDS = 20.0
_MONITOR = ("crm_mon", "--one-shot", "--output-as=xml")


def look(host: str, agents: t.Sequence[str]) -> CellLook:
    """The state of the hypervisor that the inventory calls ``host``; whether it has ``agents``."""
    release = read_requirements.os_release()
    configured = corosync.read(config_files.read(corosync.PATH))
    seen = monitored() if configured.cell is not None else None
    answer: CellLook = {
        "changed": False,
        "release": f"{release.get('ID', '')} {release.get('VERSION_ID', '')}".strip(),
        "cell": configured.cell,
        "foreign": configured.foreign if _runs_at_boot() else None,
        "numbers": dict(configured.numbers),
        "running": seen is not None,
        "online": sorted(seen.online) if seen else [],
        "unclean": sorted(seen.unclean) if seen else [],
        "quorate": bool(seen and seen.quorate),
        "resources": sorted(seen.vms) if seen else [],
        "here": sorted(vm for vm, nodes in seen.vms.items() if host in nodes) if seen else [],
        "keys": digest(_key(COROSYNC_KEY), _key(PACEMAKER_KEY)),
        "missing": [agent for agent in agents if programs.find(agent) is None],
    }
    return answer


def _configured() -> corosync.Configured | None:
    try:
        configured = corosync.read(config_files.read(corosync.PATH))
    except PlanRefused:  # nothing that we have written
        return None
    return None if configured.cell is None else configured


def is_member() -> bool:
    """Whether this hypervisor is in a cell of ours; asks no process."""
    return _configured() is not None


def here() -> CellView | None:
    """What Pacemaker says on this hypervisor; None where it is in no cell of ours, which no process
    is started to know."""
    configured = _configured()
    if configured is None or configured.cell is None:
        return None
    members = tuple(sorted(configured.numbers))
    root = _xml(_MONITOR)
    if root is None:
        return CellView(configured.cell, members)
    seen = cib.monitored(root)
    resources = _xml(["cibadmin", "--query", "--scope", "resources"]) if seen.vms else root
    device = _device_votes() if configured.device else None
    return CellView(
        configured.cell,
        members,
        running=resources is not None,
        quorate=seen.quorate,
        online=seen.online,
        unclean=seen.unclean,
        vms={} if resources is None else cib.vms(root, resources),
        device=device,
    )


def _device_votes() -> bool:
    """Whether the quorum device votes; a program that does not say it is one that does not."""
    try:
        done = programs.attempt(["corosync-quorumtool", "-s"], seconds=_SECONDS)
    except DeadlineExceeded:
        return False
    # its exit status says whether there is quorum
    return done is not None and corosync.device_votes(done.out)


def _runs_at_boot() -> bool:
    """Whether corosync is more than a file that was left behind."""
    service = SERVICES[0]
    return systemd.is_active(service) or systemd.is_enabled(service)


def monitored() -> cib.Monitored | None:
    """What Pacemaker says, None if it does not run here, or not yet."""
    root = _xml(_MONITOR)
    return None if root is None else cib.monitored(root)


def configuration() -> Element | None:
    """The configuration of the cell, with its secrets; None if Pacemaker does not run here."""
    return _xml(["cibadmin", "--query"])


def _xml(command: t.Sequence[str]) -> Element | None:
    try:
        done = programs.attempt(command, seconds=_SECONDS)
        if done is None or done.status != 0:
            return None
        return _lxml.parse(done.out, command[0])
    except (DeadlineExceeded, XmlError):
        return None


def running_values() -> dict[str, str]:
    """The map of the running corosync, by its keys."""
    text = programs.run(["corosync-cmapctl"], seconds=_SECONDS)
    values = {}
    for line in text.splitlines():
        key, separator, value = line.partition(" = ")
        if separator:
            values[key.partition(" (")[0]] = value
    return values


def _key(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(8192)
    except OSError:
        return None
