# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor that was off has left of VMs that were restarted elsewhere meanwhile.

Such a definition names disks that have other names now, and the VM's card names another hypervisor.
So it is no duplicate: it cannot be started. Whatever removes, replaces or overlooks one asks here.
"""

from __future__ import annotations

import typing as t
from shlex import quote

from ..._libvirt import CONNECT_LIST_DOMAINS_INACTIVE
from ..base import metadata
from ..base import read_caller as caller
from ..base import read_processes as processes
from ..base.effects_connection import Connection
from . import keep, leftover
from . import read_vms as read
from .card import Card

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.answers import VmIdentity
    from ..base.snapshot import DefinedEntry
    from .keep import ReadVm

    _Listed = t.Union[t.Iterable[VmIdentity], t.Iterable[DefinedEntry]]


def mark(connection: Connection, vms: _Listed) -> list[str]:
    """Mark those of ``vms`` of which this hypervisor only has a leftover; returns what is said of
    them. Without shared storage nothing is read."""
    entries = {str(vm["uuid"]): vm for vm in vms}
    if not entries or not read.concerns(connection):
        return []
    inactive = connection.call(
        "list domains", connection.conn.listAllDomains, CONNECT_LIST_DOMAINS_INACTIVE
    )
    candidates = [dom for dom in inactive if str(dom.UUIDString()) in entries]
    shared: dict[str, str] | None = None
    for dom in candidates:
        vm = read.vm_of(connection, dom)
        if vm is None or not read.may_have_card(connection, vm):
            continue
        shared = read.shared_folders(connection) if shared is None else shared
        card = card_of(connection, dom, vm, shared)
        if card is not None:
            elsewhere = " or ".join(card.hosts) or "another member of its cell"
            entries[vm.uuid]["leftover"] = elsewhere
    return leftover.warnings(caller.host(), entries.values())


def card_of(
    connection: Connection, dom: VirDomain, vm: ReadVm, shared: t.Mapping[str, str]
) -> Card | None:
    """The card of the VM, if what this hypervisor has is a leftover of it. ``shared`` are the
    folders of shared pools."""
    if _kept_by_itself(connection, dom, vm, shared) is not None:
        return None
    files = read.cards_named(connection, sorted(set(shared.values())), vm.name)
    cards = [file.card for file in files if file.card is not None and file.card.uuid == vm.uuid]
    if len(cards) != 1 or caller.host() in cards[0].hosts:
        return None
    if read.this_host(connection).was_called(cards[0]) and not _is_in_cell(vm):
        return None
    if _kept_by_card(connection, vm, cards[0]):
        return None
    return cards[0]


def hindrance(
    connection: Connection,
    dom: VirDomain,
    vm: ReadVm,
    shared: t.Mapping[str, str],
    card: Card,
    renamed: t.Collection[str] = (),
) -> str | None:
    """Why the definition is no leftover of the VM that ``card`` describes and that another
    hypervisor had; None if it is one, as :func:`card_of` decides it too. ``renamed`` are names that
    disks of the VM have got since.

    A leftover is shut off, without saved memory, snapshots and work begun on it, and its disks all
    have other names, or a cell runs it. A move is no such work if it died with this hypervisor:
    the VM has been restarted since, and could not have been before its two ends were proven off;
    or its cell knows how to define it again, whatever the run was to change.
    """
    if vm.uuid != card.uuid or vm.name != card.name:
        return f"it is called {vm.name!r} there"
    return _kept_by_itself(connection, dom, vm, shared, renamed) or _kept_by_card(
        connection, vm, card
    )


def _kept_by_itself(
    connection: Connection,
    dom: VirDomain,
    vm: ReadVm,
    shared: t.Mapping[str, str],
    renamed: t.Collection[str] = (),
) -> str | None:
    """What of the definition says that it is no leftover, whatever its card says."""
    if vm.active:
        return "it runs"
    if connection.call(f"read the saved memory of {vm.name}", dom.hasManagedSaveImage, 0):
        discard = f"virsh managedsave-remove {quote(vm.name)}"
        return f"of its time there memory is saved ({discard} discards that)"
    stored = metadata.parse(read.root(vm))
    if stored is not None and stored.broken is not None:
        return "its metadata cannot be read"
    if stored is not None and _is_at_work(stored):
        return f"it is in phase {stored.phase}"
    if keep.place(read.root(vm), shared) is None:
        return "its disks are not all on shared storage that is mounted"
    # before cards are looked for: nearly all that are shut off have their disks
    present = [] if _is_in_cell(vm) else read.present_disks(connection, vm)
    disks = [path for path in present if path not in renamed]
    if disks:
        return f"its disks are there: {', '.join(disks)}"
    if connection.call(f"count the snapshots of {vm.name}", dom.snapshotNum, 0):
        return "it has snapshots"
    return None


def _kept_by_card(connection: Connection, vm: ReadVm, card: Card) -> str | None:
    """What of the card says that the definition is no leftover."""
    if _is_in_cell(vm):
        elsewhere = keep.is_elsewhere(card, read.this_host(connection))
        return None if elsewhere else "by its card the VM is there, or no more its cell's"
    stored = metadata.parse(read.root(vm))
    if stored is not None and stored.phase is not None and not card.counter:
        return f"it is in phase {stored.phase}, and was not restarted since"
    return None


def _is_in_cell(vm: ReadVm) -> bool:
    stored = metadata.parse(read.root(vm))
    return stored is not None and stored.in_cell


def restarted(connection: Connection, name: str, ends: t.Collection[str]) -> Card | None:
    """The only card of a VM of that name, if it was restarted on another hypervisor than the two
    ``ends`` of a move that died with them, or is its cell's to restart."""
    if not read.concerns(connection):
        return None
    folders = sorted(set(read.shared_folders(connection).values()))
    cards = [file.card for file in read.cards_named(connection, folders, name)]
    card = cards[0] if len(cards) == 1 else None
    if card is None or {*card.hosts} & {*ends}:
        return None
    return card if card.counter or not card.hosts else None


def _is_at_work(stored: metadata.Metadata) -> bool:
    """Whether work on the VM was begun that may go on. A dead move may not, nor may any dead run on
    a VM of a cell; one that made or removed the VM only if its hypervisor was restarted since."""
    owner = stored.owner
    if stored.phase is None:
        return False
    if owner is not None and processes.is_same(owner.boot_id, owner.pid, owner.start_time):
        return True
    if stored.phase == keep.MIGRATING:
        return False
    if owner is None or not stored.in_cell:
        return True
    return stored.phase in keep.NO_VM and owner.boot_id == processes.boot_id()
