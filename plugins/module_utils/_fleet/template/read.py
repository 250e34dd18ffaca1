# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a VM that is to be copied, and what the controller must know before. Changes nothing."""

from __future__ import annotations

import json
import typing as t

from ... import _lxml
from ..adoption import effects as adopt
from ..base import effects_lookup as lookup
from ..base.effects_connection import Connection
from ..base.json_values import as_mapping
from ..base.metadata import metadata_problems
from ..base.states import state_name
from ..engine import effects_lease_holder as owners
from ..hosts import domain_info
from ..hosts import read_placement_facts as placement_facts
from ..images import effects_base_file as base_file
from ..images import effects_base_images as images
from ..images import effects_peer as peer
from ..migration.read import job_in_the_way
from ..seed import effects_guest_disk as guest_disk
from ..spec.leftover_rules import DATA_STORE
from ..storage import encryption, read_data_files
from . import effects_running as running
from .plan import TemplateDisk, TemplateFacts

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..adoption.facts import AdoptableVm
    from ..base.answers import VmIdentity
    from ..base.snapshot import DiskEntry
    from ..images.effects_base_images import BaseImage
    from ..storage.effects_storage import Pool
    from .facts import CloneLook, CloneSource, TemplateLook
    from .options import Options


def images_of(connection: Connection, base_pool: str, base_path: str) -> TemplateLook:
    """The VMs and the base images of this hypervisor."""
    images.require_local(connection)
    pool = images.find_pool(connection, base_pool, base_path, check=True)
    there = images.list_bases(connection, pool) if pool is not None else []
    return {
        "changed": False,
        "defined": _defined(connection),
        "volumes": [str(image.volume) for image in there],
    }


def sources(connection: Connection, names: t.Collection[str], pool: str) -> CloneLook:
    """The VMs of this hypervisor; of ``names`` also all that a clone is created from."""
    images.require_local(connection)
    defined = _defined(connection)
    known = sorted({vm["name"] for vm in defined} & set(names))
    vms = (adopt.look(connection, known, pool).get("vms") or []) if known else []
    return {
        "changed": False,
        "defined": defined,
        "alone": peer.peer_error(),
        "sources": [_source(connection, vm) for vm in vms],
    }


def _defined(connection: Connection) -> list[VmIdentity]:
    return [
        {
            "name": vm["name"],
            "uuid": vm["uuid"],
            "phase": vm["phase"],
            "leftover": vm.get("leftover"),
        }
        for vm in placement_facts.defined(connection)
    ]


def _source(connection: Connection, vm: AdoptableVm) -> CloneSource:
    """With the VM's request, without its secrets (None if the collection did not create it), and
    which VM it is a clone of."""
    dom: VirDomain | None = lookup.find_domain(connection, vm["name"])
    stored = lookup.read_metadata(connection, dom) if dom is not None else None
    left_out = list(vm["left_out"])
    if dom is not None and DATA_STORE not in left_out:
        text = connection.call(f"read domain {vm['name']}", dom.XMLDesc, 0)
        root = _lxml.parse(text, f"domain {vm['name']}")
        if read_data_files.of_domain(connection, root):
            left_out.append(DATA_STORE)
    try:
        request = as_mapping(json.loads((stored.request if stored else None) or "null"))
    except ValueError:
        request = {}
    return {
        "name": vm["name"],
        "phase": vm["phase"],
        "specification": vm["specification"],
        "problems": vm["problems"],
        "carried": vm["carried"],
        "refused": vm["refused"],
        "left_out": left_out,
        "request": dict(request) or None,
        "clone_of": stored.clone_of if stored else None,
    }


def facts(
    connection: Connection,
    dom: VirDomain,
    asked: Options,
    pool: Pool,
    there: t.Sequence[BaseImage],
) -> TemplateFacts:
    name = str(dom.name())
    state = state_name(connection.call(f"read the state of {name}", dom.state, 0)[0])
    active = bool(connection.call(f"read the state of {name}", dom.isActive))
    text = connection.call(f"read domain {name}", dom.XMLDesc, 0)
    info, secrets = domain_info.parse(text, name), encryption.secrets_of(text)
    data = read_data_files.of_domain(connection, _lxml.parse(text, f"domain {name}"))
    stored = lookup.read_metadata(connection, dom)
    disks = [
        _disk(
            *(connection, dom, entry),
            secrets.get(str(entry["target"])),
            data.get(str(entry["source"])),
        )
        for entry in info["disks"]
        if entry["device"] == "disk" and entry["target"]
    ]
    own = [disk for disk in disks if not disk.readonly]
    chosen = own if asked.every else own[:1]
    if asked.disk is not None:
        chosen = [disk for disk in disks if disk.target == asked.disk]
    dead = active and running.has_abandoned_job(connection, dom)
    left: list[str] = []
    if pool.handle is not None:
        left = images.file_work(f"list {pool.path}", lambda: base_file.abandoned(pool.path), 60.0)
    return TemplateFacts(
        name=name,
        state=state,
        active=active,
        phase=stored.phase if stored is not None else None,
        broken="; ".join(metadata_problems(name, stored)) or None,
        holder=owners.holder(stored.owner) if stored is not None else None,
        disks=tuple(chosen),
        targets=tuple(disk.target for disk in disks),
        present=frozenset(image.name for image in there),
        left=tuple(left),
        dead_backup=dead,
        job=job_in_the_way(connection, dom) if active and not dead else None,
        resettable=not asked.reset or guest_disk.available(),
        agent=active and bool(info["agent"]),
    )


def _disk(
    connection: Connection,
    dom: VirDomain,
    entry: DiskEntry,
    secret: str | None,
    data: str | None,
) -> TemplateDisk:
    target, path = str(entry["target"]), entry["source"]
    local = path is not None and path.startswith("/") and entry["type"] in ("file", "block")
    size = 0
    if local:
        sizes = connection.call(f"read disk {target} of {dom.name()}", dom.blockInfo, target, 0)
        size = int(sizes[0])
    return TemplateDisk(
        target=target,
        path=path if local else None,
        format=entry["format"] or "raw",
        readonly=entry["readonly"],
        shareable=entry["shareable"],
        size=size,
        secret=secret,
        data=data,
    )
