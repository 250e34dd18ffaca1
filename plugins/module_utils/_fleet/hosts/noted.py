# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VMs of hypervisors that do not answer, as others noted them, among what was read."""

from __future__ import annotations

import typing as t

from ..base.selected import Selected
from ..notes import silent as notes
from . import domain_entry

if t.TYPE_CHECKING:
    from ..base.snapshot import DomainEntry

STATE = "unknown"


def add(
    hypervisors: t.Iterable[dict[str, object]],
    told: t.Mapping[str, notes.Told],
    silent: t.Collection[str],
    names: t.Sequence[str] = (),
) -> None:
    """Give each of ``silent`` among ``hypervisors`` its ``domains``, where they have some, what is
    known of it as ``noted``, None for nothing, and ``maintenance_since``, if it was put into that;
    ``claimed`` of its ``vms`` may never have been there. ``names`` are those to be shown."""
    answers = {name: answer for name, answer in told.items() if answer.get("machine")}
    known, since = notes.known(answers, silent), notes.in_maintenance(answers, silent)
    for entry in hypervisors:
        if entry["name"] not in silent:
            continue
        host = known.get(str(entry["name"]))
        entry["maintenance_since"] = since.get(str(entry["name"]))
        vms = host.vms if host else ()
        claimed = sum(vm.claimed for vm in vms)
        entry["noted"] = (
            {"at": host.at, "by": host.by, "vms": [vm.name for vm in vms], "claimed": claimed}
            if host
            else None
        )
        if "domains" in entry:
            chosen = Selected.of(names)
            entry["domains"] = [domain(vm) for vm in vms if not names or chosen.takes(vm.name)]


def domain(vm: notes.SilentVm) -> DomainEntry:
    """The entry of a VM of which nothing but this is known."""
    entry = domain_entry.unreadable(vm.name, vm.uuid or "", "")
    stored = entry["metadata"]
    stored["managed"], stored["groups"] = vm.managed, list(vm.groups)
    return {**entry, "state": STATE, "reason": vm.reason, "error": None}
