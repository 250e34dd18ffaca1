# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VMs that one call moves, and the result of each."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from .types import Destination, LostSource, MigrationOptions


@dataclass(frozen=True)
class MigrationSettings:
    """``here`` is this hypervisor's name in the inventory; ``repair``: start no new move;
    ``parallel``: VMs to move at the same time; ``evacuating``: they are to return later."""

    here: str
    base_pool: str
    options: MigrationOptions
    repair: bool = False
    parallel: int = 1
    evacuating: bool = False


Figure = t.Union[int, float, str, None]  # a text in check mode


@dataclass
class MigrationJob:
    """One VM and its result; ``lost``: its source, if that hypervisor is lost."""

    name: str
    destination: Destination
    lost: LostSource | None = None
    flow: str | None = None
    steps: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)
    bytes_to_copy: int = 0
    bytes: Figure = None
    seconds: Figure = None
    downtime_ms: Figure = None
    changed: bool = False
    failed: bool = False
    msg: str | None = None
    note: str | None = None

    def fail(self, message: str) -> None:
        self.failed, self.msg = True, message


def result(jobs: t.Sequence[MigrationJob], settings: MigrationSettings) -> dict[str, object]:
    """The module's result."""
    vms = [
        {
            "name": job.name,
            "source": job.lost.name if job.lost else settings.here,
            "destination": job.destination.name,
            **{
                key: getattr(job, key)
                for key in (
                    *("flow", "steps", "findings", "kept", "progress", "bytes_to_copy"),
                    *("bytes", "seconds", "downtime_ms", "changed", "failed", "msg", "note"),
                )
            },
        }
        for job in jobs
    ]
    answer: dict[str, object] = {
        "changed": any(job.changed for job in jobs),
        "vms": vms,
        "diff": [_diff(job, settings) for job in jobs if job.changed],
    }
    if any(job.failed for job in jobs):
        answer["failed"] = True
        answer["msg"] = "; ".join(f"{job.name}: {job.msg}" for job in jobs if job.failed)
    return answer


def _diff(job: MigrationJob, settings: MigrationSettings) -> dict[str, str]:
    def text(where: str, steps: t.Sequence[str]) -> str:
        return json.dumps({"hypervisor": where, "steps": list(steps)}, indent=1) + "\n"

    return {
        "before_header": job.name,
        "after_header": job.name,
        "before": text(job.lost.name if job.lost else settings.here, []),
        "after": text(job.destination.name, job.steps),
    }
