# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was found of backups, as data, a table and records."""

from __future__ import annotations

import typing as t

from ..backup import archives, listing
from ..base.tables import csv_text, table

_HEADS = ("VM", "BACKUP", "HYPERVISOR", "RESULT", "HOW")
_COLUMNS = [
    *("name", "uuid", "archive", "hypervisor", "state", "proof", "how", "seconds"),
    *("screenshot", "recorded", "failed", "msg"),
]
_WOULD = "would be proven"
_WOULD_READ = "would be read back"
STATES = {
    archives.BOOTED: listing.PROVEN,
    archives.READ_BACK: listing.READ_BACK,
    archives.FAILED: listing.FAILED,
}


class VerifiedBackup(t.TypedDict):
    """What was found of a backup: ``proof`` is none where nothing could be said of it. ``state`` is
    what it is called now; ``recorded`` the archive with the proof, ``screenshot`` whether it has
    a picture."""

    name: str
    uuid: str
    archive: str
    hypervisor: str | None
    state: str
    proof: str | None
    how: str | None
    seconds: int | None
    screenshot: bool
    recorded: str | None
    changed: bool
    failed: bool
    msg: str | None


def would_be(unbootable: str) -> str:
    """What check mode says of a backup."""
    return _WOULD_READ if unbootable else _WOULD


def text(verified: t.Sequence[VerifiedBackup], notes: t.Sequence[str] = ()) -> str:
    """The table, and below it what was found in all, with notes on the place."""
    rows = [
        (v["name"], v["archive"], v["hypervisor"], v["state"], v["how"] or v["msg"])
        for v in verified
    ]
    counts = {state: [v["state"] for v in verified].count(state) for state in STATES.values()}
    summary = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    lines = [table(_HEADS, rows)] if rows else []
    lines.append(f"{len(rows)} backups{': ' if summary else ''}{summary}")
    return "\n".join([*lines, *notes]) + "\n"


def records(verified: t.Sequence[VerifiedBackup]) -> str:
    """CSV, a line a backup."""
    rows = [{**v} for v in verified]
    return csv_text(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])


def failure(verified: VerifiedBackup) -> str | None:
    """What is said of one that is not as it has to be."""
    if not verified["failed"]:
        return None
    return f"{verified['name']}: {verified['archive']}: {verified['msg'] or verified['how']}"
