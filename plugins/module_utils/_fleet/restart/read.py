# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading cards, and what decides whether this hypervisor can run the VM of one."""

from __future__ import annotations

import os
import typing as t

from ..._errors import PlanRefused
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..._lxml import parse
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..cards import read_cards, read_vms
from ..cards.card import Card, CardFile, CardName, disk_files
from ..fencing.read_silence import sign_of_life
from ..hosts import domain_info, host_info, read_cell, read_noted, read_secrets
from ..hosts import read_placement_facts as placement_facts
from ..state import read_start_blockers, start_needs
from ..storage import read_file_users as file_users
from ..storage.read_file_users import References
from . import definition, plan
from .facts import CardEntry, CellCard, RestartLook
from .options import RestartOptions
from .plan import RestartFacts

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..placement.facts import SeenHost

_SECONDS = 60.0  # to read what is in a folder, which may be on a mount that hangs


@dataclass(frozen=True)
class Here:
    """This hypervisor: its name in the inventory, the folders of storage that is shared, all cards
    there, who uses files, its machine types, and the secrets that it has."""

    name: str
    folders: frozenset[str]
    files: tuple[CardFile, ...]
    references: References
    machine_types: tuple[str, ...]
    secrets: tuple[str, ...] | None


def read_here(connection: Connection) -> Here:
    """Read all that the facts of each VM need."""
    shared = read_vms.shared_folders(connection)
    files = [
        file
        for folder in sorted(set(shared.values()))
        for file in _in_folder(folder, lambda _at: True)
    ]
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    secrets = read_secrets.known(connection)
    return Here(
        caller.host(),
        frozenset(shared),
        tuple(files),
        file_users.read(connection),
        tuple(host_info.capabilities(text)["machines"]),
        None if secrets is None else tuple(secrets),
    )


def _in_folder(folder: str, wanted: t.Callable[[CardName], bool]) -> list[CardFile]:
    def load() -> list[CardFile]:
        return read_cards.load_all(folder, wanted)

    return deadline.call(load, seconds=_SECONDS, what=f"read the cards in {folder}")


def look(connection: Connection, options: RestartOptions) -> RestartLook:
    """What this hypervisor sees of the VMs of the one that should be off. Changes nothing."""
    here = read_here(connection)
    old, names = options["host"], options["names"]
    wanted = [
        file
        for file in here.files
        if not {*old}.isdisjoint(file.at.hosts) and (not names or file.at.name in names)
    ]
    host = placement_facts.read(connection, options["base_pool"], options["base_path"])
    return {
        "changed": False,
        "host": t.cast("SeenHost", host),  # all that placement knows, and more than is checked
        "cards": [
            _entry(connection, file, file.card, here, old)
            for file in wanted
            if file.card is not None
        ],
        "unread": [file.problem for file in wanted if file.card is None],
        "in_cells": _in_cells(connection, here.files, names),
        "noted": None if names else read_noted.of_silent(connection, old),
        "sign": sign_of_life(options["addresses"] or old, options["ports"]),
    }


def _in_cells(
    connection: Connection, files: t.Iterable[CardFile], names: t.Collection[str]
) -> list[CellCard]:
    """The VMs that a cell restarts, those of ``names`` if there are any."""
    seen = read_cell.view(connection)
    vms = seen.vms if seen else {}
    entries: list[CellCard] = []
    for file in files:
        if file.at.hosts or file.card is None or (names and file.at.name not in names):
            continue
        known = seen if file.card.uuid in vms else None
        entries.append(
            {
                "name": file.at.name,
                "cell": known.cell if known else None,
                "quorate": bool(known and known.quorate),
                "unclean": sorted(known.unclean) if known else [],
            }
        )
    return entries


def _entry(
    connection: Connection, file: CardFile, card: Card, here: Here, old: t.Sequence[str]
) -> CardEntry:
    facts = facts_of(connection, file, here, old)
    info = domain_info.from_root(card.root, card.stored)
    needs = start_needs.of_definition(card.root)
    made = plan.take_over(facts)
    return {
        "name": card.name,
        "uuid": card.uuid,
        "hosts": [*card.hosts],
        "running": card.running,
        "defined": facts.is_defined or _is_active(connection, card),
        # which process uses a disk is known only once the other is off
        "problems": [reason for reason in made.refusals if reason not in plan.locks(facts)]
        if facts.new in card.hosts or {*card.hosts} <= {*old}
        else [],
        "locked": [*facts.locked],
        "vcpus": int(info["vcpus_max"] or 1),
        "memory_mib": int(info["memory_max_mib"] or 0),
        "domain_type": info["domain_type"],
        "arch": info["arch"],
        "bridges": [*needs.bridges],
        "networks": [*needs.networks],
        "nwfilters": [*needs.nwfilters],
        "vsock": needs.vsock,
        "disks": [{"path": path, "bytes": 1} for path in card.disks],
        "groups": [*card.stored.groups],
        "macs": [str(mac.get("address")) for mac in card.root.iterfind("devices/interface/mac")],
        "affinity": [*card.stored.affinity],
        "anti_affinity": [*card.stored.anti_affinity],
        "tags": [*card.stored.tags],
        "zone": card.stored.zone,
    }


