# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rolling work for people: the order, what came of a turn, and what is left."""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..base.names import playbook_command
from ..base.tables import clean, table
from ..engine import outcomes
from ..hosts.marks import Marked
from ..notes.note import time_text
from .facts import RollingAnswer, Versions
from .plan import RollingPlan, Turn


@dataclass(frozen=True)
class TurnVerdict:
    """What came of the turn of a hypervisor; without ``why`` it is well."""

    host: str
    why: str = ""
    text: str = ""
    maintenance: bool = True


def plan_text(plan: RollingPlan) -> str:
    """The order, with the VMs that leave each hypervisor."""
    rows = [
        [number, host, _leaving(turn, host), _why(turn)]
        for number, turn in enumerate(plan.turns, 1)
        for host in turn.hosts
    ]
    text = table(["TURN", "HYPERVISOR", "VMS THAT LEAVE", "WHY"], rows) + "\n" if rows else ""
    text += "".join(f"{clean(note)}\n" for turn in plan.turns for note in turn.notes)
    text += "".join(
        f"{host}: passed, it was done by an interrupted run at {time_text(at)}\n"
        for host, at in plan.passed.items()
    )
    return text + left_text(plan.left_out, plan.skipped)


def left_text(left_out: t.Mapping[str, str], skipped: t.Mapping[str, str]) -> str:
    """The hypervisors that have no turn though they should have been worked on."""
    text = "".join(f"{host}: left out: {clean(why)}\n" for host, why in left_out.items())
    return text + "".join(
        f"{host}: skipped, as requested: {clean(why)}\n" for host, why in skipped.items()
    )


def _leaving(turn: Turn, host: str) -> str:
    return ", ".join(f"{name} to {to}" for name, source, to in turn.moves if source == host) or "-"


def _why(turn: Turn) -> str:
    if not turn.work:
        return "its VMs have not returned yet"
    return "an interrupted run has begun it" if turn.resumed else ""


def change(before: Versions | None, after: Versions | None) -> str:
    """The versions, and from what they changed."""
    if after is None:
        return ""
    old = before or after
    rows = [
        ("libvirt", old["libvirt"], after["libvirt"]),
        ("QEMU", old["hypervisor"], after["hypervisor"]),
        ("kernel", old["kernel"], after["kernel"]),
    ]
    texts = [f"{word} {was} to {now}" if was != now else f"{word} {now}" for word, was, now in rows]
    return ", ".join(texts)


def incomplete(
    claimed: RollingAnswer,
    begun: RollingAnswer,
    rebooted: RollingAnswer,
    checked: RollingAnswer,
    moves: t.Sequence[str],
) -> str:
    """Why the work on a hypervisor has not come to its end; ``moves`` are those that failed."""
    stages = (
        (claimed, claimed.get("claimed")),
        (begun, begun.get("ready")),
        (rebooted, rebooted.get("rebooted")),
        (checked, checked.get("well")),
    )
    for answer, outcome in stages:
        if outcome is None:
            why = outcomes.reason(answer) if answer else "it did not answer any more"
            return "; ".join([why, *moves]) if answer is begun else why
    return ""


def is_marked(marked: Marked, *, check: bool) -> bool:
    """Whether the hypervisor is in maintenance now; check mode only predicts that it would be."""
    return bool(marked.get("maintenance")) and not (check and marked.get("changed"))


def turn_text(
    verdicts: t.Sequence[TurnVerdict],
    turns: t.Sequence[t.Sequence[str]],
    number: int,
    passed: t.Sequence[str] = (),
) -> tuple[str, dict[str, str]]:
    """What came of turn ``number``, and the failures by hypervisor. ``passed`` were done before."""
    text = "".join(f"{one.host}: {one.text}\n" for one in verdicts if not one.why)
    failing = [one for one in verdicts if one.why]
    failures = {one.host: f"not well: {one.why}" for one in failing}
    if not failing:
        return text, failures
    done = [*passed, *(host for turn in turns[:number] for host in turn)]
    done += [one.host for one in verdicts if not one.why]
    left = [host for turn in turns[number + 1 :] for host in turn]
    names = ", ".join(one.host for one in failing)
    text += "".join(f"{one.host}: {failures[one.host]}\n" for one in failing)
    marked = [one.host for one in failing if one.maintenance]
    if marked:
        text += f"{', '.join(marked)} {_are(marked)} left in maintenance\n"
    text += f"done: {_list(done)}; not well: {names}; not begun: {_list(left)}\n"
    ends = " and ".join(playbook_command("return_vms", virt_host=host) for host in marked)
    text += f"correct that, and run the same command again, which goes on with {names}"
    return f"{text}{f'; or give it up: {ends}' if ends else ''}\n", failures


def _are(names: t.Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _list(names: t.Sequence[str]) -> str:
    return ", ".join(names) or "none"
