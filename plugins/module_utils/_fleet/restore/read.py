# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What this hypervisor has and would have of VMs that are restored."""

from __future__ import annotations

import dataclasses
import os
import time
import typing as t

from ..._errors import LibvirtFailure, PlanRefused
from ..._libvirt import ERR_CONFIG_UNSUPPORTED, ERR_XML_ERROR
from ..._lxml import parse, tostring
from ..._records import dataclass
from ..backup import archives
from ..backup.archives import Manifest
from ..base import effects_deadline as deadline
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..cards import read_vms as cards
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..hosts import domain_info, host_info, read_secrets
from ..hosts import read_placement_facts as placement_facts
from ..notes import effects as notes
from ..notes import read as read_notes
from ..placement.facts import seen_host
from ..restart import definition as restarted
from ..state import read_start_blockers
from ..storage import effects_own_files as owned
from ..storage import effects_storage as storage
from ..storage import host_names
from ..storage import read_file_users as file_users
from . import definition
from . import plan as restore_plan
from .definition import Identity, RestoreTarget
from .facts import RestoreEntry, RestoreLook
from .options import RestoreOptions, RestoreWork, SavedVm
from .plan import EMPTY, RestoreFacts, RestoreRequest

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.metadata import Metadata, OwnVolume

_WRITER_SECONDS = 20.0
_SECONDS = 60.0


@dataclass(frozen=True)
class Here:
    """This hypervisor: its name in the inventory, its machine types and secrets, and the folders
    of its pools."""

    name: str
    machine_types: tuple[str, ...]
    secrets: tuple[str, ...] | None
    folders: frozenset[str] = frozenset()


@dataclass
class Restoring:
    """A VM to restore here: what there is, what is wanted, and the definition that it gets.

    ``volumes`` are by target of the disk. ``reasons`` are why it cannot be wanted here at all.
    """

    vm: SavedVm
    manifest: Manifest
    facts: RestoreFacts
    wanted: RestoreRequest
    root: Element
    volumes: dict[str, OwnVolume]


def read_here(connection: Connection) -> Here:
    """Read what all VMs to restore have in common."""
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    secrets = read_secrets.known(connection)
    return Here(
        caller.host() or "this hypervisor",
        tuple(host_info.capabilities(text)["machines"]),
        None if secrets is None else tuple(secrets),
        frozenset(
            pool.path
            for pool in file_users.read_pools(connection, look=False).values()
            if pool.path
        ),
    )


def look(connection: Connection, options: RestoreOptions, work: RestoreWork) -> RestoreLook:
    """What this hypervisor would have of the VMs. Changes nothing, but for the claims, which are
    noted first."""
    notes.write(connection, work.claims, {})
    here = read_here(connection)
    host = placement_facts.read(connection, options["base_pool"], options["base_path"])
    return {
        "changed": False,
        "host": seen_host(host),
        "entries": [_entry(connection, vm, options, here) for vm in work.vms],
        "noted": read_notes.texts(connection, work.answering) if work.answering else {},
    }


def _entry(
    connection: Connection, vm: SavedVm, options: RestoreOptions, here: Here
) -> RestoreEntry:
    restoring = read(connection, vm, options, here, observed=False)
    facts, wanted, root = restoring.facts, restoring.wanted, restoring.root
    info = domain_info.from_root(root, wanted.final)
    needs = host_names.of_definition(root)
    disks = restoring.manifest.backup.disks
    sizes = [(restoring.volumes[disk.target], disk.size) for disk in disks]
    waits = restore_plan.waits(facts, wanted)
    entry: RestoreEntry = {
        "name": vm.name,
        "state": _state(facts, wanted),
        "problems": [] if waits else [*restore_plan.plan(facts, wanted).refusals],
        "reaches": definition.reaches(root, here.folders),
        "vcpus": int(info["vcpus_max"] or 1),
        "memory_mib": int(info["memory_max_mib"] or 0),
        "domain_type": info["domain_type"],
        "arch": info["arch"],
        "bridges": [*needs.bridges],
        "networks": [*needs.networks],
        "nwfilters": [*needs.nwfilters],
        "vsock": needs.vsock,
        "macs": [str(mac.get("address")).lower() for mac in root.iterfind("devices/interface/mac")],
        "disks": [{"pool": own.pool, "path": own.path, "bytes": size} for own, size in sizes],
        "groups": [*wanted.final.groups],
        "affinity": [*wanted.final.affinity],
        "anti_affinity": [*wanted.final.anti_affinity],
        "tags": [*wanted.final.tags],
        "zone": wanted.final.zone,
    }
    if "hugepages" in info:
        entry["hugepages"] = info["hugepages"]
    return entry


def _state(facts: RestoreFacts, wanted: RestoreRequest) -> str:
    stored = facts.stored
    if facts.uuid is None:
        return "new"
    if restore_plan.is_restored(facts, wanted):
        return "there"
    same = stored is not None and stored.restored_from == wanted.source
    return "begun" if same else "other"


