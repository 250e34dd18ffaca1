# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks whose data are in another file: qcow2 with an external data file (``<dataStore>``).

What copies such a disk makes one file of it, and what follows the disk's own file leaves the data
behind. So neither is done by the way.
"""

from __future__ import annotations

import shlex
import typing as t

if t.TYPE_CHECKING:
    from ..._lxml import Element


def refusal(what: str, path: str, data: str, vm: str) -> str:
    """Why such a disk does not move, with the remedy."""
    one = shlex.quote(f"{path}.new")
    return (
        f"{what} ({path}) has its data in another file ({data}), which would not go along; make it"
        f" one file while {vm!r} is off: qemu-img convert -O qcow2 {shlex.quote(path)} {one} && mv"
        f" {one} {shlex.quote(path)}, then remove <dataStore> if its definition has it (virsh edit"
        f" {shlex.quote(vm)}), and {shlex.quote(data)} once the VM has started"
    )


def named_in(disk: Element) -> str | None:
    """What libvirt says of it."""
    for store in disk.iter("dataStore"):
        source = store.find("source")
        if source is None:
            return "unnamed"
        return source.get("file") or source.get("dev") or str(sorted(source.attrib.items()))
    return None
