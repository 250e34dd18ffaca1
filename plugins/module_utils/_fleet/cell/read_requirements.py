# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a VM can be one of this hypervisor's cell, from its definition and its files."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..cards import read_vms as cards
from ..cards.card import disk_files
from ..storage import read_file_users as file_users
from . import hold, read, requirements

_DEEPEST = 64


def problem(
    connection: Connection,
    name: str,
    definition: str,
    *,
    bases: t.Collection[str] = (),
    snapshots: int = 0,
    autostart: bool = False,
) -> str | None:
    """Why the VM with this definition can not be one of a cell; None if it can. ``bases`` are the
    images that its new disks will be based on."""
    host = caller.host()
    view = read.here() if connection.local else None
    if view is None:
        why = f"{host or 'this hypervisor'} is in no cell; the role fleet.virt.ha makes one"
        return requirements.refusal(name, [why])
    without_quorum = hold.refusal(name, host, view)
    if without_quorum is not None:
        return without_quorum
    root = _lxml.parse(definition, f"domain {name}")
    paths = [path for path in disk_files(root) or () if path]
    chains = connection.call(f"read the disks of {name}", _below, [*paths, *bases])
    shared = cards.shared_folders(connection)
    problems = [
        *requirements.of_definition(root),
        *requirements.of_autostart(autostart),
        *requirements.of_paths(root, shared),
        *requirements.of_disks(root, [*bases, *chains], shared),
        *requirements.of_snapshots(name, snapshots),
    ]
    return requirements.refusal(name, problems) if problems else None


def _below(paths: t.Iterable[str]) -> list[str]:
    """The files that these are based on, of which new ones are not there yet."""
    waiting, below = [*paths], dict[str, None]()
    while waiting and len(below) < _DEEPEST:
        for lower in file_users.read_header(waiting.pop()):
            if lower.name not in below:
                below[lower.name] = None
                waiting.append(lower.name)
    return [*below]
