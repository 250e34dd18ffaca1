# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What results of several features have in common."""

from __future__ import annotations

import json
import typing as t

# Words of reports: it is as requested; and nothing was done for it, because another one failed
UNCHANGED = "unchanged"
NOT_TRIED = "not tried"
# In check mode: a value that exists only afterwards
GENERATED = "(generated)"


class Diff(t.TypedDict):
    """Text before and after, as Ansible shows it."""

    before_header: str
    after_header: str
    before: str
    after: str


def word(entry: t.Mapping[str, object] | None, done: str, problem: str | None = None) -> str:
    """The outcome of ``entry`` in a word: ``done`` if something was done for it, or would be.

    ``problem`` is why it is not as requested; an entry that is None has failed.
    """
    if entry is not None and entry.get("not_tried"):
        return NOT_TRIED
    if entry is None or problem is not None or entry.get("failed"):
        return "failed"
    return done if entry.get("changed") else UNCHANGED


def json_diff(header: str, before: t.Mapping[str, object], after: t.Mapping[str, object]) -> Diff:
    """What is shown as JSON, one value a line; nothing of what does not exist."""
    return {
        "before_header": header,
        "after_header": header,
        "before": json.dumps(before, indent=1) + "\n" if before else "",
        "after": json.dumps(after, indent=1) + "\n" if after else "",
    }
