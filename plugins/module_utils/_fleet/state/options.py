# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_state``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass
from ..base.arguments import Spec
from ..base.json_values import as_text
from ..engine.envelope import SelectingWork
from .operations import GOALS, OPERATIONS, OperationOptions
from .plan import StateRequest

_LONGEST = 86400  # seconds

ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
    "state": {"type": "str", "choices": list(GOALS)},
    "shutdown_timeout": {"type": "float", "default": 120.0},
    "force": {"type": "bool", "default": False},
    "autostart": {"type": "bool"},
    **{name: {"type": "bool", "default": False} for name in OPERATIONS},
}


class StateOptions(OperationOptions):
    """What :data:`ARGUMENTS` makes of a task's options."""

    names: list[str]
    state: str | None
    shutdown_timeout: float
    force: bool
    autostart: bool | None


@dataclass(frozen=True)
class StateWork(SelectingWork):
    """A stage of bringing VMs to a state, in rounds by their start order, or of restarting them.

    ``more``: VMs follow in a later round, so the delay of those that were started is waited for
    here.
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

    more: bool = False


def wanted_of(options: t.Mapping[str, object]) -> StateRequest:
    """The module's options as a request."""
    autostart, timeout = options["autostart"], options["shutdown_timeout"]
    return StateRequest(
        state=as_text(options["state"]),
        autostart=None if autostart is None else bool(autostart),
        force=bool(options["force"]),
        shutdown_timeout=timeout if isinstance(timeout, (int, float)) else 0.0,
        operations=tuple(name for name in OPERATIONS if options[name]),
    )


def require_sound(wanted: StateRequest) -> None:
    """Raise PlanRefused for options that contradict each other or make no sense."""
    if (wanted.state, wanted.autostart, wanted.operations) == (None, None, ()):
        options = ("state", "autostart", *OPERATIONS)
        raise PlanRefused(
            f"nothing is requested: give one of {', '.join(options)} (in a playbook"
            f" vm_state={'|'.join(GOALS)}, {', '.join(f'vm_{name}' for name in options[1:])})"
        )
    if not 0 <= wanted.shutdown_timeout <= _LONGEST:
        raise PlanRefused(
            f"shutdown_timeout: {wanted.shutdown_timeout:g} is no time to wait; give a number"
            f" of seconds from 0 to {_LONGEST}"
        )
    others = [f"state {wanted.state}"] if wanted.state not in (None, "running") else []
    for name in wanted.operations:
        if others:
            raise PlanRefused(
                f"{name}: this {OPERATIONS[name].does}, and {others[0]} does not; leave one of"
                " them out"
            )
        others.append(name)
