# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading cards, and what decides whether this hypervisor can run the VM of one."""

from __future__ import annotations

import dataclasses
import functools
import os
import stat
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base import metadata
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, find_uuid
from ..cards import read_cards, read_leftovers, read_vms
from ..cards.card import Card, CardFile, CardName, disk_files
from ..fencing import effects_heard
from ..fencing.read_silence import listen
from ..hosts import domain_info, host_info, read_cell, read_noted, read_rolling, read_secrets
from ..hosts import read_placement_facts as placement_facts
from ..state import read_start_blockers
from ..storage import host_names, nfs_options, read_data_files
from ..storage import read_file_systems as file_systems
from ..storage import read_file_users as file_users
from ..storage.read_file_users import References
from . import definition, named, plan
from .facts import CardEntry, CellCard, RestartLook
from .options import RestartOptions
from .plan import RestartFacts

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..cell.facts import CellView
    from ..placement.facts import SeenHost

_SECONDS = 60.0  # to read what is in a folder, which may be on a mount that hangs


@dataclass(frozen=True)
class Here:
    """This hypervisor: its name in the inventory, the folders of storage that is shared, under all
    their names, which cards are there, those of them that were read, who uses files if that was
    read, its machine types, the secrets that it has, and the folders of its base images."""

    name: str
    folders: t.Mapping[str, str]
    listed: tuple[CardName, ...]
    files: tuple[CardFile, ...]
    references: References | None
    machine_types: tuple[str, ...]
    secrets: tuple[str, ...] | None
    machine: str | None = None
    bases: tuple[str, ...] = ()

    @property
    def places(self) -> named.Places:
        """Where files may be that a card names."""
        return named.Places(frozenset(self.folders), frozenset(self.bases))

    @functools.cached_property
    def _by_key(self) -> dict[str, list[CardFile]]:
        """The cards that were read by name, by UUID and by the disks that they name."""
        keys: dict[str, list[CardFile]] = {}
        for file in self.files:
            of = [] if file.card is None else [file.card.uuid, *file.card.disks]
            for key in dict.fromkeys((file.at.name, *of)):
                keys.setdefault(key, []).append(file)
        return keys

    def others(self, file: CardFile, *keys: str) -> list[CardFile]:
        """The cards but this one with one of these names, UUIDs and disks."""
        others = [other for key in keys for other in self._by_key.get(key, ())]
        return list({other.path: other for other in others if other.path != file.path}.values())


def read_off(connection: Connection, options: RestartOptions) -> Here:
    """Read what tells which VMs of those that are off could run here. Of all cards only those are
    opened that name one of these, or have the name of one that does: all hypervisors look at
    the same time, and each card that one opens is a request to the storage that they share."""
    off, names = options["host"], options["names"]

    def chosen(listed: t.Sequence[CardName]) -> t.Callable[[CardName], bool]:
        of_them = {at.name for at in listed if _names_one(at, off)}
        in_cells = {*names}
        return lambda at: at.name in of_them or (not at.hosts and at.name in in_cells)

    return _read(connection, options, chosen)


def read_all(connection: Connection, options: RestartOptions) -> Here:
    """Read all that the facts of each VM need before it is taken over, once: every card, since any
    may name one of its disks, and every image."""
    here = _read(connection, options, lambda _listed: lambda _at: True)
    return dataclasses.replace(here, references=file_users.read(connection))


def read_named(connection: Connection, options: RestartOptions) -> Here:
    """Read what the facts of VMs need that were taken over."""
    names = frozenset(options["names"])
    return _read(connection, options, lambda _listed: lambda at: at.name in names)


def _read(
    connection: Connection,
    options: RestartOptions,
    chosen: t.Callable[[t.Sequence[CardName]], t.Callable[[CardName], bool]],
) -> Here:
    pools = file_users.read_pools(connection)
    file_users.require_present(pools)
    base = pools.get(options["base_pool"])
    shared = read_vms.shared_folders(connection)
    folders = sorted(set(shared.values()))
    distinct = deadline.call(
        lambda: read_cards.distinct(folders), seconds=_SECONDS, what="look at the shared pools"
    )
    listed = {folder: _listed(folder) for folder in distinct}
    wanted = chosen([at for ats in listed.values() for at in ats])
    files = [
        file
        for folder, ats in listed.items()
        for file in _in_folder(folder, [at for at in ats if wanted(at)])
    ]
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    secrets = read_secrets.known(connection)
    return Here(
        caller.host(),
        shared,
        tuple(at for ats in listed.values() for at in ats),
        tuple(files),
        None,
        tuple(host_info.capabilities(text)["machines"]),
        None if secrets is None else tuple(secrets),
        read_vms.this_host(connection).machine,
        (options["base_path"], *([base.path] if base is not None and base.path else [])),
    )


