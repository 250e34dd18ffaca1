# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A verb on VMs as a declaration: from it the controller locates the VMs, and reports on them.

What a verb does to a VM is its plan and the table of its actions (:mod:`effects_verb`). What it
asks of the fleet and shows of it is declared here; how these answers are read is written once.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..base.answers import GroupedVm, Result
from ..base.arguments import Spec
from ..base.results import word
from ..base.selected import Selected
from ..base.tables import table
from . import located
from .outcomes import Answer, outcomes

_HEADS = ("VM", "HYPERVISOR", "RESULT")

Vm = t.TypeVar("Vm", bound=GroupedVm)
Entry = t.TypeVar("Entry", bound=Answer)
Fleet = located.Fleet[Result]


@dataclass(frozen=True)
class Verb(t.Generic[Vm, Entry]):
    """``arguments`` are its options, and ``request`` raises SpecError for those that are wrong,
    where the controller knows it.

    A hypervisor answers ``look`` with the VMs that it has, each a ``vm``, and ``done`` with what it
    did, an ``entry`` for each. ``words``: that it was done, and in check mode that it would be.
    ``columns`` follow those of every report; each is shown of an entry, or of none. ``remarks``
    stand below, of a VM for which it was done.
    """

    arguments: Spec
    look: type[Result]
    vm: type[Vm]
    done: type[Result]
    entry: type[Entry]
    words: tuple[str, str]
    columns: t.Mapping[str, t.Callable[[Entry | None], str | None]]
    remarks: t.Callable[[Entry], t.Sequence[str]] = lambda _entry: ()
    request: t.Callable[[t.Mapping[str, object]], object] = lambda _options: None

    def vms_by_host(self, seen: Fleet) -> dict[str, list[Vm]]:
        """The VMs that each hypervisor has."""
        return located.vms_by_host(seen, self.vm)

    def decide(
        self, names: t.Sequence[str], seen: Fleet, groups: t.Sequence[str] = (), host: str = ""
    ) -> located.Shares:
        """Where each VM of ``names``, names or patterns, and of ``groups`` is, only those on
        ``host`` if one is named; raises PlanRefused with everything that is unproven."""
        vms = self.vms_by_host(seen)
        return located.shares(Selected.of(names, groups), vms, seen.silent, host)

    def report(
        self,
        shares: t.Mapping[str, t.Sequence[str]],
        answers: t.Mapping[str, Answer],
        *,
        check: bool,
    ) -> tuple[str, list[str]]:
        """The report as text, and the failures."""
        rows: list[list[str | None]] = []
        failures: list[str] = []
        remarks: list[str] = []
        for vm in outcomes(shares, answers, self.entry):
            if vm.problem is not None:
                failures.append(vm.problem)
            elif vm.entry is not None:
                remarks += self.remarks(vm.entry)
            outcome = word(vm.entry, self.words[check], vm.problem)
            cells = [cell(vm.entry) for cell in self.columns.values()]
            rows.append([vm.name, vm.host, outcome, *cells])
        heads = [*_HEADS, *self.columns]
        lines = [table(heads, sorted(rows, key=lambda row: str(row[0]))), *remarks]
        return "\n".join(lines) + "\n", failures
