# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a machine has to be rebooted, from what was read of it."""

from __future__ import annotations

import typing as t

from ..._records import dataclass


@dataclass(frozen=True)
class RebootFacts:
    """``required``: /run/reboot-required exists, with the ``packages`` that ask for it; ``kernels``
    are the installed ones with the time since which each is there, ``running`` is the one that runs
    since ``booted``. ``restarting``: what ``needs-restarting`` says, None where there is none."""

    required: bool
    packages: t.Sequence[str]
    kernels: t.Mapping[str, float]
    running: str
    booted: float
    restarting: bool | None


def kept_by(running: t.Sequence[str], why: str, *, held: bool = True, check: bool = False) -> str:
    """Why it is not rebooted although ``why`` asks for it: these VMs run there, or are on their way
    to it, since it is no longer ``held`` for this run; empty if it may be. In check mode nothing
    was moved, nor marked, so neither says anything."""
    if check:
        return ""
    if not running and not held:
        return (
            f"it was to reboot ({why}), and its maintenance was ended meanwhile, or another run"
            " works on it, so VMs may be on their way to it and it was not rebooted; once nobody"
            " else works on it, run the same command again, which empties it first"
        )
    if not running:
        return ""
    verb = "runs" if len(running) == 1 else "run"
    return (
        f"it was to reboot ({why}), and {', '.join(running)} {verb} there again, started since it"
        " was emptied, so it was not rebooted; shut down what cannot move, and run the same"
        " command again, which empties it first"
    )


def restarting(status: int, out: str) -> bool:
    """Whether ``needs-restarting -r`` says that a reboot is needed. Its exit status is 1 then, and
    is 1 as well where it failed."""
    return status == 1 and "reboot is required" in out.lower()


def reason(facts: RebootFacts) -> str | None:
    """Why it has to be rebooted; None if it has not."""
    if facts.required:
        packages = ", ".join(dict.fromkeys(facts.packages))
        return f"/run/reboot-required exists{f' ({packages})' if packages else ''}"
    newer = {
        name: since
        for name, since in facts.kernels.items()
        if name != facts.running and since > facts.booted
    }
    if newer:
        name = max(newer, key=lambda kernel: newer[kernel])
        return f"kernel {name} was installed after it booted {facts.running}"
    if facts.restarting:
        return "needs-restarting says so"
    return None
