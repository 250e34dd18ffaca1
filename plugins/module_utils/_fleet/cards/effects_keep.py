# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeping the cards of this hypervisor's VMs in step with what libvirt has.

A card is made from the VM as it is read, under a lock, after whatever was done to it: so the last
to write a card has read the VM last, whichever runs were at work, and doing it again changes
nothing. A hypervisor without shared storage asks libvirt nothing for it.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ... import _lxml
from ..._errors import FleetVirtError, PlanRefused, XmlError
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, find_uuid, list_domains
from ..base.names import playbook_command
from . import effects_cards as effects
from . import effects_leftover, keep, read_cards
from . import read_vms as read
from .card import Card, CardFile, CardName, text_of
from .facts import CardEntry

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.metadata import Metadata


def keep_cards(
    connection: Connection, names: t.Sequence[str], uuid: str | None = None, *, sure: bool = False
) -> None:
    """Have the cards of the VM with these names, the present one first, be as the VM is, and remove
    those of ``uuid`` if it is no longer here, or is to have none.

    Raises PlanRefused, saying which card is not as it should be. A card of which no VM is here, and
    was none in this run, stays: it may be one that is being restarted here. ``sure`` as for
    :func:`keep.decide`.
    """
    if not read.concerns(connection):
        return
    for name in dict.fromkeys(names):
        try:
            with effects.lock():
                due = _due(connection, name, uuid, sure=sure)
                if due is None:
                    return
                connection.call(f"write the card of {name}", _write, due)
        except (FleetVirtError, OSError) as error:
            raise PlanRefused(_failed(name, error)) from None


def _failed(name: str, error: Exception) -> str:
    return (
        f"the card of {name!r} on shared storage, from which it could be restarted elsewhere, is"
        f" not up to date: {error}. Fix the cause, then run {playbook_command('repair_vms')}"
    )


class _Due(t.NamedTuple):
    """That ``wanted``, in ``folder``, should be the only one of the cards that are ``known``."""

    folder: str | None
    wanted: Card | None
    known: t.Sequence[CardFile]


def _due(
    connection: Connection,
    name: str,
    uuid: str | None,
    shared: t.Mapping[str, str] | None = None,
    host: keep.Self | None = None,
    *,
    sure: bool = False,
) -> _Due | None:
    """What the VM's cards should be; None if it has nothing to do with them. ``shared`` are the
    folders of shared pools and ``host`` this hypervisor, where they were read already."""
    dom = find_domain(connection, name)
    vm = None if dom is None else read.vm_of(connection, dom)
    if vm is None and uuid is None:
        return None
    if vm is not None and not read.may_have_card(connection, vm):
        return None
    shared = read.shared_folders(connection) if shared is None else shared
    folder = None if vm is None else keep.place(read.root(vm), shared)
    cards = read.cards_named(connection, sorted(set(shared.values())), name)
    own = {vm.uuid if vm is not None else None, uuid} - {None}
    if dom is not None and vm is not None and folder is not None:
        vm = read.with_snapshots(connection, dom, vm)
    if vm is None:
        # of a VM that left this hypervisor meanwhile, a card that names another one too is not its
        # own, nor is that of a cell's unless the VM has another name here now
        own_hosts = (1,) if uuid is None or find_uuid(connection, uuid) is None else (0, 1)
        cards = [file for file in cards if len(file.at.hosts) in own_hosts]
    disks = [] if vm is None else read.present_disks(connection, vm)
    placed = vm if folder is not None else None
    host = read.this_host(connection) if host is None else host
    known, wanted = keep.decide(cards, placed, own, host, disks, sure=sure)
    return _Due(folder, wanted, known)


def _is_done(due: _Due) -> bool:
    """Whether the cards are as they should be. That the machine has another UUID now is no reason
    to write one: where the firmware has none, each start of the daemon makes one up."""
    text = None if due.wanted is None else _text(due.wanted)
    if due.wanted is None or text is None:
        return not due.known
    here = [
        file.card is not None
        and (file.folder, file.at) == (due.folder, due.wanted.at)
        and text_of(_with_machine_of(file.card, due.wanted)) == text
        for file in due.known
    ]
    return here == [True]


def _with_machine_of(card: Card, wanted: Card) -> Card:
    return dataclasses.replace(card, machine=wanted.machine) if card.machine else card


def _write(due: _Due) -> None:
    folder, wanted, left = due.folder, due.wanted, list(due.known)
    text = None if wanted is None else _text(wanted)
    if folder is not None and wanted is not None and text is not None:
        there = [file for file in left if file.folder == folder]
        same = [file for file in there if file.at == wanted.at]
        if not same and there:  # a VM is never without its card while it moves
            effects.take(folder, there[0].at, wanted.at, there[0].identity)
            left.remove(there[0])
        if not same or same[0].card is None or text_of(same[0].card) != text:
            effects.write(folder, wanted)
        left = [file for file in left if file not in same]
    for file in left:
        effects.remove(file.folder, file.at)


