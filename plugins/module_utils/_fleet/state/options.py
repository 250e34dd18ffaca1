# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_state``, for the module and its action plugin."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..._errors import PlanRefused
from ..base.arguments import Spec
from ..base.json_values import as_text
from ..engine.envelope import Work
from .plan import WANTED, StateRequest

_LONGEST = 86400  # seconds

ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
    "state": {"type": "str", "choices": list(WANTED)},
    "shutdown_timeout": {"type": "float", "default": 120.0},
    "force": {"type": "bool", "default": False},
    "autostart": {"type": "bool"},
    "reset": {"type": "bool", "default": False},
    "reboot": {"type": "bool", "default": False},
}


class StateOptions(t.TypedDict):
    """What :data:`ARGUMENTS` makes of a task's options."""

    names: list[str]
    state: str | None
    shutdown_timeout: float
    force: bool
    autostart: bool | None
    reset: bool
    reboot: bool


@dataclass(frozen=True)
class StateWork(Work):
    """A stage of bringing VMs to a state, in rounds by their start order, or of restarting them.

    ``groups`` are those whose VMs are meant too. ``more``: VMs follow in a later round, so the
    delay of those that were started is waited for here.
    """

    STAGES = (
        "all",
        "look",
        "decide",
        "act",
        "note",
        "report",
        "order_restarts",
        "note_restarts",
    )

    groups: list[str] = field(default_factory=list)
    more: bool = False


def wanted_of(options: t.Mapping[str, object]) -> StateRequest:
    """The module's options as a request."""
    autostart, timeout = options["autostart"], options["shutdown_timeout"]
    return StateRequest(
        state=as_text(options["state"]),
        autostart=None if autostart is None else bool(autostart),
        force=bool(options["force"]),
        shutdown_timeout=timeout if isinstance(timeout, (int, float)) else 0.0,
        reset=bool(options["reset"]),
        reboot=bool(options["reboot"]),
    )


def require_sound(wanted: StateRequest) -> None:
    """Raise PlanRefused for options that contradict each other or make no sense."""
    if (wanted.state, wanted.autostart, wanted.reset, wanted.reboot) == (None, None, False, False):
        raise PlanRefused(
            "nothing is requested: give one of state, autostart, reset, reboot (in a playbook"
            f" vm_state={'|'.join(WANTED)}, vm_autostart, vm_reset, vm_reboot)"
        )
    if not 0 <= wanted.shutdown_timeout <= _LONGEST:
        raise PlanRefused(
            f"shutdown_timeout: {wanted.shutdown_timeout:g} is no time to wait; give a number"
            f" of seconds from 0 to {_LONGEST}"
        )
    if wanted.reset and wanted.state not in (None, "running"):
        raise PlanRefused(
            f"reset: this restarts a domain, and state {wanted.state} stops it; leave one of them"
            " out"
        )
    if wanted.reboot and (wanted.reset or wanted.state not in (None, "running")):
        other = "reset" if wanted.reset else f"state {wanted.state}"
        raise PlanRefused(
            f"reboot: this shuts a domain down and starts it, and {other} does not; leave one of"
            " them out"
        )