def read(
    connection: Connection,
    vm: SavedVm,
    options: RestoreOptions,
    here: Here,
    *,
    observed: bool,
) -> Restoring:
    """A VM to restore here. ``observed``: other runs were waited for."""
    manifest = archives.read_manifest(vm.manifest)
    saved = parse(vm.definition, f"{archives.DOMAIN} of {vm.source}")
    who = Identity(vm.name, vm.uuid, vm.copy)
    targets = definition.targets(saved, manifest.backup.disks)
    volumes = {
        target.saved.target: _volume(connection, vm.name, target, options) for target in targets
    }
    formats = {volumes[d.target].path: d.format for d in manifest.backup.disks}
    root, lacks = definition.adapted(saved, who, volumes, formats)
    own = tuple(volumes.values())
    states = _states(root, manifest, vm)
    wanted = RestoreRequest(
        vm.name,
        vm.uuid,
        vm.source,
        vm.claimer,
        here.name,
        definition.stored_of(saved, who, own, vm.source, caller.host() or None),
        own,
        states,
        lacks,
    )
    facts = _facts(connection, wanted, observed=observed)
    problems: list[str] = []
    if not restore_plan.is_restored(facts, wanted):
        problems = definition.blockers(saved, here.machine_types)
        problems += _blockers(connection, wanted, root, here, states)
    blockers = tuple(
        f"{vm.name!r} cannot be restored on {here.name}: {one}" for one in dict.fromkeys(problems)
    )
    facts = dataclasses.replace(facts, blockers=blockers)
    return Restoring(vm, manifest, facts, wanted, root, volumes)


def _volume(
    connection: Connection, vm: str, target: RestoreTarget, options: RestoreOptions
) -> OwnVolume:
    """The volume of a disk: where it was, if there is a pool, else in the pool of ``options``,
    which is made where it does not exist."""
    name = storage.pool_of(connection, target.folder, target.pool)
    pool = storage.find_pool(connection, name, None) if name else None
    pool = pool or storage.find_pool(connection, options["pool"], options["pool_path"])
    pool = pool or storage.Pool(options["pool"], options["pool_path"])
    return target.volume(vm, pool.name, pool.path)


def _states(root: Element, manifest: Manifest, vm: SavedVm) -> tuple[str, ...]:
    """The files of firmware and TPM that the archive has for it."""
    states = []
    nvram = definition.nvram_of(root, vm.name)
    if nvram is not None and manifest.file(archives.NVRAM) is not None:
        states.append(nvram)
    if definition.has_tpm(root) and manifest.file(archives.TPM) is not None:
        states.append(f"{definition.TPM_FOLDER}/{vm.uuid}")
    return tuple(states)


def _facts(connection: Connection, wanted: RestoreRequest, *, observed: bool) -> RestoreFacts:
    dom = find_domain(connection, wanted.name)
    paths = [volume.path for volume in wanted.volumes]
    present = _present([*paths, *wanted.states])
    files = dict.fromkeys([path for path in paths if path in present], EMPTY)
    states = frozenset(path for path in wanted.states if path in present)
    if dom is None:
        return RestoreFacts(wanted.name, states=states, taken=tuple(present))
    stored = read_metadata(connection, dom)
    owner = stored.owner if stored is not None else None
    at_work = False
    if stored is not None and not restore_plan.is_own(stored, wanted.run):
        at_work = owners.is_alive(owner) if observed else lease.may_be_at_work(owner)
    uuid = str(dom.UUIDString())
    return RestoreFacts(
        wanted.name,
        uuid,
        stored,
        at_work,
        owners.holder(owner) if at_work else None,
        files,
        states,
        stays=_stays(connection, uuid, stored),
    )


def _present(paths: t.Sequence[str]) -> list[str]:
    def look_at_files() -> list[str]:
        return [path for path in paths if os.path.lexists(path)]

    return deadline.call(look_at_files, seconds=_SECONDS, what="look at the files of the VM")


def _stays(connection: Connection, uuid: str, stored: Metadata | None) -> tuple[str, ...]:
    """Why volumes that an interrupted run restored are not removed. What wrote them for it ends a
    moment later than it, which is waited for."""
    if stored is None or stored.phase != restore_plan.CREATING or not stored.volumes:
        return ()
    limit = time.monotonic() + _WRITER_SECONDS
    while True:
        references = file_users.read(connection)
        each = [owned.why_stays(volume, uuid, references) for volume in reversed(stored.volumes)]
        stays = tuple(str(one) for one in each if one is not None)
        if not any(owned.IN_USE in text for text in stays) or time.monotonic() > limit:
            return stays
        time.sleep(0.5)


def _blockers(
    connection: Connection,
    wanted: RestoreRequest,
    root: Element,
    here: Here,
    states: t.Collection[str],
) -> list[str]:
    incoming = [*(volume.path for volume in wanted.volumes), *states]
    problems = read_start_blockers.of_root(connection, root, incoming)
    problems += refused_by_libvirt(connection, root)
    for secret in restarted.secrets_of(root):
        if here.secrets is not None and secret not in here.secrets:
            problems.append(f"libvirt's secret {secret} is not on it; define it, with its value")
    folders = [os.path.dirname(volume.path) for volume in wanted.volumes]
    problems += cards.taken(connection, folders, wanted.name, wanted.uuid)
    for dom in connection.call("list domains", connection.conn.listAllDomains, 0):
        if str(dom.UUIDString()) == wanted.uuid and str(dom.name()) != wanted.name:
            problems.append(
                f"its VM {str(dom.name())!r} has the UUID {wanted.uuid}; restore a copy:"
                " -e virt_restore_as=copy"
            )
    return problems


def refused_by_libvirt(connection: Connection, root: Element) -> list[str]:
    """Why this libvirt takes no such definition: a newer one may have written it. It is asked for
    QEMU's command line, which defines nothing."""
    action = "look whether libvirt accepts the definition"
    convert = connection.conn.domainXMLToNative
    try:
        connection.call(action, convert, "qemu-argv", tostring(root), 0)
    except LibvirtFailure as error:
        if error.code in (ERR_XML_ERROR, ERR_CONFIG_UNSUPPORTED):
            return [f"its libvirt refuses the definition: {str(error).removeprefix(action + ': ')}"]
    return []


def require_known(vms: t.Sequence[SavedVm]) -> None:
    """Raise PlanRefused unless it is said what to restore."""
    if not vms:
        raise PlanRefused("no VM is named; give -e vm_name=web1")
