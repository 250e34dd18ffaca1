# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading both endpoints of a move: the VM on this host, the destination through its libvirt."""

from __future__ import annotations

import functools
import typing as t

from ... import _lxml
from ..._errors import LibvirtFailure, PlanRefused
from ..._libvirt import (
    CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE,
    CONNECT_LIST_NETWORKS_ACTIVE,
    DOMAIN_JOB_BOUNDED,
    DOMAIN_JOB_UNBOUNDED,
    DOMAIN_XML_INACTIVE,
    ERR_NO_DOMAIN,
    ERR_NO_STORAGE_VOL,
    ERR_NO_SUPPORT,
    ERR_OPERATION_INVALID,
)
from ..base import effects_deadline as deadline
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.effects_lookup import checkpoints
from ..base.metadata import Metadata, OwnVolume
from ..base.names import NOTES
from ..base.states import state_name
from ..engine import effects_backups as backups
from ..engine import effects_lease_holder as owners
from ..hosts import domain_info, host_info, network_info, read_host_names
from ..hosts import read_nwfilters as nwfilters
from ..hosts.read_bridges import bridges
from ..hosts.read_host import MAINTENANCE_VOLUME, is_marked
from ..storage import effects_storage as storage
from ..storage import encryption, file_references, host_names, read_data_files, storage_info
from ..storage.file_references import RAW
from ..storage.host_names import HostNames
from ..storage.read_file_users import FOLDER_TYPES, read_header
from ..storage.read_pools import describe_volume, list_handles, list_pools
from ..storage.read_shared_pools import SharedPools
from . import immovable, read_snapshots
from .types import (
    Destination,
    DestinationDomain,
    DestinationPool,
    MigrationDisk,
    Source,
    Target,
    Volume,
)

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from ..base.snapshot import Capabilities, DiskEntry, DomainInfo, NetworkInfo

_JOBS = {DOMAIN_JOB_BOUNDED: "bounded", DOMAIN_JOB_UNBOUNDED: "unbounded"}
_MAX_DEPTH = 16  # of a chain that is followed


class _Live(t.TypedDict):
    uuid: str
    state: str
    active: bool
    persistent: bool
    managed_save: bool


def read_source(connection: Connection, dom: VirDomain, host: str) -> Source:
    """Read the VM with all that decides whether and how it moves; ``host`` is this one's name."""
    name = str(dom.name())

    def ask() -> _Live:
        active = bool(dom.isActive())
        return {
            "uuid": str(dom.UUIDString()),
            "state": state_name(dom.state(0)[0]),
            "active": active,
            "persistent": bool(dom.isPersistent()),
            "managed_save": bool(dom.hasManagedSaveImage(0)),
        }

    facts = connection.call(f"read domain {name}", ask)
    autostart = facts["persistent"] and bool(
        connection.call(f"read autostart of {name}", dom.autostart)
    )
    live = _parse(connection, dom, 0)
    kept = _parse(connection, dom, DOMAIN_XML_INACTIVE) if facts["persistent"] else live
    stored = metadata.parse(kept)
    # what it has now has to be there, and what it gets at its next start
    names = host_names.union(host_names.of_definition(live), host_names.of_definition(kept))
    info = domain_info.parse(_lxml.tostring(live), f"domain {name}")
    cpu = live.find("cpu")
    capabilities = _capabilities(connection)
    snapshots, record_bytes = read_snapshots.read(connection, dom)
    return Source(
        name=name,
        host=host,
        **facts,
        autostart=autostart,
        metadata=stored,
        domain_type=str(info["domain_type"]),
        arch=str(info["arch"]),
        machine=str(info["machine"]),
        memory_mib=int(info["memory_max_mib"] or 0),
        in_pages=tuple(info.get("hugepages", ())),
        vcpus=int(info["vcpus_max"] or 1),
        disks=tuple(_disks(connection, dom, live, info, stored, active=facts["active"])),
        macs=tuple(str(nic["mac"]).lower() for nic in info["nics"] if nic["mac"]),
        bridges=tuple(str(nic["source"]) for nic in info["nics"] if nic["type"] == "bridge"),
        networks=tuple(str(nic["source"]) for nic in info["nics"] if nic["type"] == "network"),
        portgroups=tuple(
            (str(source.get("network")), str(source.get("portgroup")))
            for source in live.iterfind("devices/interface[@type='network']/source[@portgroup]")
        ),
        nwfilters=names.nwfilters,
        vsock=host_names.of_definition(live).vsock,
        names=names.beside(),
        immovable=immovable.reasons(
            live, connection.call("read libvirt's version", connection.conn.getLibVersion)
        ),
        interfaces=tuple(str(nic["source"]) for nic in info["nics"] if nic["type"] == "direct"),
        hostdevs=tuple(f"{hostdev['type']} {hostdev['source']}" for hostdev in info["hostdevs"]),
        cpu=None if cpu is None else _lxml.tostring(cpu),
        snapshots=snapshots,
        record_bytes=record_bytes,
        state_files=_has_state_files(live),
        checkpoints=checkpoints(connection, dom),
        job=job_in_the_way(connection, dom) if facts["active"] else None,
        holder=owners.holder(stored.owner) if stored is not None else None,
        host_uuid=str(capabilities["uuid"]),
        qemu=int(connection.call("read the version", connection.conn.getVersion)),
    )


