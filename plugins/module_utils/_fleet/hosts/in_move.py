# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM that is being moved is on two hypervisors for a while, but is still one VM.

On its destination there are a claim, which reserves its place, and the incoming VM, which is
defined only after it has arrived.
"""

from __future__ import annotations

import typing as t

from ..base.json_values import as_mapping, as_mappings
from ..base.names import CLAIM

Entry = t.Mapping[str, object]
_RUNNING = ("running", "blocked")


def once(hypervisors: t.Sequence[Entry]) -> list[dict[str, object]]:
    """The hypervisors with their ``domains``, with each VM that is being moved on only one of them.

    Two with the same UUID that both run, or are both defined, are not a move and remain visible.
    """
    hidden = {id(other) for other in _others(hypervisors)}
    moves: dict[str, object] = {}
    shown = {
        str(domain["name"])
        for entry in hypervisors
        for domain in _domains(entry)
        if id(domain) not in hidden and not _is_claim(domain)
    }
    for entry in hypervisors:
        for domain in _domains(entry):
            of = str(domain["name"])[: -len(CLAIM)]
            if _is_claim(domain) and of in shown:
                moves[of] = as_mapping(domain["metadata"])["move"]
                hidden.add(id(domain))
    return [
        {
            **entry,
            "domains": [
                _moving(domain, moves) for domain in _domains(entry) if id(domain) not in hidden
            ],
        }
        for entry in hypervisors
    ]


def _domains(entry: Entry) -> list[Entry]:
    return as_mappings(entry["domains"])


def _others(hypervisors: t.Sequence[Entry]) -> t.Iterator[Entry]:
    """For each VM that is on two hypervisors by a move, the domain at the end without it."""
    domains: dict[tuple[object, object], list[Entry]] = {}
    for entry in hypervisors:
        for domain in _domains(entry):
            domains.setdefault((domain["name"], domain.get("uuid")), []).append(domain)
    for (_name, uuid), both in domains.items():
        incoming = [domain for domain in both if domain.get("persistent") is False]
        running = [domain for domain in both if domain["state"] in _RUNNING]
        if uuid is None or len(both) != 2 or len(incoming) != 1 or len(running) > 1:
            continue
        yield from (
            domain for domain in both if (domain not in running if running else domain in incoming)
        )


def _is_claim(domain: Entry) -> bool:
    stored = as_mapping(domain.get("metadata"))
    ours = stored.get("phase") == "creating" and stored.get("move")
    return bool(ours) and str(domain["name"]).endswith(CLAIM)


def _moving(domain: Entry, moves: t.Mapping[str, object]) -> Entry:
    """The VM with its move, which is in the source's definition, not its running domain."""
    stored = as_mapping(domain.get("metadata"))
    move = moves.get(str(domain["name"]))
    if move is None or stored.get("move"):
        return domain
    return {**domain, "metadata": {**stored, "phase": "migrating", "move": move}}
