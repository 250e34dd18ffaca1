# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which card a VM is to have, from what its hypervisor says of it."""

from __future__ import annotations

import dataclasses
import posixpath
import typing as t

from ... import _lxml
from ..._errors import PlanRefused
from ..._records import dataclass
from ..base import metadata
from ..base.metadata import Metadata
from ..base.names import CARD, command_on, playbook_command
from .card import Card, CardFile, CardName, disk_files

if t.TYPE_CHECKING:
    from ..._lxml import Element

MIGRATING = "migrating"


@dataclass(frozen=True)
class Self:
    """This hypervisor: its name in the caller's inventory, and its machine's UUID, None if that is
    not known."""

    name: str
    machine: str | None = None

    def was_called(self, card: Card) -> str | None:
        """By which other name the card means this hypervisor; None if it does not. One that names
        two, of a move, is ended under the names that it has."""
        if self.machine is None or card.machine != self.machine:
            return None
        names = card.hosts or tuple(filter(None, [card.kept_by]))
        return names[0] if len(names) == 1 and names != (self.name,) else None


# Of these there is nothing to restart: not complete yet, or no longer
NO_VM = ("creating", "purging")


@dataclass(frozen=True)
class ReadVm:
    """A VM as libvirt has it; ``snapshots`` are their documents, parents first."""

    name: str
    uuid: str
    definition: str
    active: bool
    autostart: bool
    snapshots: tuple[str, ...] = ()
    current: str | None = None


def folders_of(domain: Element) -> list[str]:
    """The folders of its disks, the first disk's first; empty if one is not a file, or none is
    there."""
    files = disk_files(domain) or ()
    folders = [posixpath.dirname(path) if path and path[0] == "/" else "" for path in files]
    return [] if "" in folders else list(dict.fromkeys(folders))


def place(domain: Element, shared: t.Mapping[str, str]) -> str | None:
    """The folder of the card: that of the first disk, if all disks are in shared pools.

    ``shared`` has the folders of these pools by the disks' folders, which may be named otherwise.
    """
    folders = folders_of(domain)
    if not folders or any(folder not in shared for folder in folders):
        return None
    return shared[folders[0]]


def card_of(vm: ReadVm, host: Self, counter: int = 0) -> Card | None:
    """The card of a VM on ``host``, None if it is to have none.

    The marks of a run at work are not in it: who restarts the VM elsewhere is another run.
    """
    root = _lxml.parse(vm.definition, f"domain {vm.name}")
    stored = metadata.parse(root)
    if stored is not None and (stored.phase in NO_VM or stored.broken):
        return None
    hosts: tuple[str, ...] = (host.name,)
    running, autostart, kept_by = vm.active, vm.autostart, None
    if stored is not None and stored.phase == MIGRATING and stored.move is not None:
        move = stored.move
        hosts = (move.source, move.destination)
        running, autostart = move.state == "running", move.autostart == "yes"
    if stored is not None and stored.in_cell:
        hosts, kept_by = (), None if running else host.name
    definition = without_marks(root, stored)
    at = CardName(vm.name, hosts)
    return Card(
        *(at, vm.uuid, definition, running, autostart, vm.snapshots, vm.current),
        counter=counter,
        kept_by=kept_by,
        machine=host.machine,
    )


