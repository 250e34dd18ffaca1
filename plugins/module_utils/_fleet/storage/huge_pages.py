# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory in huge pages: what VMs draw from them, and what is set aside for them.

The kernel gives such memory to nothing else, so it is no room for other VMs, and a VM that is in
it takes none of the rest. By libvirt's rules (qemuBuildMemoryBackendProps): ``<page>`` without a
``nodeset`` is for every node of the guest that no other names, and none is the default size.
"""

from __future__ import annotations

import typing as t

from ..base.xml_values import (
    MIB,
    attribute,
    bytes_of,
    first_children,
    mib_up,
    number,
    scaled,
    text_of,
)
from .host_names import numbers

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.answers import InPages
    from ..base.snapshot import NumaEntry, PagesEntry

DEFAULT = 0  # the size that the hypervisor's kernel takes where none is named
_USUAL_KIB = 2048  # that size where only libvirt can be asked, which does not say it
_SMALLEST_KIB = 4  # the ordinary pages, which libvirt accepts as a size too
_OWN_FILE = ("nvdimm", "virtio-pmem", "sgx-epc")  # memory that is in no huge pages, whatever is set


def of_domain(root: Element) -> list[InPages]:
    """How much of the VM's memory is in huge pages, by their size."""
    top = first_children(root)
    pages, devices = _pages(top), first_children(top.get("devices"))
    if pages is None and "memory" not in devices:
        return []
    by_node: dict[int, int] = {}
    rest: int | None = None if pages is None else DEFAULT
    if pages:
        rest = next((size for size, nodes in pages if nodes is None), None)
        by_node = {node: size for size, nodes in pages for node in nodes or ()}
    numa = first_children(top.get("cpu")).get("numa")
    parts: list[tuple[int | None, int]] = []
    for place, cell in enumerate(() if numa is None else numa.iterchildren("cell")):
        node = number(attribute(cell, "id"))
        size = by_node.get(place if node is None else node, rest)
        parts.append((size, scaled(cell.get("memory"), cell.get("unit") or "KiB") or 0))
    has_cells = bool(parts)
    for device in top["devices"].iterchildren("memory") if "devices" in top else ():
        parts.append(_device(device, by_node, rest))
    # without nodes of its own a guest has the first size, whatever node that is for
    other = pages[0][0] if pages and not has_cells else rest
    whole = bytes_of(top.get("memory"), "KiB") or 0
    parts.append((other, max(0, whole - sum(size for _page, size in parts))))
    drawn: dict[int, int] = {}
    for page, size in parts:
        if page is not None and (page == DEFAULT or page > _SMALLEST_KIB) and size:
            drawn[page] = drawn.get(page, 0) + size
    return [{"size_kib": page, "memory_mib": -(-size // MIB)} for page, size in drawn.items()]


def _pages(top: t.Mapping[str, Element]) -> list[tuple[int, set[int] | None]] | None:
    """Sizes, each with the guest's nodes that it is for; None without huge pages."""
    hugepages = first_children(top.get("memoryBacking")).get("hugepages")
    if hugepages is None:
        return None
    return [
        (_size(page.get("size"), page.get("unit")), numbers(nodes) if nodes else None)
        for page in hugepages.iterchildren("page")
        for nodes in [attribute(page, "nodeset")]
    ]


def _size(size: str | None, unit: str | None) -> int:
    return (scaled(size, unit or "KiB") or 0) // 1024


def _device(
    device: Element, by_node: t.Mapping[int, int], rest: int | None
) -> tuple[int | None, int]:
    """The page size of a memory device, and its bytes."""
    children = first_children(device)
    source, target = first_children(children.get("source")), first_children(children.get("target"))
    size = bytes_of(target.get("size"), "KiB") or 0
    if device.get("model") in _OWN_FILE:
        return None, size
    named = source.get("pagesize")
    if named is not None:
        return _size(text_of(named), attribute(named, "unit")), size
    node = number(text_of(target.get("node")))
    return (rest if node is None else by_node.get(node, rest)), size


def ordinary_mib(memory_mib: int | None, in_pages: t.Iterable[InPages]) -> int:
    """What the VM takes of the memory beside the huge pages."""
    return max(0, (memory_mib or 0) - sum(one["memory_mib"] for one in in_pages))


def growth(before: Element, after: Element) -> tuple[int, tuple[tuple[int, int], ...]]:
    """What a changed VM takes more: of ordinary memory, and of huge pages by their size."""
    was, now = of_domain(before), of_domain(after)
    held = {one["size_kib"]: one["memory_mib"] for one in was}
    gained = ((one["size_kib"], one["memory_mib"] - held.get(one["size_kib"], 0)) for one in now)
    whole = [
        mib_up(bytes_of(first_children(root).get("memory"), "KiB")) for root in (before, after)
    ]
    more = ordinary_mib(whole[1], now) - ordinary_mib(whole[0], was)
    return max(0, more), tuple((size, mib) for size, mib in gained if mib > 0)


def reserved(numa: t.Iterable[NumaEntry], default_kib: int) -> dict[int, int]:
    """MiB that are set aside, by size of page in KiB, the default size first; by the NUMA nodes of
    libvirt's capabilities, which libvirt reads anew each time."""
    sizes: dict[int, int] = {}
    for cell in numa:
        for pages in cell["hugepages"]:
            size = pages["size_kib"]
            sizes[size] = sizes.get(size, 0) + size * (pages["total"] or 0)
    first = default_kib or _USUAL_KIB
    order = sorted(sizes, key=lambda size: (size != first, size))
    return {size: sizes[size] // 1024 for size in order}


def entries(
    set_aside: t.Mapping[int, int], vms: t.Iterable[tuple[bool, t.Iterable[InPages]]]
) -> list[PagesEntry]:
    """What is set aside and what is promised of it, by size; ``vms`` are all that are defined, with
    whether each runs."""
    found: dict[int, PagesEntry] = {
        size: {"size_kib": size, "total": total, "running": 0, "defined": 0}
        for size, total in set_aside.items()
    }
    for active, in_pages in vms:
        for one in in_pages:
            size = real_size(one["size_kib"], found)
            entry = found.setdefault(
                size, {"size_kib": size, "total": 0, "running": 0, "defined": 0}
            )
            taken = whole_pages(one["memory_mib"], size)
            entry["defined"] += taken
            entry["running"] += taken if active else 0
    return list(found.values())


def real_size(size_kib: int, known: t.Iterable[int]) -> int:
    """The size in KiB that is meant where ``known`` are those that there are, the default first."""
    return size_kib or next(iter(known), _USUAL_KIB)


def whole_pages(memory_mib: int, size_kib: int) -> int:
    """MiB of the pages that hold this much memory."""
    return -(-(-(-memory_mib * 1024 // size_kib) * size_kib) // 1024)
