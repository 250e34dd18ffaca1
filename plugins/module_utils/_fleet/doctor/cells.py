# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with cells and their VMs, as their members say."""

from __future__ import annotations

import typing as t

from ..base.findings import Finding
from ..base.names import command_on, playbook_command

if t.TYPE_CHECKING:
    from ..base.snapshot import CellEntry
    from .facts import Checkup, Examined, ExaminedCellVm, ExaminedVm


def find(answers: t.Mapping[str, Examined]) -> list[Finding]:
    """Members without quorum, those that are not proven off, and VMs that a cell would not heal."""
    by_host = {host: cell for host, one in answers.items() if (cell := _cell(one)) is not None}
    findings = [finding for host, cell in by_host.items() for finding in _quorum(host, cell)]
    findings += _unclean(by_host)
    findings += [
        finding
        for host, one in answers.items()
        if (checkup := one.get("checkup"))
        for vm in checkup["vms"]
        for finding in _unknown(host, vm, checkup)
    ]
    quorate = [host for host, cell in by_host.items() if cell["quorate"]]
    seen: set[str] = set()
    for host in quorate:
        checkup = answers[host].get("checkup")
        for vm in checkup["cell_vms"] if checkup else ():
            if vm["uuid"] not in seen:  # all members say the same
                seen.add(vm["uuid"])
                findings += _vm(host, by_host[host]["name"], vm, answers)
    return findings


def _cell(answer: Examined) -> CellEntry | None:
    checkup = answer.get("checkup")
    return checkup["cell"] if checkup else None


def _quorum(host: str, cell: CellEntry) -> t.Iterator[Finding]:
    name = cell["name"]
    if not cell["running"]:
        text = f"Pacemaker does not run on {host}, a member of the cell {name!r}"
        start = command_on(host, "systemctl", "start", "corosync", "pacemaker")
        yield Finding("cell_no_quorum", (host,), text, start)
    elif not cell["quorate"]:
        text = (
            f"{host} has no quorum in the cell {name!r} (online: {', '.join(cell['online'])}), so"
            " it runs none of its VMs, and no verb acts on them there"
        )
        yield Finding("cell_no_quorum", (host,), text)


def _unclean(by_host: t.Mapping[str, CellEntry]) -> t.Iterator[Finding]:
    saying: dict[tuple[str, str], list[str]] = {}
    for host, cell in by_host.items():
        for node in cell["unclean"] if cell["quorate"] else ():
            saying.setdefault((cell["name"], node), []).append(host)
    for (name, node), hosts in saying.items():
        text = (
            f"{node} of the cell {name!r} is gone and not proven off, so the VMs that it ran start"
            " nowhere"
        )
        stated = command_on(hosts[0], "stonith_admin", "--confirm", node)
        fix = f"look at {node}; only if you have seen that it is without power: {stated}"
        yield Finding("cell_member_not_proven_off", tuple(hosts), text, fix)


def _vm(
    host: str, cell: str, vm: ExaminedCellVm, answers: t.Mapping[str, Examined]
) -> t.Iterator[Finding]:
    known = _name(vm["uuid"], answers)
    name = known or vm["uuid"]
    if vm["failed"]:
        why = f": {vm['reason']}" if vm["reason"] else ""
        text = f"the cell {cell!r} does not get {name!r} to run{why}"
        again = command_on(host, "crm_resource", "--cleanup", "--resource", vm["resource"])
        yield Finding("cell_vm_failed", (host,), text, f"once that is mended: {again}")
    if not vm["managed"] and not _is_at_work(vm, answers):
        by = vm["held_by"]
        who = f"a run on {by} held it, and is over" if by else "somebody has set that by hand"
        text = (
            f"the cell {cell!r} does not manage {name!r}, so it is not started elsewhere if its"
            f" hypervisor fails: {who}"
        )
        words = ("--meta", "--delete-parameter", "is-managed")
        by_hand = command_on(host, "crm_resource", "--resource", vm["resource"], *words)
        # by the UUID no playbook knows it
        all_of_them = playbook_command("repair_vms")
        repair = playbook_command("repair_vms", vm_name=known) if known else all_of_them
        repair = repair if by else by_hand
        yield Finding("cell_vm_unmanaged", (by or host,), text, repair)


def _unknown(host: str, vm: ExaminedVm, checkup: Checkup) -> t.Iterator[Finding]:
    """A VM that its cell does not know."""
    cell, name = checkup["cell"], vm["name"]
    if not vm["ha"] or vm["phase"] is not None or vm["holder"] is not None:
        return
    if cell is None:
        text = f"{name!r} has ha: true, and {host} is in no cell, so nothing starts it elsewhere"
        fix = "make its hypervisor a member, or take the VM out: ha: false, by"
        plain = playbook_command("provision_vm", vm_name=name, vm_ha="false")
        yield Finding("cell_vm_unknown", (host,), text, f"{fix} {plain}")
    elif cell["quorate"] and vm["uuid"] not in {one["uuid"] for one in checkup["cell_vms"]}:
        text = f"{name!r} has ha: true, and the cell {cell['name']!r} does not know it"
        repair = playbook_command("repair_vms", vm_name=name)
        yield Finding("cell_vm_unknown", (host,), text, repair)


def _name(uuid: str, answers: t.Mapping[str, Examined]) -> str | None:
    """The name of a VM, by its definition or, if it is defined nowhere, by its card."""
    names = (
        vm["name"]
        for answer in answers.values()
        if (checkup := answer.get("checkup"))
        for vm in (*checkup["vms"], *checkup["cell_vms"])
        if vm["uuid"] == uuid and vm["name"]
    )
    return next(names, None)


def _is_at_work(vm: ExaminedCellVm, answers: t.Mapping[str, Examined]) -> bool:
    """Whether the run that holds it lives, as its hypervisor knows."""
    answer = answers.get(vm["held_by"] or "")
    over = {entry["uuid"] for entry in (answer.get("unmanaged") or () if answer else ())}
    return answer is not None and vm["uuid"] not in over
