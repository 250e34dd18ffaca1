# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain's XML (virDomainGetXMLDesc) as the facts that results show.

What the document does not state is None, or the default in libvirt's format documentation.
Unknown elements and attributes are ignored. Disks, NICs, graphics and consoles come in the
document's order.
"""

from __future__ import annotations

import typing as t

from ..base import metadata as own_metadata
from ..base.xml_values import (
    attribute,
    bytes_of,
    first_children,
    mib_up,
    number,
    nvram_file,
    pci_address,
    read_root,
    text_of,
)
from ..storage import huge_pages

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.snapshot import (
        ConsoleEntry,
        DiskEntry,
        DomainInfo,
        FirmwareEntry,
        GraphicsEntry,
        HostdevEntry,
        MetadataEntry,
        MoveEntry,
        NicEntry,
        OwnVolumeEntry,
    )

_X86 = ("x86_64", "i686")

# Attribute of <source> that holds the source, by the disk's type
_DISK_SOURCE = {
    "file": "file",
    "block": "dev",
    "dir": "dir",
    "vhostuser": "path",
    "vhostvdpa": "dev",
}
# Attribute of <source> that holds the source, by the interface's type
_NIC_SOURCE = {
    "bridge": "bridge",
    "network": "network",
    "direct": "dev",
    "user": "dev",
    "ethernet": "dev",
    "vhostuser": "path",
    "internal": "name",
    "vdpa": "dev",
    "vds": "switchid",
}
_DEVICES = ("disk", "interface", "graphics", "serial", "console", "hostdev", "channel")
# Name by which the QEMU guest agent finds its channel
_AGENT_CHANNEL = "org.qemu.guest_agent.0"
# Interfaces that are a socket between two hypervisors
_NIC_SOCKETS = ("server", "client", "mcast", "udp")


def parse(xml: str, what: str) -> DomainInfo:
    """Facts about the domain that ``xml`` describes; ``what`` names it in errors.

    Sizes are MiB, rounded up. ``size_mib`` and ``allocation_mib`` of disks and ``addresses`` of
    NICs are not in the XML: None and empty, for the caller to fill in.

    Raises XmlError if the document is not readable or not a ``<domain>``.
    """
    root = read_root(xml, "domain", what)
    return from_root(root, own_metadata.parse(root))


def from_root(root: Element, own: own_metadata.Metadata | None) -> DomainInfo:
    """The same about a ``<domain>`` whose metadata are ``own``."""
    top = first_children(root)
    memory_max = bytes_of(top.get("memory"), "KiB")
    memory = bytes_of(top.get("currentMemory"), "KiB")
    vcpu = top.get("vcpu")
    vcpus_max = number(text_of(vcpu))
    vcpus = number(attribute(vcpu, "current"))
    domain_type = attribute(root, "type")
    system = first_children(top.get("os"))
    machine_type = system.get("type")
    arch, machine = attribute(machine_type, "arch"), attribute(machine_type, "machine")
    cpu = top.get("cpu")
    cpu_model = text_of(first_children(cpu).get("model"))
    devices = _by_tag(top.get("devices"))
    name = text_of(top.get("name"))
    stored = metadata_entry(own, name or "")
    disks = [_disk(disk) for disk in devices["disk"]]
    if stored["phase"] is not None:  # what keeps it from being started is not a disk of the VM
        disks = [disk for disk in disks if disk["target"] != own_metadata.BLOCKING_DRIVE]
    description: DomainInfo = {
        "name": name,
        "uuid": text_of(top.get("uuid")),
        "title": text_of(top.get("title")),
        "description": text_of(top.get("description")),
        "domain_type": domain_type,
        "arch": arch,
        "machine": machine,
        "firmware": _firmware(top.get("os"), system, domain_type, arch, machine),
        "cpu_mode": attribute(cpu, "mode") or ("custom" if cpu_model else None),
        "cpu_model": cpu_model,
        "vcpus": vcpus_max if vcpus is None else vcpus,
        "vcpus_max": vcpus_max,
        "memory_mib": mib_up(memory_max if memory is None else memory),
        "memory_max_mib": mib_up(memory_max),
        "disks": disks,
        "nics": [_nic(nic) for nic in devices["interface"]],
        "graphics": [_graphics(screen) for screen in devices["graphics"]],
        "consoles": _consoles(devices["serial"], devices["console"]),
        "hostdevs": [_hostdev(hostdev) for hostdev in devices["hostdev"]],
        "agent": any(_is_open_agent(channel) for channel in devices["channel"]),
        "metadata": stored,
    }
    in_pages = huge_pages.of_domain(root)
    if in_pages:
        description["hugepages"] = in_pages
    return description


def metadata_entry(stored: own_metadata.Metadata | None, name: str) -> MetadataEntry:
    """Our metadata of the VM ``name`` for a result: only JSON types, every key always present,
    without large values and those for internal use."""
    known = stored or own_metadata.Metadata()
    owner, image = known.owner, known.image
    return {
        "managed": stored is not None,
        "phase": known.phase,
        "owner": {
            "boot_id": owner.boot_id,
            "pid": owner.pid,
            "start_time": owner.start_time,
            "run": owner.run,
        }
        if owner
        else None,
        "home": known.home,
        "image": {"name": image.name, "digest": image.digest, "format": image.format}
        if image
        else None,
        "groups": list(known.groups),
        "affinity": list(known.affinity),
        "anti_affinity": list(known.anti_affinity),
        "tags": list(known.tags),
        "zone": known.zone,
        "user": known.user,
        "host_key": known.host_key,
        "volumes": [_own_volume(volume) for volume in known.volumes],
        "addresses": list(known.addresses),
        "evacuated_from": list(known.evacuated_from),
        "move": move_entry(known.move),
        "first_boot": known.first_boot,
        "start_order": known.start_order,
        "start_delay": known.start_delay,
        "ha": known.in_cell,
        "problem": own_metadata.remedy(name, known.broken) if known.broken else None,
    }


def move_entry(move: own_metadata.Move | None) -> MoveEntry | None:
    """The move of a domain, for a result."""
    if move is None:
        return None
    return {
        "source": move.source,
        "destination": move.destination,
        "run": move.run,
        "autostart": move.autostart,
        "state": move.state,
    }


def _own_volume(volume: own_metadata.OwnVolume) -> OwnVolumeEntry:
    """A volume for a result, without the identity of its file, which means nothing to people."""
    return {
        "pool": volume.pool,
        "name": volume.name,
        "path": volume.path,
        "target": volume.target,
        "role": volume.role,
    }


def firmware(root: Element) -> str | None:
    """Kind of firmware (``efi``, ``bios``) of a ``<domain>``; None if unknown."""
    element = first_children(root).get("os")
    system = first_children(element)
    kind = system.get("type")
    arch, machine = attribute(kind, "arch"), attribute(kind, "machine")
    return _firmware(element, system, attribute(root, "type"), arch, machine)["type"]


def _firmware(
    system: Element | None,
    children: t.Mapping[str, Element],
    domain_type: str | None,
    arch: str | None,
    machine: str | None,
) -> FirmwareEntry:
    loader = children.get("loader")
    kind = attribute(system, "firmware")
    if kind is None and attribute(loader, "type") == "pflash":
        kind = "efi"  # libvirt documents flash for UEFI only
    elif kind is None and loader is None and domain_type in ("kvm", "qemu") and arch in _X86:
        kind = None if (machine or "").startswith("microvm") else "bios"
    return {
        "type": kind,
        "loader": (text_of(loader) or "").strip() or None,
        "nvram": _nvram(children.get("nvram")),
    }


def _nvram(element: Element | None) -> str | None:
    """Path of the variable store: the text, or since libvirt 8.5 a typed ``<source>``."""
    if element is None:
        return None
    kind = element.get("type")
    if kind in (None, "file"):
        return nvram_file(element)
    return _disk_source(str(kind), first_children(element).get("source"))[0]


def _by_tag(devices: Element | None) -> dict[str, list[Element]]:
    """The devices of each kind that is shown, in the document's order."""
    devices_by_tag: dict[str, list[Element]] = {tag: [] for tag in _DEVICES}
    if devices is not None:
        for device in devices.iterchildren(*_DEVICES):
            devices_by_tag[device.tag].append(device)
    return devices_by_tag


