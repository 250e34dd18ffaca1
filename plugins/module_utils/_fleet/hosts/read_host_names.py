# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of the names of a definition (``storage/host_names.py``) a hypervisor lacks.

Of another machine's hypervisor only that is known which libvirt tells; its files, and what other
programs use, only the machine itself sees.
"""

from __future__ import annotations

import os
import typing as t

from ... import _lxml
from ..._errors import FleetVirtError, LibvirtFailure
from ..._libvirt import (
    CONNECT_LIST_DOMAINS_ACTIVE,
    CONNECT_LIST_NETWORKS_ACTIVE,
    ERR_NO_DOMAIN,
    ERR_NO_SUPPORT,
)
from ..base import effects_deadline as deadline
from ..base import ip
from ..storage import host_names
from ..storage import read_paths as paths
from ..storage.host_names import HostName, HostNames
from . import listeners, read_neighbours, read_nwfilters, read_secrets
from . import read_placement_devices as devices
from . import read_tcp_table as tcp_table

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from ..base.effects_connection import Connection

_INTERFACES = "/sys/class/net"
_PCI = "/sys/bus/pci/devices"
_MEDIATED = "/sys/bus/mdev/devices"
_DEEPEST = 64  # backing files of one image
_SMALLEST_KIB = 4


def missing(
    connection: Connection,
    names: HostNames,
    incoming: t.Collection[str] = (),
    *,
    uuid: str | None = None,
    moving: bool = False,
) -> list[str]:
    """What is not there, each with its remedy; empty if nothing is known to be missing.

    ``incoming`` are files that will be there by then; ``uuid`` is the VM's own, whose ports and
    IDs are not another's. ``moving``: its memory comes along, and would overwrite another's.
    """
    problems: list[str] = []
    if connection.local:
        problems += _files(connection, names, incoming)
        problems += _of_kernel(names)
    else:
        problems += _programs_elsewhere(connection, names)
    problems += _known_to_libvirt(connection, names)
    problems += _machine(connection, names)
    problems += _taken(connection, names, uuid, moving=moving)
    return problems


def _files(
    connection: Connection, names: HostNames, incoming: t.Collection[str]
) -> t.Iterator[str]:
    """Files, programs, folders, sockets and devices that do not exist."""
    files = {
        name.value: name.use
        for name in reversed(names.names)
        if name.kind == host_names.FILE and name.value not in incoming
    }
    files = dict(reversed(files.items()))
    yield from _missing_files(connection, files, names.images)
    kinds = (host_names.PROGRAM, host_names.FOLDER, host_names.SOCKET, host_names.DEVICE)
    rest = [name for name in names.names if name.kind in kinds and name.value not in incoming]
    for name, outcome in zip(
        rest,
        deadline.each(
            _is_there, rest, seconds=connection.timeout, what=lambda name: f"look at {name.value}"
        ),
    ):
        if isinstance(outcome, deadline.Failed):
            yield f"{name.value} of {name.use} does not answer; its storage hangs"
        elif not outcome.value:
            yield _absent(name)


def _is_there(name: HostName) -> bool:
    if name.kind == host_names.PROGRAM:
        return os.path.isfile(name.value) and os.access(name.value, os.X_OK)
    if name.kind == host_names.FOLDER:
        return os.path.isdir(name.value)
    return os.path.exists(name.value)


def _absent(name: HostName) -> str:
    remedy = {
        host_names.PROGRAM: "install it, or change that in the definition",
        host_names.FOLDER: "make it or mount its storage, or change that in the definition",
        host_names.SOCKET: "start the program that makes it, or change that in the definition",
        host_names.DEVICE: "attach it, or remove it from the definition",
    }[name.kind]
    what = "is no program there" if name.kind == host_names.PROGRAM else "does not exist"
    if name.kind == host_names.FOLDER:
        return f"the folder {name.value} of {name.use} {what}; {remedy}"
    return f"{name.value} of {name.use} {what}; {remedy}"


def _missing_files(
    connection: Connection, files: t.Mapping[str, str], images: t.Collection[str]
) -> list[str]:
    """Files that do not exist, and backing files of ``images``, down to the last."""
    problems = []
    layer = files
    for _depth in range(_DEEPEST):
        probed = paths.probe(layer, connection.timeout)
        below: dict[str, str] = {}
        for path, user in layer.items():
            if path in probed.hanging:
                problems.append(f"{path} of {user} does not answer; its storage hangs")
            elif path not in probed.files and not os.path.exists(path):
                problems.append(
                    f"{path} of {user} does not exist; put it back, mount its storage, or remove"
                    " it from the definition"
                )
            elif path in probed.files and path in images and probed.files[path].backing:
                below[str(probed.files[path].backing)] = user
        if not below:
            break
        layer, images = below, below
    return problems


def _of_kernel(names: HostNames) -> t.Iterator[str]:
    """Interfaces, host devices and addresses that this machine does not have."""
    for bridge in names.bridges:
        if not os.path.exists(f"{_INTERFACES}/{bridge}"):
            yield f"there is no bridge {bridge!r} on its hypervisor; set it up, or change its NIC"
    for interface in names.of(host_names.INTERFACE):
        if not os.path.exists(f"{_INTERFACES}/{interface}"):
            yield f"there is no interface {interface!r} on its hypervisor; change its NIC"
    for device in names.of(host_names.HOST_DEVICE):
        kind, _blank, uuid = device.partition(" ")
        path = f"{_MEDIATED}/{uuid}" if kind == "mdev" else f"{_PCI}/{device}"
        if (uuid or ":" in device) and not os.path.exists(path):
            yield f"there is no device {device} on its hypervisor; detach it from the VM"
    if names.vsock and not devices.has_vsock():
        yield f"its vsock device needs /dev/vhost-vsock; {host_names.LOAD_VSOCK}"
    wanted = names.of(host_names.ADDRESS)
    own = [ip.address(one) for one in read_neighbours.own_addresses()] if wanted else []
    for address in wanted:
        if own and not _may_be_here(address, own):
            yield (
                f"its hypervisor has no address {address}, which the VM listens on; change its"
                " console to listen on 127.0.0.1, or on 0.0.0.0"
            )


def _may_be_here(address: str, own: t.Collection[ip.Address]) -> bool:
    """Whether it is an address of this machine, or a name, which libvirt looks up."""
    try:
        return ip.address(address) in own
    except ValueError:
        return True


def _programs_elsewhere(connection: Connection, names: HostNames) -> t.Iterator[str]:
    """Emulators of which the other machine's libvirt knows nothing."""
    for name in names.names:
        if name.kind != host_names.PROGRAM or name.use != "its emulator":
            continue
        try:
            connection.call(
                "look at the emulator",
                connection.conn.getDomainCapabilities,
                *(name.value, None, None, None, 0),
            )
        except LibvirtFailure as error:
            if error.code != ERR_NO_SUPPORT:
                yield _absent(name)


