# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which options of a VM a user wrote, as opposed to those that have their defaults.

Only these are compared with a VM that exists: ``memory``, ``console.type``, ``seed.user``,
``disks.data.size``, ``nics.eth0.bridge``. A profile counts as written where it is named.
"""

from __future__ import annotations

import contextlib
import json
import typing as t
from collections.abc import Mapping

from ..base.options import Reader, join
from ..base.settings import Group
from .profiles import WrittenDevice
from .settings import VM

# A word or true stands for the whole mapping
_STRUCTURES = [row.name for row in VM if isinstance(row, Group) and row.of == "raw"]


def options(
    reader: Reader, disks: t.Sequence[WrittenDevice], nics: t.Sequence[WrittenDevice]
) -> frozenset[str]:
    """The paths of all that was written; ``disks`` and ``nics`` are merged with their profiles."""
    paths = set(reader.written)
    for key in _STRUCTURES:
        value = reader.value(key)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            with contextlib.suppress(ValueError):  # its reader reports that
                value = json.loads(value)
        if isinstance(value, Mapping):
            paths |= {f"{key}.{inner}" for inner, option in value.items() if option is not None}
    paths |= _entries("disks", disks, reader, "disk_profile")
    paths |= _entries("nics", nics, reader, "nic_profile")
    return frozenset(paths)


def _entries(
    kind: str, entries: t.Sequence[WrittenDevice], reader: Reader, profile: str
) -> set[str]:
    own = join(reader.path, kind)
    paths = set()
    for entry in entries:
        if not entry.path.startswith(own) and not reader.given(profile):
            continue  # of the default profile
        paths.add(f"{kind}.{entry.name}")
        for key, value in entry.options.items():
            if value is not None and (key not in entry.origins or reader.given(profile)):
                paths.add(f"{kind}.{entry.name}.{key}")
    return paths
