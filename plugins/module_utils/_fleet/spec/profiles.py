# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disk and NIC profiles: named lists of disks and NICs, in the order they are declared.

A disk profile is a list of one-key mappings (``- system: {size: 8192}``), a NIC profile a mapping
(``eth0: {bridge: br0}``); both accept either form, and also the one with a ``name`` key.
The common mistake of indenting too little (``- system:`` and beneath it, at the same depth as
``system``, ``size: 8192``) is read as intended. Disks and NICs given directly are merged over
those of the profile by name, as in the predecessor.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ..._errors import Problem
from ..._records import dataclass, field
from ..base.names import NAME_PART, NAME_PART_RULE
from ..base.options import join, show, unknown_message

if t.TYPE_CHECKING:
    from ..base.json_values import Json

DEFAULT_DISK_PROFILES: Mapping[str, Json] = {
    "default": [{"system": {"size": 8192, "format": "qcow2", "model": "virtio"}}]
}
DEFAULT_NIC_PROFILES: Mapping[str, Json] = {
    "default": {"eth0": {"bridge": "br0", "model": "virtio"}}
}
NO_PROFILE = "none"

# Options that exclude each other: the one that is given replaces the others of the profile
_REPLACES = {
    "bus": ("model",),
    "model": ("bus",),
    "bridge": ("network", "source", "type"),
    "network": ("bridge", "source", "type"),
    "source": ("bridge", "network"),
}


@dataclass(frozen=True)
class WrittenDevice:
    """One disk or NIC as written: its options, and for each the path where it was written."""

    name: str
    options: Mapping[str, object]
    path: str
    origins: Mapping[str, str] = field(default_factory=dict)


def resolve_disks(
    profile: str | None,
    profiles: object,
    explicit: object,
    path: str = "",
) -> tuple[list[WrittenDevice], list[Problem]]:
    """The disks of a VM: those of the profile, with ``explicit`` merged over them by name.

    ``profiles`` is the user's ``virt_disk_profiles``, which adds to and overrides the defaults;
    ``path`` is that of the VM, for the problems.
    """
    return _resolve("disk", profile, profiles, DEFAULT_DISK_PROFILES, explicit, path)


def resolve_nics(
    profile: str | None,
    profiles: object,
    explicit: object,
    path: str = "",
) -> tuple[list[WrittenDevice], list[Problem]]:
    """The NICs of a VM; as ``resolve_disks``, with ``virt_nic_profiles``."""
    return _resolve("nic", profile, profiles, DEFAULT_NIC_PROFILES, explicit, path)


def bridges(profiles: object) -> list[str]:
    """The bridges that the user's NIC profiles name; without any, those of the defaults."""
    chosen = profiles if isinstance(profiles, Mapping) and profiles else DEFAULT_NIC_PROFILES
    bridge_names = set()
    for name, content in chosen.items():
        for entry in _entries(content, str(name), "nic", []):
            options = entry.options
            bridge = options.get("bridge")
            if bridge is None and options.get("type") == "bridge":
                bridge = options.get("source")
            if bridge is not None:
                bridge_names.add(str(bridge))
    return sorted(bridge_names)


def _resolve(
    kind: str,
    profile: str | None,
    profiles: object,
    defaults: Mapping[str, Json],
    explicit: object,
    path: str,
) -> tuple[list[WrittenDevice], list[Problem]]:
    problems: list[Problem] = []
    variable = f"virt_{kind}_profiles"
    known: dict[str, object] = dict(defaults)
    if isinstance(profiles, Mapping):
        known.update({str(name): content for name, content in profiles.items()})
    elif profiles is not None:
        problems.append(
            Problem(
                variable,
                f"{show(profiles)} is not a mapping of profiles; write name: [...] for each",
            )
        )
    name = "default" if profile is None else profile
    entries: list[WrittenDevice] = []
    if name in known:
        entries = _entries(known[name], join(variable, name), kind, problems)
    elif name != NO_PROFILE:
        problems.append(
            Problem(
                join(path, f"{kind}_profile"),
                unknown_message(f"{kind} profile", name, sorted(known))
                + f"; add it to {variable} or choose one of these"
                f" ({NO_PROFILE}: no profile)",
            )
        )
    return _merged(entries, _entries(explicit, join(path, f"{kind}s"), kind, problems)), problems


