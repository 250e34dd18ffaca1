# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which console of which VM is opened, based on the answers of all hypervisors."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused, Problem, SpecError
from ..._records import dataclass
from ..base.arguments import Spec
from ..base.json_values import as_list
from ..base.names import playbook_command
from ..base.states import ACTIVE_STATES
from ..engine import located
from ..engine.envelope import Work
from .facts import ConsoleLook, ConsoleVm

BROWSER, VIEWER, SERIAL, SERIAL_PAGE = "browser", "viewer", "serial", "serial_browser"
PAGES = (BROWSER, SERIAL_PAGE)
_MOST_MINUTES = 24 * 60
_KINDS = {
    BROWSER: ("vnc",),
    VIEWER: ("vnc", "spice"),
    SERIAL: ("serial",),
    SERIAL_PAGE: ("serial",),
}

ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
    "ignore_missing": {"type": "bool", "default": False},
}
INTERNAL: Spec = {
    "_view": {"type": "str", "default": BROWSER},
    "_minutes": {"type": "int", "default": 30},
}


@dataclass(frozen=True)
class OpenWork(Work):
    """A stage of opening a console: reading which there are, and opening the one that is meant."""

    STAGES = ("all", "read", "open")


def wanted_names(options: t.Mapping[str, object]) -> tuple[str, ...]:
    """The VMs whose consoles are meant; raises SpecError if there are none."""
    names = tuple(map(str, as_list(options["names"])))
    if not names:
        raise SpecError([Problem("names", "no VM is named; name one (vm_name=web1)")])
    return names


def require_view(view: str, minutes: int) -> None:
    """Raise SpecError, naming the variables, for invalid values."""
    problems = []
    if view not in _KINDS:
        names = ", ".join(_KINDS)
        problems.append(
            Problem("virt_console", f"{view!r} is not a kind of console; choose from: {names}")
        )
    if not 0 < minutes <= _MOST_MINUTES:
        rule = f"give a number from 1 to {_MOST_MINUTES}"
        problems.append(Problem("virt_console_minutes", f"{minutes} is not a time limit; {rule}"))
    if problems:
        raise SpecError(problems)


@dataclass(frozen=True)
class Chosen:
    """The console to open: a VM's console of type ``kind`` on a hypervisor."""

    host: str
    vm: ConsoleVm
    kind: str


def choose(
    names: t.Sequence[str],
    answers: t.Mapping[str, ConsoleLook],
    silent: located.Silences,
    view: str,
    only: str = "",
) -> Chosen:
    """The console to open, of a VM on the hypervisor ``only`` if that is not empty; raises
    PlanRefused if none can be opened."""
    if len(set(names)) != 1:
        raise PlanRefused(
            f"{len(set(names))} VMs are named; a console belongs to one VM (run the command once"
            " for each; several can be open at once)"
        )
    name = names[0]
    vms_by_host = {host: answer.get("consoles") or [] for host, answer in answers.items()}
    locations = located.locate([name], vms_by_host, silent, host=only)
    problems = [*locations.problems, *located.absences(locations, silent)]
    if problems:
        raise PlanRefused("; ".join(problems))
    host, vm = locations.places[name]
    if vm["state"] not in ACTIVE_STATES:
        raise PlanRefused(
            f"{name} on {host} is {vm['state']}, so it has no console; start it first"
            f" ({playbook_command('state', vm_name=name, vm_state='running')})"
        )
    kinds = [*vm["screens"], *(["serial"] if vm["serial"] else [])]
    kind = next((kind for kind in _KINDS[view] if kind in kinds), None)
    if kind is None:
        raise PlanRefused(_without(name, host, kinds, view))
    return Chosen(host, vm, kind)


def _without(name: str, host: str, kinds: t.Collection[str], view: str) -> str:
    if view in (SERIAL, SERIAL_PAGE):
        return f"{name} on {host} has no serial console; VMs created by others may lack one"
    if "spice" in kinds:
        return (
            f"{name} on {host} has a screen of type spice, which browsers cannot show; use"
            " -e virt_console=viewer, or give it vm_console=vnc"
        )
    return (
        f"{name} on {host} has no screen (vm_console=vnc gives it one at its next start);"
        " -e virt_console=serial opens its serial console"
    )
