# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What placement and claims need to know of a hypervisor beyond ``virt_host_info``'s summary."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from ..._errors import FleetVirtError
from ..._libvirt import (
    CONNECT_BASELINE_CPU_EXPAND_FEATURES,
    CONNECT_LIST_DOMAINS_ACTIVE,
    DOMAIN_XML_INACTIVE,
    ERR_NO_DOMAIN,
)
from ..._lxml import parse
from ..base import machine_types as machines
from ..base import metadata as own_metadata
from ..base.effects_connection import Connection
from ..base.effects_deadline import Failed
from ..base.json_values import disk_sizes
from ..base.metadata import Metadata
from ..cards import read_leftovers
from ..notes import read as read_notes
from ..storage import read_paths as paths
from ..storage.read_pools import (
    describe_volume,
    is_half_made,
    list_handles,
    list_pools,
    pool_named,
)
from . import cpu_xml, host_info, network_info, read_cell, segments
from . import read_description as description
from . import read_nwfilters as nwfilters
from . import read_placement_devices as placement_devices
from . import read_secrets as secrets
from .read_host import read_host
from .read_neighbours import own_addresses

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain, VirNetwork
    from ..._lxml import Element
    from ..base.snapshot import (
        DefinedEntry,
        GuestCpuEntry,
        HostEntry,
        NetworkInfo,
        OffersEntry,
        PlacementEntry,
        PoolEntry,
    )

_TAGS_ON_BRIDGES = 11_000_000  # libvirt 11.0.0 sets VLAN tags on Linux bridges that filter VLANs


def read(
    connection: Connection, base_pool: str, base_path: str, files: t.Collection[str] = ()
) -> PlacementEntry:
    """``read_host`` with ``vms``, ``machines``, ``images`` and the pools' promises, and more.

    ``firmwares`` are what libvirt can choose among, ``tpms`` what it can emulate,
    ``tagging_networks`` and ``tagging_bridges`` those on which it sets the VLAN tags of NICs.
    ``files`` are absolute paths, those of which that are no files here become ``absent_files``.
    ``promised_mib`` is the sum of virtual sizes in a pool, ``claimed_mib`` that of the disks of
    VMs in creation, whose volumes may not exist yet, ``volume_allocation_mib`` what they take.
    """
    at = read_notes.now()  # before the domains: one that was defined earlier is among them
    cell = read_cell.view(connection)
    host = read_host(connection, base_pool, base_path, cell)
    domains = _domains(connection)
    running = connection.call(
        "list domains", connection.conn.listAllDomains, CONNECT_LIST_DOMAINS_ACTIVE
    )
    active = {str(domain.UUIDString()) for domain in running}
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    machine_types = host_info.capabilities(text)["machines"]
    offered = _offered(connection, host, machine_types)
    tagging_bridges, networks = _tagging_bridges(connection), _networks(connection, host)
    facts: PlacementEntry = {
        **host,
        "at": at,
        "notes": read_notes.held(connection),
        "vms": [
            {
                **_entry(domain),
                "active": domain.uuid in active,
                "addresses": [*domain.stored.addresses] if domain.stored else [],
                "segments": segments.of_nics(domain.nics, networks),
                "disks": domain.disks,
                "targets": domain.targets,
            }
            for domain in domains
        ],
        "cell_vms": read_cell.names_off(connection, cell),
        "machines": machine_types,
        "firmwares": offered.firmwares,
        "tpms": offered.tpms,
        "tagging_bridges": tagging_bridges,
        "tagging_networks": sorted(
            name
            for name, info in networks.items()
            if info["tags"] or info["bridge"] in tagging_bridges
        ),
        "offers": {
            **_offers(connection, offered, files),
            "files": sorted({*host_info.emulators(text), *offered.loaders}),
            "portgroups": {name: info["portgroups"] for name, info in networks.items()},
            "cell": cell.cell if cell is not None and cell.quorate else None,
        },
        "images": [],
        "addresses": _addresses(networks) if connection.local else None,
    }
    read_leftovers.mark(connection, facts["vms"])
    listed: set[str] = set()
    _mark_half_made(connection, host["pools"])
    for handle in list_pools(connection, active_only=True):
        entry = next(pool for pool in host["pools"] if pool["name"] == str(handle.name()))
        if entry["error"] is not None:  # what is listed there is not in the pool
            continue
        try:
            handles = connection.call(f"list pool {entry['name']}", list_handles, handle)
        except FleetVirtError as error:
            entry["error"] = str(error)
            continue
        there = set(handles)
        facts["offers"]["volumes"][entry["name"]] = sorted(
            handle.name for handle in handles.values()
        )
        if connection.local:
            files = [path for path in handles if path.startswith("/")]
            probed = paths.probe(files, connection.timeout)
            # libvirt also lists files that were removed behind its back, or are not mounted
            there = set(probed.files)
            if probed.hanging:
                entry["error"] = f"{min(probed.hanging)} does not answer"
                continue
        if entry["name"] == base_pool or entry["path"] == base_path:
            facts["images"] = sorted(
                handle.name for path, handle in handles.items() if path in there
            )
        outcomes = connection.each(
            describe_volume, list(handles.values()), lambda handle: f"read volume {handle.name}"
        )
        volumes = [outcome.value for outcome in outcomes if not isinstance(outcome, Failed)]
        entry["promised_mib"] = sum(volume["capacity_mib"] or 0 for volume in volumes)
        entry["volume_allocation_mib"] = sum(volume["allocation_mib"] or 0 for volume in volumes)
        listed.update(handles)
    for pool in host["pools"]:
        pool["claimed_mib"] = _claimed(domains, pool, listed)
    return facts