def _known_to_libvirt(connection: Connection, names: HostNames) -> list[str]:
    """Filters, networks, secrets and volumes that libvirt does not have."""
    problems = []
    if names.nwfilters:
        filters = read_nwfilters.known(connection)
        problems += [
            f"there is no network filter {name!r}; {host_names.DEFINE_NWFILTER}"
            for name in names.nwfilters
            if filters is not None and name not in filters
        ]
    if names.networks:
        active, known = _networks(connection, CONNECT_LIST_NETWORKS_ACTIVE), set[str]()
        if set(names.networks) - active:
            known = _networks(connection, 0)
        problems += [
            f"its network {name!r} is not active; start it (virsh net-start {name})"
            if name in known
            else f"there is no network {name!r}; define it (virsh net-define), or change its NIC"
            for name in names.networks
            if name not in active
        ]
    wanted = names.of(host_names.SECRET)
    secrets = read_secrets.known(connection) if wanted else None
    problems += [
        f"libvirt's secret {name} is not on it; define it, with its value"
        for name in wanted
        if secrets is not None and not {name, name.lower()} & {*secrets}
    ]
    volumes = names.of(host_names.VOLUME)
    return problems + (_missing_volumes(connection, volumes) if volumes else [])


def _networks(connection: Connection, flags: int) -> set[str]:
    listed = connection.call("list networks", connection.conn.listAllNetworks, flags)
    return {str(network.name()) for network in listed}


def _missing_volumes(connection: Connection, volumes: t.Iterable[str]) -> list[str]:
    listed = connection.call("list pools", connection.conn.listAllStoragePools, 0)
    pools = {str(pool.name()): pool for pool in listed}
    problems = []
    for volume in volumes:
        pool, _slash, name = volume.partition("/")
        handle = pools.get(pool)
        if handle is None:
            problems.append(f"there is no pool {pool!r}, which has its disk; define it there")
        elif not connection.call(f"read pool {pool}", handle.isActive):
            problems.append(f"pool {pool!r} of its disk is inactive; virsh pool-start {pool}")
        elif name not in connection.call(f"list pool {pool}", handle.listVolumes):
            problems.append(
                f"pool {pool!r} has no volume {name!r}, its disk; put it there (virsh"
                f" pool-refresh {pool} looks again), or remove it from the definition"
            )
    return problems


