# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a VM was asked to be, kept in its metadata, and how another request differs from it.

That is what tells two creations of one name apart while the VM is being made. One that exists is
compared as libvirt has it (``difference``).

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from .domain import Domain

# what belongs to the run that creates, not to the VM
_NOT_KEPT = ("start", "wait", "placement", "written")


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
    """``memory: asked 1024, is 512`` for each difference; empty if the requests are the same.

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
        found += [f"{path}.{name}: not asked for, is there" for name in before if name not in after]
        found += [f"{path}.{name}: asked for, is not there" for name in after if name not in before]
        if not found and list(before) != list(after):
            found.append(f"{path}: order asked {', '.join(after)}, is {', '.join(before)}")
        return found
    return [] if old == new else [f"{path}: asked {_show(new)}, is {_show(old)}"]


def _named(value: t.Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in value
    )


def _show(value: t.Any) -> str:
    return "none" if value is None else str(value) if isinstance(value, str) else json.dumps(value)
