# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory in huge pages: what a definition has in them, and what a hypervisor sets aside."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import host_info
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import huge_pages
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse

FIXTURES = Path(__file__).parents[1] / "fixtures" / "capabilities"
_MEMORY = "<memory unit='GiB'>4</memory>"
_TWO = "<cpu><numa><cell id='0' memory='1' unit='GiB'/><cell id='1' memory='3145728'/></numa></cpu>"
_DIMM = "<memory model='dimm'>{}<target><size unit='GiB'>1</size><node>{}</node></target></memory>"


def _backed(pages: str) -> str:
    return f"<memoryBacking><hugepages>{pages}</hugepages></memoryBacking>"


_2M, _1G = "<page size='2048' unit='KiB'{}/>", "<page size='1' unit='G'{}/>"
# A definition, and its MiB by the size of page in KiB
_DOMAINS = {
    "ordinary": (_MEMORY, {}),
    "shared is ordinary": (f"{_MEMORY}<memoryBacking><source type='memfd'/></memoryBacking>", {}),
    "default size": (_MEMORY + _backed(""), {0: 4096}),
    "2 MiB": (_MEMORY + _backed(_2M.format("")), {2048: 4096}),
    "1 GiB": (_MEMORY + _backed(_1G.format("")), {1048576: 4096}),
    "the ordinary size": (_MEMORY + _backed("<page size='4'/>"), {}),
    "one node of two": (_MEMORY + _TWO + _backed(_1G.format(" nodeset='0'")), {1048576: 1024}),
    "each node its own": (
        _MEMORY + _TWO + _backed(_1G.format(" nodeset='0'") + _2M.format(" nodeset='1'")),
        {1048576: 1024, 2048: 3072},
    ),
    "the other nodes": (
        _MEMORY + _TWO + _backed(_1G.format(" nodeset='1'") + _2M.format("")),
        {2048: 1024, 1048576: 3072},
    ),
    "a set of nodes": (_MEMORY + _TWO + _backed(_2M.format(" nodeset='0-1'")), {2048: 4096}),
    "without nodes the first": (_MEMORY + _backed(_2M.format(" nodeset='0'")), {2048: 4096}),
    "memory device of its own size": (
        _MEMORY
        + "<devices>"
        + _DIMM.format("<source><pagesize unit='MiB'>2</pagesize></source>", 0)
        + "</devices>",
        {2048: 1024},
    ),
    "memory device by its node": (
        "<memory unit='GiB'>5</memory>"
        + _TWO
        + _backed(_1G.format(" nodeset='1'"))
        + f"<devices>{_DIMM.format('', 1)}</devices>",
        {1048576: 4096},
    ),
    "memory device that is a file": (
        _MEMORY
        + _backed("")
        + f"<devices>{_DIMM.format('', 0).replace('dimm', 'nvdimm')}</devices>",
        {0: 3072},
    ),
    "nothing said": ("", {}),
}


@pytest.mark.parametrize(("xml", "expected"), _DOMAINS.values(), ids=_DOMAINS.keys())
def test_memory_in_huge_pages_is_as_libvirt_makes_it(xml: str, expected: dict[int, int]) -> None:
    found = huge_pages.of_domain(parse(f"<domain>{xml}</domain>", "it"))
    assert {one["size_kib"]: one["memory_mib"] for one in found} == expected


def test_pages_of_all_nodes_are_set_aside_by_size() -> None:
    xml = (FIXTURES / "kvm_two_nodes.xml").read_text(encoding="utf-8")
    pages = "<pages unit='KiB' size='2048'>100</pages>"
    xml = xml.replace("<cell id='1'>", f"<cell id='1'>{pages}", 1)
    numa = host_info.capabilities(xml)["numa"]
    assert huge_pages.reserved(numa, huge_pages.DEFAULT) == {2048: 1024 + 200, 1048576: 0}
    # the default size is the first
    assert [*huge_pages.reserved(numa, 1048576)] == [1048576, 2048]
    assert huge_pages.reserved([], huge_pages.DEFAULT) == {}


def test_vms_take_complete_pages_of_their_size() -> None:
    default = [{"size_kib": 0, "memory_mib": 3}]
    large, odd = ([{"size_kib": size, "memory_mib": 1025}] for size in (1048576, 64))
    entries = huge_pages.entries(
        {2048: 49152, 1048576: 2048},
        [(True, default), (False, default), (True, large), (False, odd), (True, ())],  # type: ignore[list-item]
    )
    assert entries == [
        {"size_kib": 2048, "total": 49152, "running": 4, "defined": 8},
        {"size_kib": 1048576, "total": 2048, "running": 2048, "defined": 2048},
        {"size_kib": 64, "total": 0, "running": 0, "defined": 1025},
    ]
