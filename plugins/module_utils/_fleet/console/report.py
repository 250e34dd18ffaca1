# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The screens and consoles of a fleet, as text."""

from __future__ import annotations

import typing as t
from urllib.parse import quote

from ..base.selected import Member, Selected, expand
from ..base.tables import clean, table
from ..engine import outcomes, proofs
from .facts import ConsoleLogs, SavedScreens

_LONGEST = 255  # bytes of a file's name


class Screen(t.NamedTuple):
    """One picture: ``file`` is its path below the common folder, None if there is none, and
    ``problem`` says why; ``failed`` unless a picture was not to be expected."""

    name: str
    host: str
    file: str | None
    width: int | None = None
    height: int | None = None
    problem: str | None = None
    failed: bool = False


def read(host: str, answer: SavedScreens) -> list[Screen]:
    """The screens of a hypervisor."""
    return [
        Screen(
            screen["name"],
            host,
            screen["file"],
            screen["width"],
            screen["height"],
            screen["msg"],
            screen["failed"],
        )
        for screen in answer.get("screens") or ()
    ]


class ConsoleOutput(t.NamedTuple):
    """The end of one guest's output; ``problem`` is why there is none, ``failed`` unless that is
    acceptable."""

    name: str
    host: str
    lines: tuple[str, ...]
    problem: str | None = None
    failed: bool = False


def read_consoles(host: str, answer: ConsoleLogs) -> list[ConsoleOutput]:
    """The consoles of a hypervisor."""
    return [
        ConsoleOutput(vm["name"], host, tuple(vm["lines"]), vm["msg"], vm["failed"])
        for vm in answer.get("consoles") or ()
    ]


def consoles_text(consoles: t.Sequence[ConsoleOutput], silent: t.Mapping[str, str]) -> str:
    """The consoles one after the other; what a guest wrote is indented."""
    lines: list[str] = []
    for console in consoles:
        lines.append(f"{clean(console.name)} on {clean(console.host)}:")
        lines += [f"  {clean(line)}" for line in console.lines]
        lines += [f"  ({clean(console.problem)})"] if console.problem else []
    lines += [f"{clean(host)}: no answer: {clean(why)}" for host, why in silent.items()]
    return "\n".join(lines) + "\n"


def problems(
    views: t.Sequence[Screen | ConsoleOutput],
    selected: Selected,
    answers: t.Mapping[str, outcomes.Answer],
    silent: t.Mapping[str, proofs.Silence],
) -> list[str]:
    """The failures: of selected VMs, and of modules that ended without a result.

    ``answers`` are those of all hypervisors, ``silent`` the hypervisors that gave none.
    """
    failures = [f"{view.name} on {view.host}: {view.problem}" for view in views if view.failed]
    failures += [
        f"{host}: {outcomes.error_message(answers[host])}"
        for host in silent
        if outcomes.is_cut(answers.get(host, {}))
    ]
    there = {view.name for view in views}
    expanded = expand(
        Selected.of(selected.names), [Member(name, (), unread=False) for name in there]
    )
    failures += expanded.empty
    if selected.groups and not there:  # only a hypervisor knows the groups of each
        failures += expand(Selected.of([], selected.groups), []).empty
    unknown = [name for name in expanded.names if name not in there]
    if unknown:
        more = f" (these did not: {proofs.named(silent)})" if silent else ""
        failures.append(f"on no hypervisor that answered{more}: {', '.join(unknown)}")
    return failures


def file_name(name: str) -> str | None:
    """The name of a host or a VM as a file name; None if it cannot be one."""
    quoted = quote(name, safe=" +@=,")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    return quoted if quoted and len(quoted) + len(".png") <= _LONGEST else None


def text(screens: t.Sequence[Screen], silent: t.Mapping[str, str]) -> str:
    """One line for each screen, then problems; ``silent`` are hypervisors and reasons."""
    rows = [
        [one.name, one.host, f"{one.width}x{one.height}", one.file]
        for one in screens
        if one.file is not None
    ]
    lines = [table(["VM", "HYPERVISOR", "PIXELS", "FILE"], rows)] if rows else []
    lines += [
        f"{clean(one.name)} on {clean(one.host)}: {clean(one.problem)}"
        for one in screens
        if one.problem
    ]
    if not screens:
        lines.append(
            "no VM is running on the hypervisors that answered" if silent else "no VM is running"
        )
    lines += [f"{clean(host)}: no answer: {clean(why)}" for host, why in silent.items()]
    return "\n".join(lines) + "\n"


class Followed(t.NamedTuple):
    """New output, as it is printed, and up to where each log was read, in bytes."""

    lines: list[str]
    read_to: dict[str, int]


def followed(answer: ConsoleLogs) -> Followed:
    """The new output of the consoles that can be followed."""
    output = Followed([], {})
    for console in answer.get("consoles") or ():
        if not console["failed"]:
            output.read_to[console["name"]] = console["read_to"]
            name = clean(console["name"])
            output.lines.extend(f"{name} | {clean(line)}" for line in console["lines"])
    return output
