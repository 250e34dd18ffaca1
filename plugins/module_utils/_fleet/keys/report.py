# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hypervisors whose keys a run could not update, for the end of that run."""

from __future__ import annotations

import typing as t

from ..engine import proofs
from ..engine.proofs import Silence

Answer = t.Mapping[str, object]


def unanswered(
    looks: t.Mapping[str, Answer], applied: t.Mapping[str, Answer], away: t.Collection[str]
) -> dict[str, Silence]:
    """The hypervisors of the play that have no answer to one of the two steps.

    A hypervisor whose answer to the first is missing skips the second. Those in ``away`` are
    revoked or declared lost.
    """
    answered = {
        name
        for name, look in looks.items()
        if look.get("kinds") is not None and not look.get("failed")
    }
    done = {
        name
        for name in answered
        if not (step := applied.get(name) or {}).get("failed") and not step.get("unreachable")
    }
    results = {
        name: applied[name] if name in answered else look
        for name, look in looks.items()
        if name not in done
    }
    return proofs.silences(results, done, None, away)


def problem(silent: t.Mapping[str, Silence], refused: t.Sequence[str], *, renew: bool) -> str:
    """What they lack, and the remedy; ``refused`` are the revoked names."""
    lacks = "the new keys and certificates" if renew else "new certificates, if any are due,"
    accepts = f", so it may still accept {', '.join(refused)}" if refused else ""
    listed = "\n".join(
        f"{name} gave no answer ({one.why}): it lacks {lacks} and the current CRL{accepts}"
        for name, one in silent.items()
    )
    return f"{listed}\nRemedy: {proofs.remedy(silent)}; then run this again"