def _machine(connection: Connection, names: HostNames) -> t.Iterator[str]:
    """NUMA nodes, CPUs and sizes of huge pages that the machine does not have."""
    kinds = (host_names.NUMA_NODE, host_names.CPUS, host_names.HUGEPAGES)
    if not names.of(*kinds):
        return
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    host = _lxml.parse(text, "capabilities").find("host")
    if host is None:
        return
    cells = {str(cell.get("id")) for cell in host.iterfind("topology/cells/cell")}
    cpus = {int(str(cpu.get("id"))) for cpu in host.iterfind("topology/cells/cell/cpus/cpu[@id]")}
    sizes = {
        str(pages.get("size"))
        for pages in host.iterfind("cpu/pages[@size]")
        if int(str(pages.get("size"))) > _SMALLEST_KIB
    }
    for node in names.of(host_names.NUMA_NODE):
        if cells and node not in cells:
            yield f"there is no NUMA node {node}, which its memory is bound to; change numatune"
    for pinned in names.of(host_names.CPUS):
        wanted = host_names.numbers(pinned)
        if cpus and wanted and not wanted & cpus:
            yield f"there is none of the CPUs {pinned}, which it is pinned to; change the pinning"
    for size in names.of(host_names.HUGEPAGES):
        if size == "0" and not sizes:
            yield "it has no huge pages, which the VM's memory is in; reserve some at its boot"
        elif size != "0" and int(size) > _SMALLEST_KIB and sizes and size not in sizes:
            known = ", ".join(sorted(sizes, key=int))
            yield (
                f"there are no huge pages of {size} KiB, which its memory is in, but of {known}"
                " KiB; reserve some at its boot, or change page_size"
            )


def _taken(
    connection: Connection, names: HostNames, uuid: str | None, *, moving: bool
) -> t.Iterator[str]:
    """Ports, vsock IDs and shared memory that another VM that runs there has, or a program."""
    kinds = (host_names.PORT, host_names.VSOCK_ID, *([host_names.SHARED_MEMORY] if moving else []))
    wanted = [name for name in names.names if name.kind in kinds]
    if not wanted:
        return
    others = _others(connection, uuid)
    listening = list(listeners.listening(tcp_table.read()).values()) if connection.local else []
    for name in wanted:
        if name.kind == host_names.VSOCK_ID:
            vms = [vm for vm, root in others if _vsock_id(root) == name.value]
            if vms:
                yield (
                    f"its vsock ID {name.value} is {vms[0]!r}'s there, which runs; give it"
                    " another, or <cid auto='yes'/>"
                )
            continue
        if name.kind == host_names.SHARED_MEMORY:
            vms = [vm for vm, root in others if name.value in _shared_memory(root)]
            if vms:
                yield (
                    f"{vms[0]!r}, which runs there, has shared memory {name.value} too, which would"
                    " be overwritten; detach it from one of them"
                )
            continue
        address, port = host_names.port_of(name.value)
        vms = [vm for vm, root in others if _has_port(root, address, port)]
        if vms:
            yield (
                f"port {port} of {name.use} is {vms[0]!r}'s there, which runs; give it another,"
                " or let libvirt choose (autoport='yes')"
            )
        elif any(
            theirs == port and host_names.overlap(address, there) for there, theirs in listening
        ):
            yield (
                f"port {port} of {name.use} is in use there by another program; give it another,"
                " or let libvirt choose (autoport='yes')"
            )


def _others(connection: Connection, uuid: str | None) -> list[tuple[str, Element]]:
    """The other VMs that run, with their definitions."""
    listed = connection.call(
        "list domains", connection.conn.listAllDomains, CONNECT_LIST_DOMAINS_ACTIVE
    )

    def read(dom: VirDomain) -> tuple[str, Element]:
        return str(dom.name()), _lxml.parse(dom.XMLDesc(0), f"domain {dom.name()}")

    others = [dom for dom in listed if str(dom.UUIDString()) != uuid]
    try:
        entries = connection.each_there(
            read, others, lambda dom: f"read domain {dom.name()}", ERR_NO_DOMAIN
        )
    except FleetVirtError:  # what cannot be read is not known to be in the way
        return []
    return [entry for _dom, entry in entries]


def _vsock_id(root: Element) -> str | None:
    cid = root.find("devices/vsock/cid")
    return None if cid is None else cid.get("address")


def _shared_memory(root: Element) -> list[str]:
    return [str(shared.get("name")) for shared in root.iterfind("devices/shmem")]


def _has_port(root: Element, address: str, port: int) -> bool:
    """Whether a VM that runs listens there, whoever chose the port."""
    for screen in root.iterfind("devices/graphics"):
        listen = screen.get("listen") or ""
        ports = (screen.get(key) for key in ("port", "tlsPort", "websocket"))
        if str(port) in ports and host_names.overlap(address, listen):
            return True
    taken = (host_names.port_of(one) for one in host_names.of_definition(root).of(host_names.PORT))
    return any(theirs == port and host_names.overlap(address, there) for there, theirs in taken)