def _disk(disk: Element) -> DiskEntry:
    children = first_children(disk)
    kind = attribute(disk, "type") or "file"
    source, target = children.get("source"), children.get("target")
    backing = children.get("backingStore")
    place, pool, volume = _disk_source(kind, source)
    return {
        "target": attribute(target, "dev"),
        "bus": attribute(target, "bus"),
        "device": attribute(disk, "device") or "disk",
        "type": kind,
        "source": place,
        "pool": pool,
        "volume": volume,
        "format": attribute(children.get("driver"), "type"),
        "backing": _backing(backing),
        "backing_known": backing is not None,
        "readonly": "readonly" in children,
        "shareable": "shareable" in children,
        "size_mib": None,
        "allocation_mib": None,
    }


def _backing(backing: Element | None) -> str | None:
    """Source of the first backing file; an empty ``<backingStore/>`` ends the chain."""
    if backing is None:
        return None
    kind = backing.get("type")
    return _disk_source(kind, first_children(backing).get("source"))[0] if kind else None


def _disk_source(kind: str, source: Element | None) -> tuple[str | None, str | None, str | None]:
    """The disk's source, and pool and volume if the XML names them (``type='volume'``)."""
    if source is None:
        return None, None, None
    name = _DISK_SOURCE.get(kind)
    if name is not None:
        return source.get(name) or None, None, None
    if kind == "volume":
        pool, volume = source.get("pool") or None, source.get("volume") or None
        return (f"{pool}/{volume}" if pool and volume else None), pool, volume
    if kind == "network":
        return _on_network(source), None, None
    if kind == "nvme":
        address = pci_address(first_children(source).get("address"))
        return (f"{address}/{source.get('namespace')}" if address else None), None, None
    return None, None, None


