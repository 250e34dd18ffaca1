# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a verb needs of a cell before it works on a VM of it, and what the cell is to have after.

While a run works on a VM its cell leaves that alone (``is-managed=false``, Pacemaker's word), so it
neither starts the VM again that the run has shut down, nor fences a hypervisor since a guest is
being moved. Afterwards the cell is told what is there now.
"""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..base.names import playbook_command
from .facts import HELD_BY, VM_PREFIX

if t.TYPE_CHECKING:
    from .facts import CellView, CellVm

MANAGED, TARGET = "is-managed", "target-role"
STARTED, STOPPED = "Started", "Stopped"
ORPHANS = "stop-orphan-resources"
# The agent's own limits are parts of these; a guest has most of the time of stop to shut down
_OPERATIONS = (
    ("start", "0", "120s"),
    ("stop", "0", "120s"),
    ("monitor", "10s", "30s"),
)


def refusal(name: str, host: str, view: CellView, uuid: str | None = None) -> str | None:
    """Why nothing may be done with the VM on ``host``, a member of the cell; None if it may. With
    its ``uuid``, also because the cell works on it."""
    if view.running and view.quorate:
        vm = None if uuid is None else view.vms.get(uuid)
        return None if vm is None else at_work(name, view.cell, vm)
    if not view.running:
        why = f"Pacemaker does not run on {host}, or does not answer"
        remedy = f"see systemctl status pacemaker on {host}"
    else:
        others = sorted({*view.members} - view.online)
        why = f"{host} sees no majority of its members ({', '.join(others)} not online)"
        remedy = "bring those back, or run this on the side that has the majority"
    return (
        f"{name!r} is a VM of the cell {view.cell!r}, which may be running it elsewhere: {why}."
        f" Nothing is done; {remedy}"
    )


def resource(uuid: str) -> str:
    """The name of the VM's resource in Pacemaker."""
    return f"{VM_PREFIX}{uuid}"


def primitive(uuid: str, folder: str, host: str, *, running: bool) -> str:
    """The resource of a VM with its card in ``folder``, which the run on ``host`` holds."""
    name = resource(uuid)
    root = _lxml.new(
        "primitive", {"id": name, "class": "ocf", "provider": "fleet", "type": "domain"}
    )
    pairs = {"instance_attributes": {"uuid": uuid, "cards": folder}}
    pairs["meta_attributes"] = {
        MANAGED: "false",
        HELD_BY: host,
        TARGET: STARTED if running else STOPPED,
    }
    for tag, values in pairs.items():
        parent = _lxml.add(root, tag, {"id": f"{name}-{tag}"})
        for key, value in values.items():
            given = {"id": f"{name}-{tag}-{key}", "name": key, "value": value}
            _lxml.add(parent, "nvpair", given)
    operations = _lxml.add(root, "operations")
    for key, interval, timeout in _OPERATIONS:
        given = {"id": f"{name}-{key}", "name": key, "interval": interval, "timeout": timeout}
        _lxml.add(operations, "op", given)
    return _lxml.tostring(root)


def is_as_wanted(vm: CellVm, host: str, *, running: bool) -> bool:
    """Whether Pacemaker has seen the VM as it is: on ``host``, or nowhere."""
    return vm.pending is None and vm.nodes == ((host,) if running else ())


def at_work(name: str, cell: str, vm: CellVm) -> str | None:
    """Why nothing may be done with the VM while its cell does; None if it does nothing."""
    if vm.pending is None:
        return None
    what = {"Starting": "is starting", "Stopping": "is stopping"}.get(vm.pending, "works on")
    return f"the cell {cell!r} {what} {name!r}; run this again once that is over"


def no_start(name: str, cell: str, vm: CellVm) -> str | None:
    """Why the cell would not start the VM; None if it would."""
    if vm.managed:
        return None
    if vm.by is None:
        meta = f"crm_resource --resource {resource(vm.uuid)} --meta --delete-parameter {MANAGED}"
        why = f"somebody has set that by hand; on a member of it, {meta} takes it back"
    else:
        mend = playbook_command("repair_vms", vm_name=name)
        why = f"a run on {vm.by} holds it, or was killed while it did, and then {mend} mends that"
    return f"the cell {cell!r} does not manage {name!r}, so it does not start it either: {why}"


def no_rest(name: str, cell: str, vm: CellVm) -> str | None:
    """Why a VM that runs nowhere does not stay off; None if it does."""
    if vm.target_role == STOPPED:
        return None
    words = f"--meta --set-parameter {TARGET} --parameter-value {STOPPED}"
    later = "" if vm.managed else " and manages it again"
    return (
        f"{name!r} runs nowhere now, but is to run, and the cell {cell!r} starts it as soon as it"
        f" can{later}. Shut it off when it runs; if it cannot start, have the cell give up, on a"
        f" member of it: crm_resource --resource {resource(vm.uuid)} {words}"
    )


def left(name: str, problem: str) -> str:
    """What is said of a VM that stays unmanaged."""
    return (
        f"its cell does not manage {name!r} yet ({problem}), so it would not be restarted if its"
        f" hypervisor failed; {playbook_command('repair_vms', vm_name=name)} mends that"
    )