def _has_state_files(domain: Element) -> bool:
    """Whether it has UEFI variables, or a TPM whose state is in files."""
    return (
        domain.find("os/nvram") is not None
        or domain.find("os/loader[@type='pflash']") is not None
        or domain.find("os[@firmware='efi']") is not None
        or domain.find("devices/tpm/backend[@type='emulator']") is not None
    )


def job_of(connection: Connection, dom: VirDomain) -> str | None:
    """The kind of job that libvirt runs on the domain (virDomainGetJobInfo); None without one, or
    if it is shut off."""
    try:
        kind = connection.call(f"read the job of {dom.name()}", dom.jobInfo)[0]
    except LibvirtFailure as error:
        if error.code != ERR_OPERATION_INVALID:
            raise
        return None
    return _JOBS.get(int(kind))


def job_in_the_way(connection: Connection, dom: VirDomain) -> str | None:
    """As :func:`job_of`, but for a backup of ours, which is ended for other work."""
    job = job_of(connection, dom)
    own = job is not None and connection.local and backups.is_at_work(str(dom.UUIDString()))
    return None if own else job


def _parse(connection: Connection, dom: VirDomain, flags: int) -> Element:
    name = dom.name()
    return _lxml.parse(connection.call(f"read domain {name}", dom.XMLDesc, flags), f"domain {name}")


def _capabilities(connection: Connection) -> Capabilities:
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    return host_info.capabilities(text)


def _disks(
    connection: Connection,
    dom: VirDomain,
    root: Element,
    info: DomainInfo,
    stored: Metadata | None,
    *,
    active: bool,
) -> t.Iterator[MigrationDisk]:
    own = {volume.path: volume for volume in (stored.volumes if stored else ())}
    elements = {
        element.get("dev"): disk
        for disk in root.iterfind("devices/disk")
        for element in disk.iterfind("target")
    }
    for entry in info["disks"]:
        element, target = elements[entry["target"]], str(entry["target"])
        capacity = allocation = 0
        busy = False
        if entry["device"] == "disk" and entry["source"] and entry["type"] == "file":
            sizes = connection.call(f"read disk {target}", dom.blockInfo, target, 0)
            capacity, allocation = int(sizes[0]), int(sizes[1])
            if active:
                busy = bool(connection.call(f"read disk {target}", dom.blockJobInfo, target, 0))
                if busy and connection.local and backups.is_at_work(str(dom.UUIDString())):
                    busy = False  # a backup has it, which a move ends
        yield MigrationDisk(
            target=target,
            device=str(entry["device"]),
            type=str(entry["type"]),
            path=entry["source"] or _volume(entry),
            format=entry["format"],
            capacity=capacity,
            allocation=allocation,
            readonly=bool(entry["readonly"]),
            shareable=bool(entry["shareable"]),
            encrypted=next(element.iter("encryption"), None) is not None,
            secret=encryption.secret_of(element),
            # a raw disk has no backing file, whatever its guest wrote where a header would be
            chain=tuple(_chain(element) if active else _stored_chain(connection, entry["source"]))
            if entry["device"] == "disk" and entry["format"] != RAW
            else (),
            own=_own(own, entry["source"]),
            block_job=busy,
            transient=element.find("transient") is not None,
            data_file=read_data_files.find(connection, element, entry["source"])
            if entry["device"] == "disk"
            else None,
        )


