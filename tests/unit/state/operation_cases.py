# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each operation of ``virt_state`` does: for the tests of its plan, of its effects, of its
order and on real guests, which go through these rows."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.actions import StateFacts

ACTIVE = ("running", "blocked", "paused", "shutdown", "pmsuspended", "crashed")


def facts(state: str, reason: str = "unknown", **more: t.Any) -> StateFacts:
    more.setdefault("active", state in ACTIVE)
    return StateFacts("web1", state, reason, **more)


SAVED = facts("shutoff", "saved", managed_save=True)


@dataclass(frozen=True)
class Case:
    """``steps`` are what users read that is done to a running guest, and ``plans`` names of actions
    from facts, with the state that is requested too; text: a part of why not.

    ``contradicts``: why no other state can be requested with it. ``boots``: the guest boots again.
    ``ordered``: several VMs are begun in their start order.
    """

    steps: list[str]
    plans: list[tuple[StateFacts, str | None, list[str] | str]]
    contradicts: str
    boots: bool = True
    ordered: bool = False


CASES = {
    "reset": Case(
        ["reset"],
        [
            (facts("running"), None, ["Reset"]),
            (facts("shutoff"), "running", ["Start"]),
            (facts("paused", "user"), "running", ["Resume", "Reset"]),
            (SAVED, "running", ["Restore", "Reset"]),
            (facts("shutoff"), None, "only a running domain can be reset"),
        ],
        "reset: this restarts a domain",
    ),
    "reboot": Case(
        ["shut down, within 120 s", "start again"],
        [
            (facts("running", "booted"), None, ["Shutdown", "Boot"]),
            (facts("paused", "user"), None, ["Resume", "Shutdown", "Boot"]),
            (facts("paused", "shutting_down"), None, ["AwaitOff", "Boot"]),
            (facts("shutoff", "shutdown"), None, ["Start"]),
            (SAVED, None, ["Restore", "Shutdown", "Boot"]),
            (facts("crashed", "panicked"), None, ["DestroyCrashed", "Boot"]),
        ],
        "reboot: this shuts a domain down and starts it",
        ordered=True,
    ),
}
