# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where a VM's disk is copied, or that its image exists."""

from __future__ import annotations

from collections.abc import Mapping

from ..._errors import PlanRefused
from ..base.names import require_named
from ..base.results import UNCHANGED, word
from ..base.tables import table
from ..engine import located
from ..engine.outcomes import outcomes
from ..storage.base_name import BaseName
from . import plan as template_plan
from .facts import Templated, TemplatedVm, TemplateLook

_HEADS = ["VM", "HYPERVISOR", "RESULT", "IMAGE", "DISK AS OF"]
_MOMENTS = {
    "shutoff": "shut off",
    "quiesced": "running, file systems frozen",
    "crash": "running, as after a power cut",
}


Fleet = located.Fleet[TemplateLook]


def decide(name: str, image: str, seen: Fleet, only: str = "") -> tuple[str, str]:
    """The hypervisor that has the VM, which is ``only`` if that is not empty, and the volume of
    the image if it exists already.

    Raises PlanRefused with everything that is unproven. An existing image needs no VM.
    """
    require_named([name])
    problem = template_plan.image_problem(image)
    if problem:
        raise PlanRefused(problem)
    for host, answer in seen.answers.items():
        for volume in answer.get("volumes") or ():
            base = BaseName.parse(volume)
            if base is not None and base.name == image:
                return host, volume
    vms_by_host = {host: answer.get("defined") or [] for host, answer in seen.answers.items()}
    place = located.locate([name], vms_by_host, seen.silent, host=only)
    problems = [*place.problems, *located.absences(place, seen.silent)]
    if problems:
        raise PlanRefused("; ".join(problems))
    return place.places[name][0], ""


def report(
    name: str,
    image: str,
    host: str,
    answers: Mapping[str, Templated],
    present: str,
    *,
    check: bool,
) -> tuple[str, list[str]]:
    """The report as text, and the failures."""
    if present:
        return table(_HEADS, [[name, host, UNCHANGED, present, None]]) + "\n", []
    (outcome,) = outcomes({host: [name]}, answers, TemplatedVm)
    entry, copied = outcome.entry, answers[host].get("image") if host in answers else None
    failures = [f"image {image}: {outcome.problem}"] if outcome.problem is not None else []
    row = [
        name,
        host,
        word(outcome.entry, "would be copied" if check else "copied", outcome.problem),
        None if failures else image if check else copied and copied["volume"],
        _MOMENTS.get(entry["consistency"] or "") if entry is not None else None,
    ]
    return table(_HEADS, [row]) + "\n", failures