def _on_network(source: Element) -> str | None:
    """``nbd://192.0.2.1:10809/v``, with every host named; ``nbd:v`` if there is none."""
    protocol, name = source.get("protocol"), source.get("name")
    if not protocol:
        return None
    hosts, sockets = [], []
    for host in source.iterchildren("host"):
        address, port, path = host.get("name"), host.get("port"), host.get("socket")
        if path:
            sockets.append(path)
        elif address:
            shown = f"[{address}]" if ":" in address else address
            hosts.append(f"{shown}:{port}" if port else shown)
    image = f"/{name.lstrip('/')}" if name else ""
    if hosts:
        return f"{protocol}://{','.join(hosts)}{image}"
    if sockets:
        return f"{protocol}+unix://{image}?socket={sockets[0]}"
    return f"{protocol}:{name}" if name else protocol


def _nic(nic: Element) -> NicEntry:
    children = first_children(nic)
    kind = attribute(nic, "type")
    link = attribute(children.get("link"), "state") or "up"
    vlan = children.get("vlan")
    tags = [] if vlan is None else [number(tag.get("id")) for tag in vlan.iterchildren("tag")]
    return {
        "mac": attribute(children.get("mac"), "address"),
        "type": kind,
        "source": _nic_source(kind, children.get("source")),
        "model": attribute(children.get("model"), "type"),
        "link": link if link in ("up", "down") else None,
        "target": attribute(children.get("target"), "dev"),
        "vlan": [tag for tag in tags if tag is not None],
        "addresses": [],
    }


def _nic_source(kind: str | None, source: Element | None) -> str | None:
    if source is None or kind is None:
        return None
    if kind in _NIC_SOURCE:
        return source.get(_NIC_SOURCE[kind]) or None
    if kind == "hostdev":
        return pci_address(first_children(source).get("address"))
    if kind in _NIC_SOCKETS:
        address, port = source.get("address"), source.get("port")
        return f"{address or ''}:{port}" if port else None
    return None


def nic_source(nic: Element) -> str | None:
    """What an ``<interface>`` is attached to: the name of a bridge or network, an address."""
    return _nic_source(attribute(nic, "type"), first_children(nic).get("source"))


def listens_on(graphics: Element) -> str | None:
    """The address that a ``<graphics>`` listens on."""
    listens = list(graphics.iterchildren("listen"))
    return graphics.get("listen") or _first(listens, "address")


def _graphics(graphics: Element) -> GraphicsEntry:
    listens = list(graphics.iterchildren("listen"))
    return {
        "type": graphics.get("type"),
        "listen": listens_on(graphics),
        # -1, or 0, means a port that is chosen when the domain starts
        "port": number(graphics.get("port")) or None,
        "tls_port": number(graphics.get("tlsPort")) or None,
        "socket": graphics.get("socket") or _first(listens, "socket"),
    }


def _first(elements: t.Iterable[Element], name: str) -> str | None:
    return next((value for value in (item.get(name) for item in elements) if value), None)


def _consoles(serials: list[Element], consoles: list[Element]) -> list[ConsoleEntry]:
    ports = [_console(serial) for serial in serials]
    others = [_console(console) for console in consoles]
    # libvirt lists the first serial port a second time, as a console of target "serial"
    return ports + [
        console for console in others if not serials or console["target"] not in (None, "serial")
    ]


def _console(console: Element) -> ConsoleEntry:
    children = first_children(console)
    source = children.get("source")
    path = attribute(source, "path") or attribute(console, "tty")
    if path is None and attribute(source, "service"):
        path = f"{attribute(source, 'host') or ''}:{attribute(source, 'service')}"
    return {
        "type": attribute(console, "type"),
        "path": path,
        "target": attribute(children.get("target"), "type"),
        "log": attribute(children.get("log"), "file"),
    }


def _is_open_agent(channel: Element) -> bool:
    """Whether a channel is the guest agent's and a process in the guest has it open."""
    target = first_children(channel).get("target")
    return attribute(target, "name") == _AGENT_CHANNEL and attribute(target, "state") == "connected"


def _hostdev(hostdev: Element) -> HostdevEntry:
    """``type`` and ``source`` of a passed-through device: a PCI address, vendor:product, a path."""
    kind = attribute(hostdev, "type")
    children = first_children(first_children(hostdev).get("source"))
    address = children.get("address")
    source = None
    if kind == "pci":
        source = pci_address(address)
    elif kind == "mdev":
        source = attribute(address, "uuid")
    elif kind == "usb":
        parts = [attribute(children.get(tag), "id") for tag in ("vendor", "product")]
        if all(parts):
            source = ":".join(str(part).replace("0x", "") for part in parts)
        elif attribute(address, "bus") and attribute(address, "device"):
            source = f"{attribute(address, 'bus')}.{attribute(address, 'device')}"
    elif kind == "scsi":
        source = attribute(children.get("adapter"), "name")
    elif kind in ("storage", "misc", "net"):  # mode='capabilities', containers
        tags = {"storage": "block", "misc": "char", "net": "interface"}
        source = text_of(children.get(tags[kind]))
    return {"type": kind, "source": source}
