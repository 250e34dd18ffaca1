# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What VMs that may move name of their hypervisor, and which others have to be asked for it.

What each hypervisor reports unasked, its emulators and firmware, covers most VMs: then nobody is.
"""

from __future__ import annotations

import typing as t

from ..base.json_values import as_mapping
from ..engine.outcomes import error_message
from .facts import Compared, MigrateLook, MovingVm, NameEntry

Named = dict[str, dict[str, list[NameEntry]]]


def to_compare(answers: t.Mapping[str, MigrateLook], host: str | None) -> Named:
    """By hypervisor and VM, what to look for there; ``host`` is the destination, None for any."""
    named: Named = {}
    for source, answer in answers.items():
        for vm in answer.get("vms") or ():
            wanted = vm.get("names")
            if vm.get("error") or vm.get("leftover") or not wanted:
                continue
            for to, seen in answers.items():
                if to == source or host not in (None, to) or seen.get("host") is None:
                    continue
                reported = as_mapping(as_mapping(seen["host"]).get("offers")).get("files")
                known = reported if isinstance(reported, (list, tuple)) else ()
                names = [name for name in wanted if name["value"] not in known]
                if names:
                    named.setdefault(to, {})[vm["name"]] = names
    return named


def plain(named: t.Mapping[str, t.Sequence[NameEntry]]) -> dict[str, list[dict[str, str]]]:
    """What one hypervisor is asked for, as its work has it."""
    return {
        vm: [{"kind": one["kind"], "value": one["value"], "use": one["use"]} for one in names]
        for vm, names in named.items()
    }


def with_lacking(
    answers: t.Mapping[str, MigrateLook], named: Named, compared: t.Mapping[str, Compared]
) -> None:
    """Note with each VM which hypervisors lack what it names, or did not say whether they do."""
    for answer in answers.values():
        for vm in answer.get("vms") or ():
            lacking = dict(_lacking(vm, named, compared))
            if lacking:
                vm["lacking"] = lacking


def _lacking(
    vm: MovingVm, named: Named, compared: t.Mapping[str, Compared]
) -> t.Iterator[tuple[str, str]]:
    for host, vms in named.items():
        if vm["name"] not in vms:
            continue
        answer = compared.get(host)
        reported = None if answer is None else answer.get("lacking")
        if reported is None:
            why = error_message(answer or {}) or "it was not asked"
            yield host, f"whether it has what the VM names is not known: {why}"
        elif reported.get(vm["name"]):
            yield host, f"lacks what the VM names: {'; '.join(reported[vm['name']])}"
