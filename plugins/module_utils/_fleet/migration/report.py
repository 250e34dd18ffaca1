# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Report on VMs that were to move, or whose moves were to be repaired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..._units import MIB
from ..base.json_values import as_mapping, as_mappings, as_text
from ..base.names import playbook_command
from ..base.tables import clean, table
from ..cards.facts import CardEntry
from ..cell.facts import UnmanagedVm
from ..engine.outcomes import Answer, Outcome, outcomes

_NOTHING = {"moved": "no VM has to move", "repaired": "no move was interrupted"}
_HEADS = ["VM", "FROM", "TO", "RESULT", "MIB", "SECONDS", "DOWNTIME MS"]


def report(
    settled: Sequence[str],
    shares: Mapping[str, Sequence[Answer]],
    answers: Mapping[str, Answer],
    problems: Sequence[str] = (),
    *,
    cards: Mapping[str, Sequence[CardEntry]] | None = None,
    unmanaged: Mapping[str, Sequence[UnmanagedVm]] | None = None,
    state: str = "moved",
    check: bool,
) -> tuple[str, list[str]]:
    """Text for people, and what failed, ``problems`` included.

    ``settled`` stay where they are. ``shares`` are the VMs that each hypervisor was to move, each
    with its ``name`` and ``destination``; ``answers`` is what the hypervisors said. ``state`` is
    what was asked for, ``cards`` those that were not as they should be on each hypervisor, and
    ``unmanaged`` the VMs that each was to have its cell manage again.
    """
    rows: list[list[object]] = [[name, None, None, "stays", None, None, None] for name in settled]
    lines: list[str] = []
    requested = {host: [str(vm["name"]) for vm in share] for host, share in shares.items()}
    wanted = {(host, str(vm["name"])): vm for host, share in shares.items() for vm in share}
    vm_outcomes = outcomes(requested, answers)
    for outcome in vm_outcomes:
        vm = wanted[outcome.host, outcome.name]
        lost = as_mapping(vm.get("lost_source"))
        source = lost["name"] if lost else outcome.host
        rows.append(
            [
                *(outcome.name, source, as_mapping(vm["destination"])["name"]),
                *_result(outcome, check=check, known=bool(lost)),
            ]
        )
    if rows:
        lines.append(table(_HEADS, rows))
    lines += [
        f"{clean(outcome.name)}: {clean(outcome.entry['note'])}"
        for outcome in vm_outcomes
        if outcome.entry and outcome.entry.get("note")
    ]
    failures = [*(outcome.problem for outcome in vm_outcomes if outcome.problem), *problems]
    told, wrong = _cards(cards or {}, answers, check=check)
    freed, left = _unmanaged(unmanaged or {}, answers, check=check)
    told += freed
    lines += told
    failures += [*wrong, *left]
    if not vm_outcomes and not told and not failures:
        lines.append(f"nothing to do: {_NOTHING[state]}")
    return "".join(f"{line}\n" for line in lines), failures


def _cards(
    cards: Mapping[str, Sequence[CardEntry]], answers: Mapping[str, Answer], *, check: bool
) -> tuple[list[str], list[str]]:
    """Lines on the cards that were written, and why others are not."""
    lines, failures = [], []
    for host, entries in cards.items():
        answered = as_mappings(answers.get(host, {}).get("cards"))
        done = {str(card["name"]): as_text(card["problem"]) for card in answered}
        for card in entries:
            name = card["name"]
            unwritten = f"the card of {name!r} on shared storage was not written"
            problem = card["problem"] or done.get(name, unwritten)
            if problem:
                failures.append(f"{host}: {problem}")
            else:
                word = "would be" if check else "was"
                disks = card["leftover"]
                lines.append(
                    f"{clean(name)}: its card on shared storage {word} written"
                    if disks is None
                    else f"{clean(name)}: its leftover definition on {host} {word} removed, since"
                    f" it was restarted elsewhere; its disks are kept: {clean(', '.join(disks))}"
                )
    return lines, failures


def _unmanaged(
    unmanaged: Mapping[str, Sequence[UnmanagedVm]], answers: Mapping[str, Answer], *, check: bool
) -> tuple[list[str], list[str]]:
    """Lines on the VMs that their cells manage again, and why others are not."""
    lines, failures = [], []
    for host, entries in unmanaged.items():
        answered = answers.get(host, {}).get("unmanaged")
        done = {str(vm["uuid"]): as_text(vm["problem"]) for vm in as_mappings(answered)}
        for vm in entries:
            name = vm["name"]
            problem = vm["problem"] or done.get(vm["uuid"])
            if answered is None and not problem:
                problem = f"its cell does not manage {name!r}, and that was not changed"
            if problem:
                failures.append(f"{host}: {name}: {problem}")
            else:
                word = "would manage" if check else "manages"
                lines.append(f"{clean(name)}: its cell {word} it again")
    return lines, failures


def mark(host: str, *, present: bool, check: bool) -> str:
    """The line that says whether a hypervisor is in maintenance."""
    word = "would be" if check else "is"
    if not present:
        return f"{host} {word} no longer in maintenance\n"
    return (
        f"{host} {word} in maintenance: no VM is placed on it before"
        f" {playbook_command('return_vms', virt_host=host)}, or"
        f" {playbook_command('maintenance', virt_host=host, virt_maintenance='false')}\n"
    )


def _result(outcome: Outcome[Answer], *, check: bool, known: bool) -> list[object]:
    """The outcome in a word, MiB, seconds and milliseconds of downtime; ``known``: check mode knows
    how an interrupted move ends."""
    if outcome.entry is None:
        return ["failed", None, None, None]
    entry = outcome.entry
    if outcome.problem:
        word = "lost" if entry.get("flow") == "lost" else "failed"
    elif not entry.get("changed"):
        word = "was there"
    elif entry["flow"] == "undo":
        word = "stays (its move was undone)"
    elif check and entry["flow"] == "finish" and not known:
        word = "would be finished or undone"
    else:
        word = f"{'would move' if check else 'moved'} ({entry['flow']})"
    size = _number(entry.get("bytes_to_copy") if check else entry.get("bytes"))
    mib = None if size is None else round(size / MIB)
    return [word, mib, _number(entry.get("seconds")), _number(entry.get("downtime_ms"))]


def _number(value: object) -> int | float | None:
    """The number; None for a text, as in check mode."""
    return value if isinstance(value, (int, float)) else None