def _merged(base: list[WrittenDevice], over: list[WrittenDevice]) -> list[WrittenDevice]:
    merged = {entry.name: entry for entry in base}
    for entry in over:
        below = merged.get(entry.name)
        if below is None:
            merged[entry.name] = entry
            continue
        written = {key: value for key, value in entry.options.items() if value is not None}
        replaced = {other for key in written for other in _REPLACES.get(key, ())}
        kept = {key: value for key, value in below.options.items() if key not in replaced}
        origins = {key: below.path for key in kept if key not in written}
        merged[entry.name] = WrittenDevice(entry.name, {**kept, **written}, entry.path, origins)
    return list(merged.values())


def _entries(content: object, path: str, kind: str, problems: list[Problem]) -> list[WrittenDevice]:
    """The entries of one profile or list, in their order."""
    entries: list[WrittenDevice] = []
    pairs: list[tuple[object, object, str]]
    if content is None:
        return entries
    if isinstance(content, Mapping):
        slipped = _slipped(content)
        if slipped is not None:
            pairs = [(slipped, _without(content, slipped), path)]
        else:
            pairs = [(name, options, join(path, str(name))) for name, options in content.items()]
    elif isinstance(content, (list, tuple)):
        pairs = []
        for index, item in enumerate(content):
            pair = _pair(item, f"{path}[{index}]", kind, problems)
            if pair is not None:
                pairs.append(pair)
    else:
        problems.append(
            Problem(
                path, f"{show(content)} is not a list of {kind}s; write - name: {{...}} for each"
            )
        )
        return entries
    for name, options, where in pairs:
        if not isinstance(name, str) or re.fullmatch(NAME_PART, name) is None:
            problems.append(Problem(where, f"{show(name)} cannot name a {kind}: {NAME_PART_RULE}"))
        elif any(entry.name == name for entry in entries):
            problems.append(
                Problem(where, f"two {kind}s are named {show(name)}; give each its own name")
            )
        elif options is not None and not isinstance(options, Mapping):
            problems.append(
                Problem(
                    where, f"{show(options)} is not a mapping of options; write key: value pairs"
                )
            )
        else:
            entries.append(WrittenDevice(str(name), dict(options or {}), where))
    return entries


def _pair(
    item: object, path: str, kind: str, problems: list[Problem]
) -> tuple[object, object, str] | None:
    """Name, options and path of one item of a list."""
    if isinstance(item, Mapping):
        if item.get("name") is not None:
            return item["name"], _without(item, "name"), path
        if len(item) == 1:
            ((name, options),) = item.items()
            if options is None or isinstance(options, Mapping):
                return name, options, join(path, str(name))
        slipped = _slipped(item)
        if slipped is not None:
            return slipped, _without(item, slipped), path
    problems.append(
        Problem(
            path,
            f"{show(item)} does not name a {kind}; write - name: {{...}} or add a name: key to it",
        )
    )
    return None


def _slipped(item: Mapping[object, object]) -> str | None:
    """The name in ``{system: None, size: 8192}``: one key without value, and the rest options."""
    empty = [key for key, value in item.items() if value is None]
    plain = [
        key for key, value in item.items() if value is not None and not isinstance(value, Mapping)
    ]
    return str(empty[0]) if len(empty) == 1 and len(plain) == len(item) - 1 > 0 else None


def _without(item: Mapping[object, object], name: str) -> dict[str, object]:
    return {str(key): value for key, value in item.items() if key != name}
