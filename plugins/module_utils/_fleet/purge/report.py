# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Report on domains that were to be removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.results import NOT_TRIED
from ..base.tables import table
from ..engine.outcomes import outcomes
from .facts import Purged, PurgedVm

_HEADS = ["VM", "HYPERVISOR", "RESULT", "KIND", "WHAT", "MIB", "WHY"]


def report(
    names: Sequence[str],
    shares: Mapping[str, Sequence[str]],
    answers: Mapping[str, Purged],
    *,
    check: bool,
) -> tuple[str, list[str]]:
    """The report as text, and the failures.

    ``shares`` are the names that each hypervisor was to remove; those of ``names`` in none of them
    were not found. ``answers`` are the results of the hypervisors.
    """
    rows: list[list[object]] = []
    vm_outcomes = outcomes(shares, answers, PurgedVm)
    for outcome in vm_outcomes:
        entry = outcome.entry
        word = "would go" if check else "removed"
        gone: list[list[object]] = [
            [
                *(outcome.name, outcome.host, word, item["kind"]),
                *(item["path"] or item["name"], item["size_mib"], ""),
            ]
            for item in (entry["removed"] if entry is not None else ())
        ]
        kept: list[list[object]] = [
            [outcome.name, outcome.host, "stays", "file", item["path"], None, item["reason"]]
            for item in (entry["kept"] if entry is not None else ())
        ]
        if outcome.problem:
            rows.append([outcome.name, outcome.host, "failed", None, None, None, ""])
        elif entry is not None and entry.get("not_tried"):
            rows.append([outcome.name, outcome.host, NOT_TRIED, None, None, None, ""])
        elif not gone:
            rows.append([outcome.name, outcome.host, "not there", None, None, None, ""])
        rows += gone + kept
    shared = {name for share in shares.values() for name in share}
    absent = [name for name in dict.fromkeys(names) if name not in shared]
    rows += [[name, None, "not there", None, None, None, ""] for name in absent]
    lines = [table(_HEADS, rows)]
    if not shares:
        lines.append(f"nothing to do: no hypervisor has {' or '.join(absent)}")
    return "\n".join(lines) + "\n", [outcome.problem for outcome in vm_outcomes if outcome.problem]