def _volume(entry: DiskEntry) -> str | None:
    """Name of a pool's volume, which is neither a file to move nor an empty drive."""
    return f"{entry['pool']}/{entry['volume']}" if entry["volume"] else None


def _own(own: t.Mapping[str, OwnVolume], path: str | None) -> OwnVolume | None:
    return own.get(path) if path else None


def _chain(disk: Element) -> t.Iterator[tuple[str, str]]:
    """Path and format of the disk's backing files, nearest first."""
    below = disk.find("backingStore")
    while below is not None and below.get("type"):
        source, kind = below.find("source"), below.find("format")
        path = "" if source is None else source.get("file") or source.get("dev") or "?"
        yield path, "" if kind is None else str(kind.get("type"))
        below = below.find("backingStore")


def _stored_chain(connection: Connection, path: str | None) -> t.Iterator[tuple[str, str]]:
    """The same for a disk that no process has open, from the volumes' headers."""
    kind: str | None = None
    for _depth in range(_MAX_DEPTH):
        if not path or kind == RAW:
            return
        try:
            volume = storage.volume_at(connection, path)
            text = connection.call(f"read volume {path}", volume.XMLDesc, 0)
        except LibvirtFailure as error:
            if error.code != ERR_NO_STORAGE_VOL:
                raise
            known = _unlisted(connection, path)
            if known is not None:
                path, kind = known
                yield path, kind or ""
                continue
            raise PlanRefused(
                f"{path} is in no pool of this hypervisor, so its backing file is unknown; define"
                " a pool for its folder, or refresh the pool (virsh pool-refresh)"
            ) from None
        info = storage_info.volume(text)
        path, kind = info["backing"], info["backing_format"]
        if path:
            yield path, str(kind or "")


def _unlisted(connection: Connection, path: str) -> tuple[str, str | None] | None:
    """The backing file of one that no pool lists, as libvirt makes for external snapshots without
    telling its pools; None if it has not exactly one, or is out of reach."""
    if not connection.local:
        return None
    what = f"look at {path}"
    below = deadline.call(lambda: read_header(path), seconds=connection.timeout, what=what)
    return (below[0].name, below[0].format) if len(below) == 1 else None


def read_target(
    connection: Connection,
    destination: Destination,
    source: Source,
    base_pool: str,
) -> Target:
    """Read the destination, with its pools as its libvirt last saw them."""
    capabilities = _capabilities(connection)
    pools = read_pools(connection)
    marks = {f"{pool.path}/{MAINTENANCE_VOLUME}" for pool in pools if pool.name == base_pool}
    networks = _networks(connection)
    known_bridges = bridges(connection)
    return Target(
        destination=destination,
        host_uuid=str(capabilities["uuid"]),
        machines=tuple(capabilities["machines"]),
        domain_types=tuple(capabilities["domain_types"]),
        qemu=int(connection.call("read the version", connection.conn.getVersion)),
        free_mib=_free(connection),
        domains=tuple(read_defined(connection, {pool.name: pool.path for pool in pools})),
        pools=tuple(pools),
        networks=tuple(networks),
        portgroups={name: info["portgroups"] for name, info in networks.items()},
        nwfilters=_nwfilters(connection, source),
        bridges=None if known_bridges is None else tuple(known_bridges),
        maintenance=is_marked(connection, NOTES) is True
        or any(marks & set(pool.volumes) for pool in pools),
        cpu_problem=_cpu_problem(connection, source),
        lacking=tuple(
            read_host_names.missing(
                connection, HostNames(source.names), uuid=source.uuid, moving=True
            )
        ),
    )


def _nwfilters(connection: Connection, source: Source) -> tuple[str, ...] | None:
    """Those there, if the VM names any; None if libvirt does not report them."""
    known = nwfilters.known(connection) if source.nwfilters else None
    return None if known is None else tuple(known)


