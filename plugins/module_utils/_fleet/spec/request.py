# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request that created a VM, stored in its metadata, and how another request differs from it.

It tells two creations of the same name apart while the VM is being created. An existing VM is
compared with libvirt's definition (``difference``).
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ..base.metadata import Metadata
from .domain import Domain
from .settings_sources import DRIVES

if t.TYPE_CHECKING:
    from ..base.json_values import Json

# A stored request, or a part of it; its values are what was valid when it was stored
Made = t.Mapping[str, t.Any]

# options of the run that creates, not of the VM
_NOT_KEPT = ("start", "wait", "placement", "written", "absent_disks", "absent_nics")


def as_plain(domain: Domain) -> dict[str, Json]:
    """The request as JSON types, without secrets and without what only its run needs."""
    plain = dataclasses.asdict(domain.without_secrets())
    for key in _NOT_KEPT:
        del plain[key]
    request: dict[str, Json] = json.loads(json.dumps(plain))
    return request


def to_text(domain: Domain) -> str:
    """The request for the metadata."""
    return json.dumps(as_plain(domain), sort_keys=True, separators=(",", ":"))


def merged(stored: str | None, domain: Domain, targets: t.Mapping[str, str] | None = None) -> str:
    """The request for the metadata of a changed VM: what was written now over what was before.

    What a disk was created from (its image, whether it is an overlay) is retained. Disks and NICs
    of the default profiles are not the VM's if it was made without them. ``targets`` are those of
    drives, by name.
    """
    old, new = _record(stored) or {}, as_plain(domain)
    top = {path.partition(".")[0] for path in domain.written}
    request = {key: new[key] if key in top or key not in old else old[key] for key in new}
    for kind, absent in (("disks", domain.absent_disks), ("nics", domain.absent_nics)):
        known, now = _by_name(old.get(kind)), _by_name(new[kind]) or {}
        before = known or {}
        both = {**before} if known is not None else {**now}
        for name, device in now.items():
            if f"{kind}.{name}" in domain.written:
                both[name] = _merged_device(before.get(name), device)
        if kind == "disks":
            both = {
                name: _with_target(device, (targets or {}).get(name))
                for name, device in both.items()
            }
        request[kind] = [device for name, device in both.items() if name not in absent]
    return json.dumps(request, sort_keys=True, separators=(",", ":"))


def in_pool(stored: str | None, disk: str, pool: str) -> str | None:
    """The request for the metadata of a VM whose disk was moved to another pool."""
    request = _record(stored)
    if request is None:
        return stored
    disks = request.get("disks")
    for device in disks if isinstance(disks, list) else ():
        if isinstance(device, dict) and device.get("name") == disk:
            device["pool"] = pool
    return json.dumps(request, sort_keys=True, separators=(",", ":"))


def repeats(stored: str | None, domain: Domain) -> bool:
    """Whether all that is written now was requested before."""
    old = _record(stored)
    return old is not None and not compare(old, json.loads(merged(stored, domain)))


def _record(stored: str | None) -> dict[str, Json] | None:
    """The request in the metadata, if there is one that can be read."""
    try:
        record = json.loads(stored or "null")
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def with_drive(stored: str | None, domain: Domain, name: str, target: str) -> str | None:
    """The request in the metadata with a drive of ``domain`` that was added at ``target``."""
    old = _record(stored)
    disks = _by_name((old or {}).get("disks"))
    new = (_by_name(as_plain(domain)["disks"]) or {}).get(name)
    if old is None or disks is None:
        return stored
    disks[name] = _with_target(new, target)
    return json.dumps({**old, "disks": list(disks.values())}, sort_keys=True)


def _with_target(disk: Json, target: str | None) -> Json:
    return {**disk, "target": target} if target and isinstance(disk, dict) else disk


def _merged_device(old: Json, new: Json) -> Json:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    kept = {key: old[key] for key in ("image", "overlay") if key in old}
    drive = new.get("device") in DRIVES
    return {**new, **({} if drive else kept)}


def differences(stored: str | None, domain: Domain) -> list[str]:
    """``memory: requested 1024, is 512`` for each difference; empty if the requests are the same.

    ``stored`` is the text in the metadata; what it lacks (written by an older version) is
    no difference.
    """
    old = _record(stored)
    if old is None:
        return ["its metadata has no readable record of how it was created"]
    return compare(old, as_plain(domain))


def compare(old: t.Mapping[str, Json], new: t.Mapping[str, Json]) -> list[str]:
    """As :func:`differences`, of two plain mappings."""
    return _compare("", old, new)


def _compare(path: str, old: Json, new: Json) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        lines: list[str] = []
        for key in new:
            if key in old:
                lines += _compare(f"{path}.{key}" if path else key, old[key], new[key])
        return lines
    before, after = _by_name(old), _by_name(new)
    if before is not None and after is not None:
        lines = _compare(path, before, {name: after[name] for name in after if name in before})
        lines += [f"{path}.{name}: not requested, exists" for name in before if name not in after]
        lines += [f"{path}.{name}: requested, is missing" for name in after if name not in before]
        if not lines and list(before) != list(after):
            lines.append(f"{path}: order requested {', '.join(after)}, is {', '.join(before)}")
        return lines
    return [] if old == new else [f"{path}: requested {_show(new)}, is {_show(old)}"]


def _by_name(value: Json) -> dict[str, Json] | None:
    """The mappings of a list by their names; None for a list of anything else, or no list."""
    if not isinstance(value, list):
        return None
    mappings: dict[str, Json] = {}
    for entry in value:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            return None
        mappings[name] = entry
    return mappings


def _show(value: Json) -> str:
    return "none" if value is None else str(value) if isinstance(value, str) else json.dumps(value)


def made_as(metadata: Metadata) -> Made:
    """The request that created the VM, its ``disks`` and ``nics`` by name.

    Empty if it cannot be read.
    """
    kept = _record(metadata.request)
    if kept is None:
        return {}
    return {
        **kept,
        "disks": _by_their_names(kept.get("disks")),
        "nics": _by_their_names(kept.get("nics")),
    }


def _by_their_names(entries: object) -> dict[str, Made]:
    listed = entries if isinstance(entries, list) else []
    return {str(entry.get("name")): entry for entry in listed if isinstance(entry, dict)}
