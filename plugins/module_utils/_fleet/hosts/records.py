# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was read from a fleet as CSV records, one for each domain, hypervisor, image or VM.

Columns are only ever added. A hypervisor that did not answer has a record of its own, with the
reason as its ``error``.
"""

from __future__ import annotations

import typing as t

from ..base.json_values import as_list, as_mapping, as_mappings
from ..base.tables import csv_text
from . import selection

if t.TYPE_CHECKING:
    from ..base.columns import Column

Entry = t.Mapping[str, object]
Record = t.Mapping[str, object]

_LIST = [
    *("hypervisor", "name", "uuid", "state", "reason", "moving_to", "autostart", "vcpus"),
    *("memory_mib", "managed", "groups", "tags", "title", "cell", "cell_managed", "error"),
]
_QUERY = [*_LIST[:-1], "disk_mib", "disks", "nics", "addresses", "graphics", "error"]
_HOST = [
    *("hypervisor", "state", "types", "arch", "libvirt_version"),
    *("cpus", "vcpus_running", "vcpus_defined"),
    *("memory_mib", "memory_free_mib", "memory_running_mib", "memory_defined_mib"),
    *("domains_active", "domains_shutoff", "pools", "cell", "quorate", "unclean", "error"),
]
_IMAGES = [
    *("hypervisor", "image", "digest", "format", "size_mib", "allocated_mib", "intact"),
    *("users", "path", "error"),
]
_VMS = [
    *("hypervisor", "name", "address", "changed", "predicted", "failed", "answers", "message"),
]


def text(
    view: str,
    hypervisors: t.Sequence[Entry],
    sort: t.Sequence[str] = (),
    requested: t.Sequence[Column] = (),
    *,
    predicted: bool,
) -> str:
    """CSV of the ``view``; ``predicted`` if its changes were not made (check mode).

    Of domains it has the ``requested`` columns too.
    """
    if view in ("list", "query"):
        columns = _LIST if view == "list" else _QUERY
        more = [column for column in requested if column.name not in columns]
        columns = [*columns[:-1], *(column.name for column in more), columns[-1]]
        records: list[Record] = [
            {**_domain(host, domain), **{column.name: column.value(domain) for column in more}}
            for host, domain in selection.flat(hypervisors, sort)
        ]
    elif view == "host_info":
        columns, records = (
            _HOST,
            [_host(hypervisor) for hypervisor in hypervisors if hypervisor["answered"]],
        )
    elif view == "images":
        columns, records = (
            _IMAGES,
            [_image(hypervisor, image) for hypervisor, image in _parts(hypervisors, "images")],
        )
    elif view == "maintenance":
        columns = ["hypervisor", "maintenance"]
        records = [{**hypervisor, "hypervisor": hypervisor["name"]} for hypervisor in hypervisors]
    else:
        columns = [
            "hypervisor",
            "name",
            "address",
            "changed",
            "predicted",
            "failed",
            "answers",
            "message",
        ]
        records = [
            _made(hypervisor, vm, predicted) for hypervisor, vm in _parts(hypervisors, "vms")
        ]
    if "error" in columns:
        records += [
            {"hypervisor": hypervisor["name"], "error": f"no answer: {hypervisor['error']}"}
            for hypervisor in hypervisors
            if not hypervisor["answered"]
        ]
    return csv_text(columns, [[record.get(column) for column in columns] for record in records])


def _parts(hypervisors: t.Sequence[Entry], key: str) -> list[tuple[Entry, Entry]]:
    return [(entry, part) for entry in hypervisors for part in as_mappings(entry[key] or [])]


def _domain(hypervisor: str, domain: Entry) -> Record:
    metadata, cell = as_mapping(domain.get("metadata")), as_mapping(domain.get("cell"))
    disks, nics = as_mappings(domain["disks"]), as_mappings(domain["nics"])
    sizes = [size for disk in disks if isinstance(size := disk["size_mib"], int)]
    return {
        **domain,
        "hypervisor": hypervisor,
        "moving_to": as_mapping(metadata.get("move")).get("destination"),
        "managed": metadata.get("managed"),
        "groups": metadata.get("groups"),
        "tags": metadata.get("tags"),
        "cell": cell.get("name"),
        "cell_managed": cell.get("managed"),
        "disk_mib": sum(sizes),
        "disks": [f"{disk['target']}={_or_dash(disk['source'])}" for disk in disks],
        "nics": [f"{nic['mac']}={_or_dash(nic['source'])}" for nic in nics],
        "addresses": [address for nic in nics for address in as_list(nic["addresses"])],
        "graphics": [_console(console) for console in as_mappings(domain["graphics"])],
    }


def _or_dash(value: object) -> object:
    return "-" if value is None else value


def _console(graphics: Entry) -> str:
    places = (graphics.get(key) for key in ("socket", "port", "tls_port"))
    place = next((place for place in places if place is not None), "-")
    return f"{graphics['type']}={place}"


def _host(entry: Entry) -> Record:
    host = as_mapping(entry["host"])
    cpu, memory = as_mapping(host["cpu"]), as_mapping(host["memory_mib"])
    cell = as_mapping(host.get("cell"))
    counts = {key: n for key, n in as_mapping(host["domains"]).items() if isinstance(n, int)}
    off = counts.get("shutoff", 0)
    pools = [pool for pool in as_mappings(host["pools"]) if pool["state"] == "running"]
    return {
        **host,
        "hypervisor": entry["name"],
        "state": {"True": "maintenance", "False": "ready"}.get(str(host["maintenance"])),
        "types": host["domain_types"],
        "cpus": cpu["total"],
        "vcpus_running": cpu["running"],
        "vcpus_defined": cpu["defined"],
        "memory_mib": memory["total"],
        **{f"memory_{key}_mib": memory[key] for key in ("free", "running", "defined")},
        "domains_active": sum(counts.values()) - off,
        "domains_shutoff": off,
        "pools": [f"{pool['name']}={_or_dash(pool['available_mib'])}" for pool in pools],
        "cell": cell.get("name"),
        "quorate": cell.get("quorate"),
        "unclean": cell.get("unclean"),
        "error": None,
    }


def _image(entry: Entry, image: Entry) -> Record:
    return {**image, "hypervisor": entry["name"], "image": image["name"]}


def _made(entry: Entry, vm: Entry, predicted: bool) -> Record:
    more = {"predicted": predicted, "failed": bool(vm.get("failed")), "message": vm["msg"]}
    return {**vm, **more, "hypervisor": entry["name"], "answers": vm.get("answered")}
