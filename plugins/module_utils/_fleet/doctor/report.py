# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is shown of a diagnosis, and what of it fails the run."""

from __future__ import annotations

import typing as t

from ..base import tables
from ..base.findings import SEVERITIES
from ..base.json_values import as_mapping
from ..engine.outcomes import Failure
from ..preflight.facts import ClockOffset
from .decide import Diagnosis


def clock(answer: t.Mapping[str, object], before: float, after: float) -> ClockOffset | None:
    """How far a hypervisor's clock is from this one's, by the stamp of its answer, which it made
    at some moment between ``before`` and ``after``."""
    at = as_mapping(answer.get("host")).get("at")
    if not isinstance(at, int) or isinstance(at, bool):
        return None
    return {"offset": at / 1000 - (before + after) / 2, "uncertainty": (after - before) / 2}


def plain(diagnosis: Diagnosis) -> dict[str, object]:
    """The diagnosis as data."""
    return {
        "findings": [finding.as_dict() for finding in diagnosis.findings],
        "summary": {
            word: sum(one.severity == word for one in diagnosis.findings) for word in SEVERITIES
        },
        "not_looked_at": list(diagnosis.unseen),
    }


def text(diagnosis: Diagnosis) -> str:
    """The findings for people, and what could not be looked at."""
    shown = tables.findings([finding.as_dict() for finding in diagnosis.findings])
    if diagnosis.unseen:
        shown += "\nnot looked at:\n"
        shown += "".join(f"  {tables.clean(line)}\n" for line in diagnosis.unseen)
    return shown


def records(diagnosis: Diagnosis) -> str:
    """CSV, one record for each finding."""
    return tables.finding_records([finding.as_dict() for finding in diagnosis.findings])


def failures(diagnosis: Diagnosis, *, strict: bool) -> list[Failure]:
    """The findings that fail the run, by host: errors, and warnings if it is ``strict``."""
    failing = ("error", "warning") if strict else ("error",)
    return [
        Failure(host, f"{finding.id}: {finding.message}")
        for finding in diagnosis.findings
        if finding.severity in failing
        for host in finding.hosts
    ]