def _text(card: Card) -> str | None:
    """The card's content, None for a VM that can have none: of too many snapshots, or with a name
    that no file has."""
    try:
        return text_of(card)
    except XmlError:
        return None


# --- repair ---


def lacking(connection: Connection, names: t.Collection[str] = ()) -> list[CardEntry]:
    """The VMs of this hypervisor, or those of ``names``, whose cards are not as they should be, and
    the cards that name a VM which it does not have. Changes nothing."""
    if not read.concerns(connection):
        return []
    there = sorted(str(dom.name()) for dom in list_domains(connection))
    shared = read.shared_folders(connection)  # once, and not for each VM
    host = read.this_host(connection)
    entries: list[CardEntry] = []
    for name in there:
        if names and name not in names:
            continue
        try:
            disks = effects_leftover.disks_of(connection, name, shared)
            due = None if disks is not None else _due(connection, name, None, shared, host)
        except (FleetVirtError, OSError) as error:
            entries.append({"name": name, "problem": _failed(name, error), "leftover": None})
            continue
        if disks is not None or (due is not None and not _is_done(due)):
            entry: CardEntry = {"name": name, "problem": None, "leftover": disks}
            called = [] if due is None else [_called(host, file) for file in due.known]
            if any(called):
                entry["called"] = next(filter(None, called))
            entries.append(entry)
    return entries + _without_vm(connection, shared, there, names)


def _called(host: keep.Self, file: CardFile) -> str:
    """What the card calls this hypervisor, if that is not its name now."""
    return (None if file.card is None else host.was_called(file.card)) or ""


def _without_vm(
    connection: Connection,
    shared: t.Mapping[str, str],
    there: t.Collection[str],
    names: t.Collection[str],
) -> list[CardEntry]:
    """Cards of this hypervisor alone that name a VM which it does not have."""
    folders = sorted(set(shared.values()))
    here = caller.host()

    def look() -> list[tuple[CardName, str]]:
        return [
            (at, f"{folder}/{at.file}")
            for folder in folders
            for at in read_cards.names(folder)
            if at.hosts == (here,) and at.name not in there
            if not names or at.name in names
        ]

    return [
        {
            "name": at.name,
            "problem": keep.not_there(path, at, here),
            "leftover": None,
            "stray": path,
        }
        for at, path in connection.call("look for cards without a VM", look)
    ]


def repair(connection: Connection, names: t.Iterable[str], *, check: bool) -> list[CardEntry]:
    """Have the cards of these VMs be as they should be, and remove leftovers; says of each that
    is."""
    entries: list[CardEntry] = []
    for name in dict.fromkeys(names):
        problem, cleared = None, list[CardEntry]()
        try:
            cleared = clear_leftovers(connection, [name], check=check)
            if not check and not cleared:
                keep_cards(connection, [name])
        except FleetVirtError as error:
            problem = str(error)
        entries += cleared or [{"name": name, "problem": problem, "leftover": None}]
    return entries


def clear_leftovers(
    connection: Connection, names: t.Iterable[str], *, check: bool
) -> list[CardEntry]:
    """Remove what is left of these VMs; those of which anything was, or would be, removed."""
    entries: list[CardEntry] = []
    for name in dict.fromkeys(names):
        with effects.lock():
            disks = effects_leftover.remove(connection, name, check=check)
        if disks is not None:
            entries.append({"name": name, "problem": None, "leftover": disks})
    return entries


# --- moves ---


def arrive(
    connection: Connection,
    remote: Connection,
    dom: VirDomain,
    stored: Metadata,
    destination: str,
    *,
    copied: bool,
) -> None:
    """The VM ``dom`` on ``remote`` has arrived there, with these metadata from now on: its card is
    the destination's, or removed if its disks were ``copied`` to pools that are not this one's.

    To be called before anything of the VM is removed here.
    """
    if not read.concerns(connection):
        return
    name, uuid, here = str(dom.name()), str(dom.UUIDString()), caller.host()
    try:
        to = read.host_of(remote, destination)
        with effects.lock():
            folders = sorted(set(read.shared_folders(connection).values()))
            for file in read.cards_named(connection, folders, name):
                ours = here in file.at.hosts or file.at.hosts in ((), (destination,))
                if file.card is None or file.card.uuid != uuid or not ours:
                    continue
                if copied:
                    connection.call("remove the card", effects.remove, file.folder, file.at)
                    continue
                text = remote.call(f"read domain {name}", dom.XMLDesc, DOMAIN_XML_INACTIVE)
                definition = keep.without_marks(_lxml.parse(str(text), f"domain {name}"), stored)
                card = keep.moved(file.card, to, definition)
                connection.call("hand over the card", _hand_over, file, card)
    except (FleetVirtError, OSError) as error:
        raise PlanRefused(_failed(name, error)) from None


def _hand_over(file: CardFile, card: Card) -> None:
    if file.at != card.at:
        effects.take(file.folder, file.at, card.at, file.identity)
    effects.write(file.folder, card)
