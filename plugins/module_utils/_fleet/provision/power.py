# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether an existing VM is started because its request says so, and what is told if it is not.

Only ``start`` that was written counts: its default concerns the creation of a VM, and a VM that was
shut down since stays off. Nothing is ever stopped, and what a user has paused stays paused.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..._records import dataclass
from ..base.names import playbook_command
from ..seed import first_boot
from ..state import plan as state_plan
from ..state.actions import OFF, PAUSED, RUNNING, StateFacts

if t.TYPE_CHECKING:
    from ..engine.steps import Plan
    from ..spec.domain import Domain

_RUNNING = state_plan.StateRequest(state="running")
_WORDS = {
    "shutoff": "shut off",
    "shutdown": "shutting down",
    "pmsuspended": "suspended by its guest",
}
_START = "start"


def _remedy(name: str, state: str) -> str:
    return playbook_command("state", vm_name=name, vm_state=state)


@dataclass(frozen=True)
class Power:
    """``state`` is libvirt's (or ``saved``) before anything is done. ``steps`` start the VM;
    ``note`` is what to tell of one that is not as a reader expects, empty if there is nothing.
    ``differs``: the request says that it runs, and it does not. With ``refusals`` (the reasons),
    starting it would fail."""

    state: str
    steps: tuple[str, ...] = ()
    note: str = ""
    differs: bool = False
    refusals: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The condition, and what becomes of it: ``shut off, to be started``."""
        if self.refusals:
            return f"{word(self.state)}, to be started, refused: {'; '.join(self.refusals)}"
        if self.steps:
            saved = " from its saved memory" if self.state == "saved" else ""
            return f"{word(self.state)}, to be started{saved}"
        return self.note

    @property
    def after(self) -> str:
        """The state once the steps are carried out."""
        return "running" if self.steps else self.state


def word(state: str) -> str:
    """``shut off`` for ``shutoff``."""
    return _WORDS.get(state, state)


def start_plan(facts: StateFacts) -> Plan[StateFacts]:
    """The steps that start the VM; a phase of a killed run has ended before they are taken."""
    return state_plan.plan(replace(facts, phase=None), _RUNNING)


def says_start(domain: Domain) -> bool:
    """Whether the request says, and does not merely leave to the default, that the VM runs."""
    return domain.start and _START in domain.written


def is_off(facts: StateFacts) -> bool:
    """Whether starting it is all that makes it run."""
    return facts.state in OFF


def decide(
    domain: Domain,
    facts: StateFacts,
    *,
    first: str | None = None,
    maintenance: bool | None = False,
    blockers: t.Sequence[str] = (),
) -> Power:
    """What is done about the state of an existing VM, or told of it.

    ``first`` is the record of its first boot, ``maintenance`` whether its hypervisor is in
    maintenance (None: unknown), ``blockers`` are why libvirt would not start it.
    """
    state = facts.shown_state
    stays_off = not domain.start and _START in domain.written
    if facts.state in RUNNING:
        note = ""
        if stays_off:
            note = f"running, and left so ({_remedy(facts.name, 'shutoff')} shuts it down)"
        return Power(state, note=note)
    note = word(state)
    if facts.state in PAUSED and facts.reason != "unknown":
        note = f"{note} ({facts.reason})"
    if stays_off and state == "shutoff":
        return Power(state)
    if not says_start(domain):
        begun = domain.start and first in (first_boot.PENDING, first_boot.WRITTEN)
        return Power(state, note=f"{note}, its first boot has not ended" if begun else note)
    if not is_off(facts):
        remedy = _remedy(facts.name, "running")
        return Power(state, note=f"{note}, and left so ({remedy} makes it run)", differs=True)
    if maintenance or maintenance is None:
        why = "is in maintenance" if maintenance else "may be in maintenance: this is unreadable"
        return Power(state, note=f"{note}, not started: its hypervisor {why}", differs=True)
    steps = start_plan(facts)
    refusals = (*steps.refusals, *blockers)
    if refusals:
        return Power(state, differs=True, refusals=refusals)
    return Power(state, tuple(step.text for step in steps.steps), differs=True)
