# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host's capabilities XML (virConnectGetCapabilities) as the facts that results show."""

from __future__ import annotations

import typing as t

from ..base.xml_values import (
    attribute,
    bytes_of,
    first_children,
    mib_down,
    number,
    read_root,
    scaled,
    text_of,
)

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.snapshot import Capabilities, Hugepages, NumaEntry, Topology


def capabilities(xml: str, what: str = "capabilities") -> Capabilities:
    """Facts about the host. ``domain_types`` are those for the host's own architecture.

    ``topology`` counts the host's sockets, the cores of a socket and the threads of a core.

    Raises XmlError if the document is not readable or not ``<capabilities>``.
    """
    root = read_root(xml, "capabilities", what)
    host = first_children(first_children(root).get("host"))
    cpu = first_children(host.get("cpu"))
    arch = text_of(cpu.get("arch"))
    cells = _children(first_children(host.get("topology")).get("cells"), "cell")
    transports = first_children(host.get("migration_features")).get("uri_transports")
    return {
        "uuid": text_of(host.get("uuid")),
        "arch": arch,
        "domain_types": _domain_types(root, arch),
        "machines": _machines(root, arch),
        "cpu_model": text_of(cpu.get("model")),
        "cpu_vendor": text_of(cpu.get("vendor")),
        "topology": _topology(cells, cpu.get("topology")),
        "numa": [_cell(cell) for cell in cells],
        "iommu": {"yes": True, "no": False}.get(attribute(host.get("iommu"), "support") or ""),
        "migration_transports": [
            name for name in map(text_of, _children(transports, "uri_transport")) if name
        ],
    }


def firmwares(xml: str) -> list[str] | None:
    """Kinds of firmware (``efi``, ``bios``) that libvirt can select itself; None if its driver does
    not report them.

    ``xml`` is what virConnectGetDomainCapabilities returns. Raises XmlError as above.
    """
    root = read_root(xml, "domainCapabilities", "domain capabilities")
    system = first_children(root).get("os")
    reported = [enum for enum in _children(system, "enum") if enum.get("name") == "firmware"]
    if not reported:
        return None
    return [str(value.text) for value in _children(reported[0], "value") if value.text]


def secure_boot(xml: str) -> bool | None:
    """Whether libvirt finds firmware with secure boot; None if its driver does not report it.

    ``xml`` as of :func:`firmwares`.
    """
    root = read_root(xml, "domainCapabilities", "domain capabilities")
    loader = first_children(first_children(root).get("os")).get("loader")
    reported = [enum for enum in _children(loader, "enum") if enum.get("name") == "secure"]
    if not reported:
        return None
    return "yes" in [value.text for value in _children(reported[0], "value")]


def loaders(xml: str) -> list[str]:
    """The files of firmware that libvirt knows of and that exist; ``xml`` as of
    :func:`firmwares`."""
    root = read_root(xml, "domainCapabilities", "domain capabilities")
    loader = first_children(first_children(root).get("os")).get("loader")
    return [str(value.text) for value in _children(loader, "value") if value.text]


def emulators(xml: str) -> list[str]:
    """The emulators of the host's ``<capabilities>``, of any architecture."""
    root = read_root(xml, "capabilities", "capabilities")
    return sorted({str(one.text) for one in root.iter("emulator") if one.text})


def tpms(xml: str) -> list[str] | None:
    """Models of TPM 2.0 that can be emulated; None if libvirt's driver does not report them.

    ``xml`` as of :func:`firmwares`. libvirt before 8.6 reports no versions, and supports both.
    """
    devices = first_children(read_root(xml, "domainCapabilities", "domain capabilities"))
    tpm = first_children(devices.get("devices")).get("tpm")
    if tpm is None:
        return None
    reported = {
        str(enum.get("name")): [str(value.text) for value in _children(enum, "value")]
        for enum in _children(tpm, "enum")
    }
    emulated = "emulator" in reported.get("backendModel", ())
    return (
        reported.get("model", [])
        if emulated and "2.0" in reported.get("backendVersion", "2.0")
        else []
    )


def _machines(root: Element, arch: str | None) -> list[str]:
    """Machine types of that architecture, sorted, each once."""
    return sorted(
        {
            str(machine.text)
            for guest in _children(root, "guest")
            for architecture in _children(guest, "arch")
            if architecture.get("name") == arch
            for machine in architecture.iter("machine")
            if machine.text
        }
    )


def _children(element: Element | None, tag: str) -> list[Element]:
    return [] if element is None else list(element.iterchildren(tag))


def _domain_types(root: Element, arch: str | None) -> list[str]:
    return sorted(
        {
            kind
            for guest in root.iterchildren("guest")
            for machine in guest.iterchildren("arch")
            if machine.get("name") == arch
            for kind in (domain.get("type") for domain in machine.iterchildren("domain"))
            if kind
        }
    )


def _topology(cells: t.Sequence[Element], summary: Element | None) -> Topology:
    """The topology, from the list of processors: the summary counts sockets of one NUMA node only.

    The summary is used where the list is incomplete (an offline processor has only its id).
    """
    sockets: dict[str, dict[tuple[str | None, ...], int]] = {}
    for cell in cells:
        for cpu in _children(first_children(cell).get("cpus"), "cpu"):
            socket, core = cpu.get("socket_id"), cpu.get("core_id")
            if socket and core:
                cores = sockets.setdefault(socket, {})
                key = (cpu.get("die_id"), cpu.get("cluster_id"), core)
                cores[key] = cores.get(key, 0) + 1
    if sockets:
        return {
            "sockets": len(sockets),
            "cores": max(len(cores) for cores in sockets.values()),
            "threads": max(max(cores.values()) for cores in sockets.values()),
        }
    dies, clusters = (number(attribute(summary, name)) or 1 for name in ("dies", "clusters"))
    cores_of_cluster = number(attribute(summary, "cores"))
    return {
        "sockets": number(attribute(summary, "sockets")),
        "cores": None if cores_of_cluster is None else cores_of_cluster * dies * clusters,
        "threads": number(attribute(summary, "threads")),
    }


def _cell(cell: Element) -> NumaEntry:
    children = first_children(cell)
    sizes: list[Hugepages] = []
    for pages in cell.iterchildren("pages"):
        size = scaled(attribute(pages, "size"), attribute(pages, "unit") or "KiB")
        if size is not None:
            sizes.append({"size_kib": size // 1024, "total": number(text_of(pages))})
    sizes.sort(key=lambda pages: pages["size_kib"])
    return {
        "id": number(cell.get("id")),
        "memory_mib": mib_down(bytes_of(children.get("memory"), "KiB")),
        "cpus": len(_children(children.get("cpus"), "cpu")),
        "free_mib": None,
        "hugepages": sizes[1:],  # the smallest are the ordinary pages
    }