def decide(
    files: t.Sequence[CardFile],
    vm: ReadVm | None,
    own: t.Collection[str | None],
    host: Self,
    disks: t.Collection[str] = (),
    *,
    sure: bool = False,
) -> tuple[list[CardFile], Card | None]:
    """The cards among ``files`` that are of the VMs with the UUIDs ``own`` on ``host``, and
    the only one that is to be there; ``vm`` is the VM if it may have a card, ``disks`` are those of
    its disks that exist.

    A card of this hypervisor and another is this one's after a move that was undone. While the VM
    is being restarted elsewhere it is not: its disks have other names by then, in the card or only
    in their folder. A card of a VM that a cell runs is that of whoever runs it, or keeps it while
    it is off; ``sure``: that is this hypervisor. A card that means this hypervisor by another name
    is its own if it names the disks that the definition here names.

    Raises PlanRefused where a card says that the VM is another, or another hypervisor's.
    """
    known = [
        file
        for file in files
        if host.name in file.at.hosts or not file.at.hosts or _is_renamed(file, host, vm, disks)
        if _uuid(file) in own and not _is_leaving(file, host.name, disks)
    ]
    cards = [file.card for file in known if file.card is not None]
    counter = max((card.counter for card in cards), default=0)
    wanted = None if vm is None else card_of(vm, host, counter)
    if wanted is None:
        return known, None
    if vm is not None and not (sure or vm.active):
        for card in cards:
            if is_elsewhere(card, host):
                raise PlanRefused(
                    f"by {card.at.file} the VM is its cell's, and what {host.name} has is a"
                    " leftover, which the cell removes"
                )
    if len(wanted.hosts) > 1 and cards:  # a move has libvirt forget the snapshots for a while
        kept = cards[0]
        wanted = dataclasses.replace(wanted, snapshots=kept.snapshots, current=kept.current)
    for file in files:
        if file in known:
            continue
        if file.at == wanted.at and file.card is None:
            known.append(file)  # it cannot be read, and is written anew
        elif file.at == wanted.at:
            raise PlanRefused(
                f"{file.path} is that of another VM, {_uuid(file)}; remove it if that is gone"
            )
        elif _uuid(file) == wanted.uuid:
            where = file.at.hosts[-1] if file.at.hosts else "its cell"
            raise PlanRefused(
                f"by {file.path} the VM is on {where}, so {host.name} writes no card of it; if"
                f" {where} has no such VM and no disk of it has another name, remove that file"
            )
    return known, wanted


def is_elsewhere(card: Card, host: Self) -> bool:
    """Whether a definition that is shut off on ``host`` is none that the card, of a VM of a cell,
    means."""
    kept_here = card.kept_by == host.name or host.was_called(card) is not None
    return not card.hosts and (card.running or not kept_here)


def _is_renamed(file: CardFile, host: Self, vm: ReadVm | None, disks: t.Collection[str]) -> bool:
    """Whether it is a card of this hypervisor from when the inventory called it otherwise. Machines
    may share a UUID that should be their own, so the disks have to be here as the card says."""
    if file.card is None or host.was_called(file.card) is None:
        return False
    return vm is None or set(file.card.disks) <= set(disks)


def _is_leaving(file: CardFile, host: str, disks: t.Collection[str]) -> bool:
    """Whether it is the card of a VM that another hypervisor restarts, whose disks are no more
    those that the definition here names."""
    leaving = host in file.at.hosts[:-1]
    return leaving and (file.card is None or not set(file.card.disks) <= set(disks))


def _uuid(file: CardFile) -> str | None:
    return file.card.uuid if file.card is not None else None


def without_marks(root: Element, stored: Metadata | None) -> str:
    """The definition with these metadata, but for what a run at work notes."""
    if stored is not None:
        metadata.put(root, dataclasses.replace(stored, phase=None, owner=None, move=None))
    return _lxml.tostring(root)


def moved(card: Card, destination: Self, definition: str) -> Card:
    """The card of a VM that has arrived on ``destination``, where it has that definition."""
    card = dataclasses.replace(card, definition=definition, machine=destination.machine)
    if not card.hosts:
        kept_by = None if card.running else destination.name
        return dataclasses.replace(card, kept_by=kept_by)
    return dataclasses.replace(card, at=card.at.on(destination.name))


def not_there(path: str, at: CardName, host: str) -> str:
    """That ``host`` has no VM of the card in the file ``path``, which names it alone, and what can
    be done. A machine that was reinstalled cannot be told from one whose VM was undefined by
    hand, and what it was before may still run: so a person says it, by a name of its own."""
    before = f"{host}-old"
    renamed = f"{posixpath.dirname(path)}/{at.name}@{before}{CARD}"
    again = playbook_command(
        "restart_elsewhere", virt_host=before, virt_fenced=before, vm_name=at.name
    )
    return (
        f"{path}: by this card {host} has the VM {at.name!r}, which it has not; if the VM is gone"
        f" for good, remove that file; if {host} was reinstalled, or replaced, and the machine"
        f" from before runs no more, call that {before}:"
        f" {command_on(host, 'mv', '-n', path, renamed)}, add {before} to the hypervisors of the"
        f" inventory, with no address that answers, and run {again}"
    )
