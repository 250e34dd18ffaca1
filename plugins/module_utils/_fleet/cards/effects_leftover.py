# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor that was off has left of a VM that was restarted elsewhere meanwhile.

Its definition names disks that have other names now, and the VM's card names another hypervisor. So
it is no duplicate: it cannot be started. Only the definition is removed; the disks are the VM's.
"""

from __future__ import annotations

import os
import typing as t

from ..base import effects_definitions as domains
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from . import keep
from . import read_vms as read
from .card import disk_files


def disks_of(
    connection: Connection, name: str, shared: t.Mapping[str, str] | None = None
) -> list[str] | None:
    """The disks of the VM, by its card, if this hypervisor has a leftover of it; else None.
    ``shared`` are the folders of shared pools, where they were read already.

    That is certain only of one that is shut off, without saved memory and work begun on it, whose
    disks all have other names.
    """
    dom = find_domain(connection, name)
    vm = None if dom is None else read.vm_of(connection, dom)
    if dom is None or vm is None or vm.active or not read.may_have_card(connection, vm):
        return None
    if connection.call(f"read the saved memory of {name}", dom.hasManagedSaveImage, 0):
        return None
    stored = read_metadata(connection, dom)
    if stored is not None and (stored.phase is not None or stored.broken is not None):
        return None
    shared = read.shared_folders(connection) if shared is None else shared
    if keep.place(read.root(vm), shared) is None:
        return None
    leftovers = read.cards_named(connection, sorted(set(shared.values())), name)
    cards = [file.card for file in leftovers if file.card is not None and file.card.uuid == vm.uuid]
    if len(cards) != 1 or caller.host() in cards[0].hosts:
        return None
    paths = [path for path in disk_files(read.root(vm)) or () if path]

    def exist() -> bool:
        return any(os.path.lexists(path) for path in paths)

    if connection.call(f"look at the disks of {name}", exist):
        return None
    return [*cards[0].disks]


def remove(connection: Connection, name: str, *, check: bool) -> list[str] | None:
    """Remove the definition if it is a leftover; the disks of the VM, which are kept, or None."""
    disks = disks_of(connection, name)
    dom = find_domain(connection, name)
    if disks is not None and dom is not None and not check:
        domains.undefine(connection, dom, keep_nvram=True)
    return disks