def _names_one(at: CardName, hosts: t.Iterable[str]) -> bool:
    return not {*hosts}.isdisjoint(at.hosts)


def _listed(folder: str) -> list[CardName]:
    what = f"list the cards in {folder}"
    return deadline.call(lambda: read_cards.names(folder), seconds=_SECONDS, what=what)


def _in_folder(folder: str, wanted: t.Sequence[CardName]) -> list[CardFile]:
    def load() -> list[CardFile]:
        return read_cards.load_those(folder, wanted)

    if not wanted:
        return []
    return deadline.call(load, seconds=_SECONDS, what=f"read the cards in {folder}")


def look(connection: Connection, options: RestartOptions) -> RestartLook:
    """What this hypervisor sees of the VMs of the one that should be off. Changes nothing."""
    old, names = options["host"], options["names"]
    here = read_off(connection, options)
    # a second card of a VM that is named may have another name
    wanted = [
        file
        for file in here.files
        if _names_one(file.at, old)
        and (
            not names or file.at.name in names or (file.card and here.others(file, file.card.uuid))
        )
    ]
    heard = listen(options["addresses"] or old, options["ports"], effects_heard.volumes())
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
        "in_cells": _in_cells(connection, here, names),
        "noted": None if names else read_noted.of_silent(connection, old),
        "sign": heard.sign,
        "signs": {**heard.signs},
        "audible": [*heard.audible],
    }


def _in_cells(connection: Connection, here: Here, names: t.Collection[str]) -> list[CellCard]:
    """The VMs that a cell restarts, those of ``names`` with what the cell says, if there are any;
    else their names are all that matters, and no card of theirs was opened."""
    if not names:
        return [_of_cell(at.name, None) for at in here.listed if not at.hosts]
    seen = read_cell.view(connection)
    vms = seen.vms if seen else {}
    return [
        _of_cell(file.at.name, seen if file.card.uuid in vms else None)
        for file in here.files
        if not file.at.hosts and file.card is not None and file.at.name in names
    ]


def _of_cell(name: str, known: CellView | None) -> CellCard:
    return {
        "name": name,
        "cell": known.cell if known else None,
        "quorate": bool(known and known.quorate),
        "unclean": sorted(known.unclean) if known else [],
    }


def _entry(
    connection: Connection, file: CardFile, card: Card, here: Here, old: t.Sequence[str]
) -> CardEntry:
    facts = facts_of(connection, file, here, old)
    info = domain_info.from_root(card.root, card.stored)
    needs = host_names.of_definition(card.root)
    made = plan.take_over(facts)
    entry: CardEntry = {
        "name": card.name,
        "uuid": card.uuid,
        "path": file.path,
        "identity": file.identity,
        "hosts": [*card.hosts],
        "running": card.running,
        "defined": facts.is_defined or bool(facts.hindrance),
        # which process uses a disk is known only once the other is off
        "problems": [reason for reason in made.refusals if reason not in plan.locks(facts)]
        if facts.new in card.hosts or {*card.hosts} <= {*old}
        else [],
        "locked": [*facts.locked],
        "lockless": _lockless(card),
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
    if "hugepages" in info:
        entry["hugepages"] = info["hugepages"]
    return entry


def _lockless(card: Card) -> list[str]:
    folders = sorted({os.path.dirname(path) for path in card.disks})

    def look_at_mounts() -> list[str]:
        return [
            f"{folder} is mounted with {text}"
            for folder in folders
            if (options := file_systems.nfs_options(folder)) is not None
            for text in nfs_options.lockless(options)
        ]

    what = f"look at how {', '.join(folders)} is mounted"
    return deadline.call(look_at_mounts, seconds=_SECONDS, what=what)


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
    targets = plan.new_names(paths, card.counter)

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
    dom = find_uuid(connection, card.uuid)
    vm = None if dom is None else read_vms.vm_of(connection, dom)
    defined: tuple[str, ...] | None = None
    phase, hindrance, at_boot = None, None, False
    if dom is not None and vm is None:
        hindrance = "it runs there without a definition"
    elif dom is not None and vm is not None:
        hindrance = read_leftovers.hindrance(connection, dom, vm, here.folders, card)
        defined = tuple(path for path in disk_files(read_vms.root(vm)) or () if path)
        if not {*defined}.isdisjoint({*paths, *targets}):
            stored = metadata.parse(read_vms.root(vm))
            phase = None if stored is None else stored.phase
            at_boot = vm.autostart
            locked = () if vm.active else locked  # by itself
    other = find_domain(connection, card.name)
    others = []
    if other is not None and str(other.UUIDString()) != card.uuid:
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
        hindrance=hindrance,
        card=file.path,
        blockers=tuple(
            f"{card.name!r} cannot run on {here.name}: {problem}"
            for problem in [*others, *_blockers(connection, file, card, here, files, old)]
        ),
        locked=locked,
    )