def _is_active(connection: Connection, card: Card) -> bool:
    dom = find_domain(connection, card.name)
    if dom is None or str(dom.UUIDString()) != card.uuid:
        return False
    return bool(connection.call(f"read whether {card.name} runs", dom.isActive))


def card_of(file: CardFile) -> Card:
    """The card; raises PlanRefused for one that cannot be read."""
    if file.card is None:
        raise PlanRefused(f"{file.problem}; a card that cannot be read is none")
    return file.card


def facts_of(
    connection: Connection, file: CardFile, here: Here, old: t.Sequence[str]
) -> RestartFacts:
    """What there is of the VM of a card that was read."""
    card = card_of(file)
    paths = card.disks
    targets = [plan.disk_name(path, card.counter + 1) for path in paths]

    def look_at_files() -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
        files = frozenset(path for path in (*paths, *targets) if os.path.lexists(path))
        linked = frozenset(
            target
            for path, target in zip(paths, targets)
            if path in files and target in files and os.path.samefile(path, target)
        )
        locked = tuple(path for path in sorted(files) if file_users.is_locked(path))
        return files, linked, locked

    files, linked, locked = deadline.call(
        look_at_files, seconds=_SECONDS, what=f"look at the disks of {card.name}"
    )
    dom = find_domain(connection, card.name)
    defined: tuple[str, ...] | None = None
    phase, others, at_boot = None, [], False
    if dom is not None and str(dom.UUIDString()) == card.uuid:
        text = connection.call(f"read domain {card.name}", dom.XMLDesc, DOMAIN_XML_INACTIVE)
        named = disk_files(parse(text, f"domain {card.name}")) or ()
        defined = tuple(path for path in named if path)
        active = connection.call(f"read whether {card.name} runs", dom.isActive)
        if not {*defined}.isdisjoint({*paths, *targets}):
            stored = read_metadata(connection, dom)
            phase = None if stored is None else stored.phase
            at_boot = bool(connection.call(f"read autostart of {card.name}", dom.autostart))
            locked = () if active else locked  # by itself
        elif active:
            others.append("it runs there, with disks that are not its card's; stop that first")
        elif connection.call(f"read the saved memory of {card.name}", dom.hasManagedSaveImage, 0):
            others.append(
                "of its time there memory is saved, which fits no longer; if nobody needs that,"
                f" remove it: virsh managedsave-remove {card.name}"
            )
    elif dom is not None:
        others.append(f"{here.name} has another VM of that name, with another UUID")
    return RestartFacts(
        name=card.name,
        old=tuple(old),
        new=here.name,
        hosts=card.hosts,
        counter=card.counter,
        paths=paths,
        files=files,
        linked=linked,
        defined=defined,
        autostart=card.autostart,
        starts_at_boot=at_boot,
        phase=phase,
        blockers=tuple(
            f"{card.name!r} cannot run on {here.name}: {problem}"
            for problem in [*others, *_blockers(connection, card, here, files)]
        ),
        locked=locked,
    )


def _blockers(
    connection: Connection, card: Card, here: Here, files: t.Collection[str]
) -> list[str]:
    problems = definition.blockers(card, here.folders)
    present = {
        path: path if path in files else plan.disk_name(path, card.counter + 1)
        for path in card.disks
    }
    root = ready(connection, definition.with_disks(card.root, present))
    problems += read_start_blockers.of_root(connection, root)
    for path in present.values():
        for user in here.references.users(path):
            if user.uuid != card.uuid:
                problems.append(f"{path} is needed by others: {user.text}")
    for other in here.files:
        if other.card is not None and other.card.uuid != card.uuid:
            shared = sorted({*other.card.disks} & {*card.disks, *present.values()})
            problems += [f"{path} is a disk of {other.card.name!r} too" for path in shared]
        elif other.card is not None and other.at != card.at:
            problems.append(f"it has another card, {other.path}; see which of them is current")
    machine = root.find("os/type")
    kind = None if machine is None else machine.get("machine")
    if kind is not None and here.machine_types and kind not in here.machine_types:
        problems.append(f"its QEMU has no machine type {kind!r}")
    for secret in definition.secrets_of(root):
        if here.secrets is not None and secret not in here.secrets:
            problems.append(
                f"libvirt's secret {secret} is not on it; define it there, with its value"
            )
    if card.snapshots:
        problems.append(
            f"it has {len(card.snapshots)} snapshots, which cannot be restarted elsewhere yet"
        )
    return list(dict.fromkeys(problems))


def ready(connection: Connection, root: Element) -> Element:
    """The definition for this libvirt, with drives that may start empty where their media are not
    here."""

    def look_at_media() -> list[str]:
        return [path for path in definition.media_of(root) if not os.path.exists(path)]

    missing = deadline.call(look_at_media, seconds=_SECONDS, what="look at media")
    version = connection.call("read libvirt's version", connection.conn.getLibVersion)
    return definition.for_libvirt(definition.without_media(root, missing), version)
