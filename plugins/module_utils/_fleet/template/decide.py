# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where a VM's disk is copied, or that its image exists."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ..._errors import PlanRefused
from ..base.json_values import as_list, as_mapping, as_mappings, as_text
from ..base.names import require_named
from ..base.results import UNCHANGED, word
from ..base.tables import table
from ..engine import located
from ..engine.outcomes import Answer, outcomes
from ..storage import base_name
from . import plan as template_plan

_HEADS = ["VM", "HYPERVISOR", "RESULT", "IMAGE", "DISK AS OF"]
_MOMENTS = {
    "shutoff": "shut off",
    "quiesced": "running, file systems frozen",
    "crash": "running, as after a power cut",
}


@dataclass(frozen=True)
class Vm:
    """A VM of a hypervisor."""

    name: str
    uuid: str | None
    phase: str | None


@dataclass(frozen=True)
class Fleet:
    """The VMs and the base images of each hypervisor of the play. ``silent`` did not respond
    and are not declared lost."""

    vms_by_host: Mapping[str, tuple[Vm, ...]]
    volumes: Mapping[str, tuple[str, ...]]
    silent: located.Silences


def fleet(
    registered: Mapping[str, Answer], expected: t.Sequence[str] | None, lost: t.Sequence[str]
) -> Fleet:
    """Parse the registered results; raises PlanRefused as :func:`located.sort` does."""
    answers, silent = located.sort(registered, "defined", expected, lost)
    return Fleet(
        {name: _vms(answer) for name, answer in answers.items()},
        {name: tuple(map(str, as_list(one.get("volumes")))) for name, one in answers.items()},
        silent,
    )


def _vms(answer: Answer) -> tuple[Vm, ...]:
    return tuple(
        Vm(str(vm["name"]), as_text(vm.get("uuid")), as_text(vm.get("phase")))
        for vm in as_mappings(answer.get("defined"))
    )


def decide(name: str, image: str, seen: Fleet) -> tuple[str, str]:
    """The hypervisor that has the VM, and the volume of the image if it exists already.

    Raises PlanRefused with everything that is unproven. An existing image needs no VM.
    """
    require_named([name])
    problem = template_plan.image_problem(image)
    if problem:
        raise PlanRefused(problem)
    for host, volumes in seen.volumes.items():
        for volume in volumes:
            parts = base_name.parts(volume)
            if parts and parts["name"].removesuffix(f".{parts['format']}") == image:
                return host, volume
    place = located.locate([name], seen.vms_by_host, seen.silent)
    problems = list(place.problems)
    if place.absent and not problems:
        problems.append(f"no hypervisor has a VM {name!r}; fleet.virt.list shows the VMs")
    if problems:
        raise PlanRefused("; ".join(problems))
    return place.places[name][0], ""


def report(
    name: str,
    image: str,
    host: str,
    answers: Mapping[str, Answer],
    present: str,
    *,
    check: bool,
) -> tuple[str, list[str]]:
    """The report as text, and the failures."""
    if present:
        return table(_HEADS, [[name, host, UNCHANGED, present, None]]) + "\n", []
    (outcome,) = outcomes({host: [name]}, answers)
    entry, answer = outcome.entry or {}, answers.get(host, {})
    failures = [f"image {image}: {outcome.problem}"] if outcome.problem is not None else []
    volume = as_text(as_mapping(answer.get("image")).get("volume"))
    row = [
        name,
        host,
        word(outcome.entry, "would be copied" if check else "copied", outcome.problem),
        None if failures else image if check else volume,
        _MOMENTS.get(str(entry.get("consistency"))),
    ]
    return table(_HEADS, [row]) + "\n", failures
