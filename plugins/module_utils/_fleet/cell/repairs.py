# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which member of a cell may have it manage a VM again that a run has held."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .facts import CellView, CellVm, UnmanagedVm


def may(vm: CellVm, host: str, view: CellView) -> bool:
    """Whether ``host`` is to look: where a run was, only that hypervisor knows whether it lives. Of
    one that is proven off any member knows; what somebody set by hand stays."""
    if vm.by is None:
        return False
    return vm.by == host or vm.by not in view.online


def problem(vm: CellVm, view: CellView) -> str | None:
    """Why it cannot be managed again yet; None if it can."""
    if vm.by in view.unclean:
        return (
            f"a run on {vm.by} holds it, and {vm.by} is not proven off; look at it, and if it is"
            f" without power, state that: stonith_admin --confirm {vm.by}"
        )
    return None


def assigned(
    entries: t.Mapping[str, t.Sequence[UnmanagedVm]],
) -> dict[str, t.Sequence[UnmanagedVm]]:
    """Which hypervisor repairs which VMs: the one that held it, else the first of those that may.
    ``entries`` are what each of them may."""
    chosen: dict[str, tuple[str, UnmanagedVm]] = {}
    for host, vms in entries.items():
        for vm in vms:
            if vm["uuid"] not in chosen or vm["held_by"] == host:
                chosen[vm["uuid"]] = (host, vm)
    shares: dict[str, list[UnmanagedVm]] = {}
    for host, vm in chosen.values():
        shares.setdefault(host, []).append(vm)
    return {**shares}