def _blockers(
    connection: Connection,
    file: CardFile,
    card: Card,
    here: Here,
    files: t.Collection[str],
    old: t.Sequence[str],
) -> list[str]:
    problems = definition.blockers(card, here.folders)
    targets = plan.new_names(card.disks, card.counter)
    present = {path: path if path in files else target for path, target in zip(card.disks, targets)}
    root = ready(connection, definition.with_disks(card.root, present), here.places)
    problems += strangers(root, here.places)
    if here.references is not None:
        problems += _below(here.references, root, here.places)
    problems += read_start_blockers.of_root(connection, root)
    data = read_data_files.of_domain(connection, root)
    problems += _data_blockers(data, card, here, present.values())
    if card.running:  # once it has been taken over it would be off
        problems += read_rolling.refusals(connection, card.name)
    for path in present.values():
        for user in here.references.users(path) if here.references is not None else ():
            if user.uuid != card.uuid:
                problems.append(f"{path} is needed by others: {user.text}")
    files_of_card = (*card.disks, *present.values(), *data.values())
    for other in here.others(file, card.name, card.uuid, *files_of_card):
        if other.card is None:
            if other.at.name == card.name:
                problems.append(plan.second_card(file.path, other.path))
            continue
        same_name = other.card.name == card.name and _names_one(other.at, old)
        if other.card.uuid == card.uuid or same_name:
            problems.append(plan.second_card(file.path, other.path))
            continue
        shared = sorted({*other.card.disks} & {*files_of_card})
        problems += [f"{path} is a disk of {other.card.name!r} too" for path in shared]
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


def _data_blockers(
    data: t.Mapping[str, str], card: Card, here: Here, disks: t.Collection[str]
) -> t.Iterator[str]:
    """Why it cannot run here with the data of its disks where they are: these files keep their
    names and are to be on the shared storage, as the disks."""
    for path, file in data.items():
        what = f"the file {file}, which has the data of {path},"
        if os.path.dirname(file) not in here.folders:
            yield f"{what} is not on storage that this hypervisor shares with it"
        elif not deadline.call(
            functools.partial(os.path.exists, file), seconds=_SECONDS, what=f"look at {file}"
        ):
            yield f"{what} does not exist; put it back, or mount its storage"
        for user in here.references.users(file) if here.references is not None else ():
            if user.uuid != card.uuid and user.image not in disks:
                yield f"{what} is needed by others: {user.text}"


def _below(references: References, root: Element, places: named.Places) -> list[str]:
    """Files that the images themselves name, which are shared as well: libvirt opens them, too."""
    problems = []
    for disk in root.iterfind("devices/disk"):
        source, driver = disk.find("source"), disk.find("driver")
        if source is None or driver is None or driver.get("type") == "raw":
            continue  # its guest may write anything there, and QEMU believes none of it
        waiting, seen = [str(source.get("file"))], set[str]()
        while waiting:
            path = waiting.pop()
            for lower in references.below(path):
                if lower not in seen and not places.has_base(lower):
                    problems.append(named.stranger(f"{path} is based on {lower}"))
                waiting += [] if lower in seen else [lower]
                seen.add(lower)
        problems += _odd([path for path in sorted(seen) if places.has(path)])
    return problems


def _odd(paths: t.Sequence[str]) -> list[str]:
    """Those on shared storage that are links or devices, which may lead anywhere."""

    def look_at_files() -> list[str]:
        return [
            named.stranger(f"{path} is no regular file")
            for path in paths
            if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode)
        ]

    return deadline.call(look_at_files, seconds=_SECONDS, what="look at the files that it names")


def strangers(root: Element, places: named.Places) -> list[str]:
    """What of the definition no card decides for this hypervisor."""
    return [*named.strangers(root, places), *_odd(named.files(root))]


def ready(connection: Connection, root: Element, places: named.Places) -> Element:
    """The definition for this libvirt, without media that are on no shared storage, and with drives
    that may start empty where their media are not there."""
    media = [path for path in definition.media_of(root) if places.has(path)]

    def look_at_media() -> tuple[list[str], list[str]]:
        missing = [path for path in media if not os.path.lexists(path)]
        there = [path for path in media if path not in missing]
        return missing, [path for path in there if stat.S_ISREG(os.lstat(path).st_mode)]

    missing, there = deadline.call(look_at_media, seconds=_SECONDS, what="look at media")
    version = connection.call("read libvirt's version", connection.conn.getLibVersion)
    kept = named.without_stray_media(root, [*missing, *there])
    return definition.for_libvirt(definition.without_media(kept, missing), version)
