# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controller must know of a hypervisor before a VM is copied. Changes nothing."""

from __future__ import annotations

import json
import typing as t

from ..adoption import effects as adopt
from ..base import effects_lookup as lookup
from ..base.effects_connection import Connection
from ..base.json_values import as_mapping, as_mappings
from ..hosts import read_placement_facts as placement_facts
from ..images import effects_base_images as images
from ..images import effects_peer as peer

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain


_OF_A_SOURCE = ("name", "phase", "specification", "problems", "carried", "refused")


def images_of(connection: Connection, base_pool: str, base_path: str) -> dict[str, object]:
    """The VMs and the base images of this hypervisor."""
    images.require_local(connection)
    pool = images.find_pool(connection, base_pool, base_path, check=True)
    there = images.list_bases(connection, pool) if pool is not None else []
    return {
        "changed": False,
        "defined": _defined(connection),
        "volumes": [image.volume for image in there],
    }


def sources(connection: Connection, names: t.Collection[str], pool: str) -> dict[str, object]:
    """The VMs of this hypervisor; of ``names`` also all that a clone is created from."""
    images.require_local(connection)
    defined = _defined(connection)
    known = sorted({str(vm["name"]) for vm in defined} & set(names))
    vms = adopt.look(connection, known, pool)["vms"] if known else []
    return {
        "changed": False,
        "defined": defined,
        "alone": peer.peer_error(),
        "sources": [
            {
                **{key: vm[key] for key in _OF_A_SOURCE},
                **_made_of(connection, str(vm["name"])),
            }
            for vm in as_mappings(vms)
        ],
    }


def _defined(connection: Connection) -> list[dict[str, object]]:
    return [
        {"name": vm["name"], "uuid": vm["uuid"], "phase": vm["phase"]}
        for vm in placement_facts.defined(connection)
    ]


def _made_of(connection: Connection, name: str) -> dict[str, object]:
    """The VM's request, without its secrets (None if the collection did not create it), and which
    VM it is a clone of."""
    dom: VirDomain | None = lookup.find_domain(connection, name)
    stored = lookup.read_metadata(connection, dom) if dom is not None else None
    try:
        request = as_mapping(json.loads((stored.request if stored else None) or "null"))
    except ValueError:
        request = {}
    return {"request": dict(request) or None, "clone_of": stored.clone_of if stored else None}
