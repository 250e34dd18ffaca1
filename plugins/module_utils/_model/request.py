# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a VM was asked to be, kept in its metadata, and how another request differs from it.

Two runs with the same variables must find nothing to do, whatever libvirt added to the definition
in between: so requests are compared with each other, not with the definition.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from .domain import Domain

# what belongs to the run that creates, not to the VM
_NOT_KEPT = ("start", "wait", "placement")


def as_plain(domain: Domain) -> dict[str, t.Any]:
    """The request as JSON's types, without secrets and without what only its run needs."""
    plain = dataclasses.asdict(domain.without_secrets())
    for key in _NOT_KEPT:
        del plain[key]
    return t.cast("dict[str, t.Any]", json.loads(json.dumps(plain)))


def to_text(domain: Domain) -> str:
    """The request for the metadata."""
    return json.dumps(as_plain(domain), sort_keys=True, separators=(",", ":"))


def differences(kept: str | None, domain: Domain) -> list[str]:
    """``memory: 512, wanted 1024`` for each difference; empty if the requests are the same.

    ``kept`` is the text in the metadata; what it does not know (written by an older version) is
    no difference.
    """
    try:
        old = json.loads(kept or "")
    except ValueError:
        return ["what it was made from is not readable in its metadata"]
    if not isinstance(old, dict):
        return ["what it was made from is not readable in its metadata"]
    return compare(old, as_plain(domain))


def compare(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> list[str]:
    """As :func:`differences`, of two plain mappings."""
    return _compare("", old, new)


def _compare(path: str, old: t.Any, new: t.Any) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in new:
            if key in old:
                found += _compare(f"{path}.{key}" if path else key, old[key], new[key])
        return found
    if _named(old) and _named(new):
        before, after = ({entry["name"]: entry for entry in one} for one in (old, new))
        found = _compare(path, before, {name: after[name] for name in after if name in before})
        found += [f"{path}.{name}: is there, not wanted" for name in before if name not in after]
        found += [f"{path}.{name}: wanted, not there" for name in after if name not in before]
        if not found and list(before) != list(after):
            found.append(f"{path}: order {', '.join(before)}, wanted {', '.join(after)}")
        return found
    return [] if old == new else [f"{path}: {_show(old)}, wanted {_show(new)}"]


def _named(value: t.Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in value
    )


def _show(value: t.Any) -> str:
    return "none" if value is None else str(value) if isinstance(value, str) else json.dumps(value)