def _mark_half_made(connection: Connection, pools: list[PoolEntry]) -> None:
    stopped = [pool for pool in pools if (pool["type"], pool["state"]) == ("dir", "inactive")]
    for pool in stopped:
        handle = pool_named(connection, pool["name"])
        if handle is not None and pool["error"] is None and pool["path"]:
            place = (pool["name"], pool["path"])
            pool["half_made"] = is_half_made(connection, handle, *place)


class _Offered(t.NamedTuple):
    """What guests of the default machine type can have; None where libvirt does not report it."""

    firmwares: list[str] | None = None
    tpms: list[str] | None = None
    secure_boot: bool | None = None
    loaders: tuple[str, ...] = ()
    cpu: GuestCpuEntry | None = None


def _offered(connection: Connection, host: HostEntry, machine_types: list[str]) -> _Offered:
    kind = "kvm" if "kvm" in host["domain_types"] else "qemu"
    machine = machines.newest_common([machine_types], None)
    where = (None, host["arch"], machine, kind)
    try:
        text = connection.call(
            "read domain capabilities", connection.conn.getDomainCapabilities, *where, 0
        )
        return _Offered(
            host_info.firmwares(text),
            host_info.tpms(text),
            host_info.secure_boot(text),
            tuple(host_info.loaders(text)),
            _guest_cpu(connection, where, text),
        )
    except FleetVirtError:
        return _Offered()


def _guest_cpu(
    connection: Connection, where: tuple[None, str | None, str | None, str], text: str
) -> GuestCpuEntry | None:
    """The CPU of a guest with mode host-model, all features named, which can be compared with that
    of another hypervisor without a model that both know."""
    xml = cpu_xml.guest_cpu(text)["xml"]
    if xml is None:
        return None
    try:
        expanded = connection.call(
            "name the features of the CPU",
            connection.conn.baselineHypervisorCPU,
            *where,
            [xml],
            CONNECT_BASELINE_CPU_EXPAND_FEATURES,
        )
    except FleetVirtError:  # not every driver and architecture has this
        return None
    return cpu_xml.features(str(expanded))


def _offers(connection: Connection, offered: _Offered, files: t.Collection[str]) -> OffersEntry:
    """Features that not every hypervisor has; ``volumes``, ``files``, ``portgroups`` and ``cell``
    are filled in later."""
    local = connection.local
    there = paths.probe(files, connection.timeout).files if local and files else {}
    return {
        "volumes": {},
        "absent_files": [path for path in files if path not in there] if local else [],
        "files": [],
        "devices": placement_devices.block_devices() if local else None,
        "interfaces": placement_devices.interfaces() if local else None,
        "openvswitch": placement_devices.openvswitch_bridges() if local else None,
        "portgroups": {},
        "nwfilters": nwfilters.known(connection),
        "hugepages": placement_devices.hugepages() if local else None,
        "virtiofs": placement_devices.has_virtiofs() if local else None,
        "vsock": placement_devices.has_vsock() if local else None,
        "secure_boot": offered.secure_boot,
        "secrets": secrets.known(connection),
        "cell": None,
        "cpu": offered.cpu,
    }


def _tagging_bridges(connection: Connection) -> list[str]:
    """Linux bridges of this machine that filter VLANs, if libvirt can use that."""
    if not connection.local or int(connection.conn.getLibVersion()) < _TAGS_ON_BRIDGES:
        return []
    names = []
    for path in Path("/sys/class/net").glob("*/bridge/vlan_filtering"):
        with contextlib.suppress(OSError):  # a bridge that has just gone
            if path.read_text(encoding="ascii").strip() == "1":
                names.append(path.parent.parent.name)
    return sorted(names)