def _free(connection: Connection) -> int | None:
    stats = connection.call("read memory", connection.conn.getMemoryStats, -1, 0)
    if "free" not in stats:
        return None
    return sum(int(stats.get(key, 0)) for key in ("free", "buffers", "cached")) // 1024


def read_defined(connection: Connection, pools: t.Mapping[str, str]) -> list[DestinationDomain]:
    """Read every domain with all files it references; ``pools`` maps pools to their folders."""

    def read(dom: VirDomain) -> DestinationDomain:
        active, persistent = bool(dom.isActive()), bool(dom.isPersistent())
        texts = [dom.XMLDesc(DOMAIN_XML_INACTIVE)] if persistent else []
        texts += [dom.XMLDesc(0)] if active else []
        roots = [_lxml.parse(text, f"domain {dom.name()}") for text in texts]
        files: set[str] = set()
        for root in roots:
            named = file_references.of_definition(root)
            files |= named.paths
            files |= {f"{pools[pool]}/{name}" for pool, name in named.volumes if pool in pools}
        macs = {
            str(mac.get("address")).lower()
            for root in roots
            for mac in root.iterfind("devices/interface/mac")
        }
        return DestinationDomain(
            name=str(dom.name()),
            uuid=str(dom.UUIDString()),
            active=active,
            state=state_name(dom.state(0)[0]),
            macs=tuple(sorted(macs)),
            files=frozenset(files),
            metadata=metadata.parse(roots[0]) if roots else None,
        )

    listed = connection.call("list domains", connection.conn.listAllDomains, 0)
    domains = connection.each_there(
        read, listed, lambda dom: f"read domain {dom.name()}", ERR_NO_DOMAIN
    )
    return [defined for _dom, defined in domains]


def read_pools(connection: Connection, *, refresh: bool = False) -> list[DestinationPool]:
    """Read the pools of files. With ``refresh`` libvirt refreshes them first, which is a change:
    it then lists files that were added behind its back."""
    entries = []
    declared = SharedPools(connection)
    for pool in list_pools(connection):
        name = str(pool.name())
        info = storage_info.pool(connection.call(f"read pool {name}", pool.XMLDesc, 0))
        if info["type"] not in FOLDER_TYPES or not info["path"]:
            continue
        path = str(info["path"]).rstrip("/")
        if not connection.call(f"read pool {name}", pool.isActive):
            absent = declared.absent(name, path)
            entries.append(DestinationPool(name, path, False, absent=absent))
            continue
        if refresh:
            # another VM's volume may be under construction there
            storage.patiently(
                connection, f"refresh pool {name}", functools.partial(pool.refresh, 0)
            )
        absent = declared.absent(name, path)
        if absent is not None:
            entries.append(DestinationPool(name, path, False, absent=absent))
            continue
        available = int(connection.call(f"read pool {name}", pool.info)[3])
        handles = list(connection.call(f"list pool {name}", list_handles, pool).values())
        described = connection.each_there(
            describe_volume,
            handles,
            lambda handle: f"read volume {handle.name}",
            ERR_NO_STORAGE_VOL,
        )
        volumes = {
            handle.path: Volume(
                handle.name, handle.path, int(facts["capacity_bytes"] or 0), facts["backing"]
            )
            for handle, facts in described
        }
        entries.append(DestinationPool(name, path, True, available, volumes))
    return entries


def _networks(connection: Connection) -> dict[str, NetworkInfo]:
    """The active networks by their names."""
    active = CONNECT_LIST_NETWORKS_ACTIVE
    listed = connection.call("list networks", connection.conn.listAllNetworks, active)
    networks = {
        str(network.name()): network_info.network(
            connection.call("read network", network.XMLDesc, 0)
        )
        for network in listed
    }
    return dict(sorted(networks.items()))


def _cpu_problem(connection: Connection, source: Source) -> str | None:
    """Why the destination's CPU is incompatible; an emulated one is the same everywhere."""
    if source.cpu is None or source.domain_type != "kvm":
        return None
    try:
        connection.call(
            "compare CPUs",
            connection.conn.compareHypervisorCPU,
            None,
            source.arch,
            source.machine,
            source.domain_type,
            source.cpu,
            CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE,
        )
    except LibvirtFailure as error:
        return None if error.code == ERR_NO_SUPPORT else str(error)
    return None
