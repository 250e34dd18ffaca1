# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing what a hypervisor that was off has left of a VM that was restarted elsewhere meanwhile.

Only the definition is removed; the disks are the VM's.
"""

from __future__ import annotations

import typing as t

from ..base import effects_definitions as domains
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain
from . import read_leftovers
from . import read_vms as read


def disks_of(
    connection: Connection, name: str, shared: t.Mapping[str, str] | None = None
) -> list[str] | None:
    """The disks of the VM, by its card, if this hypervisor has a leftover of it; else None.
    ``shared`` are the folders of shared pools, where they were read already."""
    dom = find_domain(connection, name)
    vm = None if dom is None else read.vm_of(connection, dom)
    if dom is None or vm is None or vm.active or not read.may_have_card(connection, vm):
        return None
    shared = read.shared_folders(connection) if shared is None else shared
    card = read_leftovers.card_of(connection, dom, vm, shared)
    return None if card is None else [*card.disks]


def remove(connection: Connection, name: str, *, check: bool) -> list[str] | None:
    """Remove the definition if it is a leftover; the disks of the VM, which are kept, or None."""
    disks = disks_of(connection, name)
    dom = find_domain(connection, name)
    if disks is not None and dom is not None and not check:
        domains.undefine(connection, dom, keep_nvram=True)
    return disks