def _networks(connection: Connection, host: HostEntry) -> dict[str, NetworkInfo]:
    """What is known of libvirt's networks, without those that cannot be read."""

    def read(network: VirNetwork) -> NetworkInfo:
        return network_info.network(network.XMLDesc(0), f"network {network.name()}")

    if not host["networks"]:
        return {}
    networks = connection.call("list networks", connection.conn.listAllNetworks, 0)
    outcomes = connection.each(read, networks, lambda network: f"read network {network.name()}")
    return {
        str(network.name()): outcome.value
        for network, outcome in zip(networks, outcomes)
        if not isinstance(outcome, Failed)
    }


def _addresses(networks: t.Mapping[str, NetworkInfo]) -> list[str]:
    """This machine's addresses, without those on libvirt's networks, which each machine has."""
    theirs = {
        address.partition("/")[0] for info in networks.values() for address in info["addresses"]
    }
    return [address for address in own_addresses() if address not in theirs]


def defined(connection: Connection) -> list[DefinedEntry]:
    """``vms`` of :func:`read`, but not which of them are ``active``."""
    entries = [_entry(domain) for domain in _domains(connection)]
    read_leftovers.mark(connection, entries)
    return entries


class _Defined(t.NamedTuple):
    """A domain; ``disks`` and ``targets`` as in its entry."""

    name: str
    uuid: str
    macs: list[str]
    stored: Metadata | None
    disks: list[str]
    targets: list[str]
    nics: list[segments.NicPlace]


def _domains(connection: Connection) -> list[_Defined]:
    """Every domain; raises if one cannot be read.

    The metadata are those of the definition: a running VM that is being changed, or whose change
    was interrupted, has its phase there only. Its NICs are those that it has now.
    """

    def describe(domain: VirDomain) -> _Defined:
        root, stored = description.read(domain)
        macs = [str(mac.get("address")).lower() for mac in root.iterfind("devices/interface/mac")]
        disks, targets = _disks(root, stored)
        if root.get("id") is not None and _lacks(disks, stored):
            # it gets another at its next start, or one was detached: the definition is decisive
            kept = parse(domain.XMLDesc(DOMAIN_XML_INACTIVE), f"domain {domain.name()}")
            disks, targets = _disks(kept, stored)
        nics = segments.nics(root)
        name, uuid = str(domain.name()), str(domain.UUIDString())
        return _Defined(name, uuid, macs, stored, disks, targets, nics)

    domains = connection.call("list domains", connection.conn.listAllDomains, 0)
    entries = connection.each_there(
        describe, domains, lambda domain: f"read domain {domain.name()}", ERR_NO_DOMAIN
    )
    return sorted((entry for _domain, entry in entries), key=lambda entry: entry.name)


def _disks(root: Element, stored: Metadata | None) -> tuple[list[str], list[str]]:
    """The names of the VM's own disks in its definition, and the targets of the others.

    A VM that is being created has none: its volumes may not exist yet. The disks of one that was
    adopted have the names of their targets.
    """
    known = stored or Metadata()
    if known.phase == "creating":
        return [], []
    own = {volume.path: volume.target for volume in known.volumes if volume.role != "seed"}
    names, targets = [], []
    for disk in root.iterfind("devices/disk"):
        source, place = disk.find("source"), disk.find("target")
        path = source.get("file", "") if source is not None else ""
        if path in own:
            names.append(own[path])
        elif place is None or disk.get("device", "disk") != "disk":
            continue
        elif known.adopted:
            names.append(str(place.get("dev")))
        elif disk.get("type", "file") == "file":
            targets.append(str(place.get("dev")))
    return names, targets


def _lacks(disks: t.Collection[str], stored: Metadata | None) -> bool:
    """Whether the VM has a volume of its own that is none of ``disks``."""
    volumes = () if stored is None else stored.volumes
    return any(volume.role != "seed" and volume.target not in disks for volume in volumes)


def _entry(domain: _Defined) -> DefinedEntry:
    known = domain.stored or Metadata()
    return {
        "name": domain.name,
        "uuid": domain.uuid,
        "managed": known.made_here,
        "seeded": known.host_key is not None,
        # what else the metadata say cannot be relied on
        "phase": own_metadata.UNREADABLE if known.broken else known.phase,
        "run": known.owner.run if known.owner else None,
        "groups": list(known.groups),
        "anti_affinity": list(known.anti_affinity),
        "macs": domain.macs,
    }


def _claimed(
    domains: t.Sequence[_Defined],
    pool: PoolEntry,
    listed: set[str],
) -> int:
    """MiB of disks that VMs in creation were promised in ``pool`` and that are not there yet."""
    total = 0
    for stored in (domain.stored for domain in domains):
        if stored is None or stored.phase != "creating":
            continue
        sizes = disk_sizes(stored.request)  # of a request that cannot be read, nothing is known
        for volume in stored.volumes:
            if volume.pool == pool["name"] and volume.path not in listed:
                total += sizes.get(volume.target, 0)
    return total
