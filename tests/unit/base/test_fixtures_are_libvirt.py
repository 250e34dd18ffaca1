# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The XML these tests read is what libvirt would take: checked by libvirt's own schemas.

Two exceptions are by design: ``unknown_things`` is what a later libvirt might write, and
``kvm_two_nodes`` is what libvirt wrote before it told the clusters of processors apart (10.1).
"""

from __future__ import annotations

from pathlib import Path

import pytest

etree = pytest.importorskip("lxml.etree")

FIXTURES = Path(__file__).parents[1] / "fixtures"
SCHEMAS = Path("/usr/share/libvirt/schemas")  # of Debian's libvirt0 (12), libvirt-common (13)
SCHEMA_OF = {
    "domain": "domain.rng",
    "capabilities": "capability.rng",
    "pool": "storagepool.rng",
    "volume": "storagevol.rng",
    "network": "network.rng",
    "interface": "interface.rng",
}

pytestmark = pytest.mark.skipif(not SCHEMAS.is_dir(), reason=f"no libvirt schemas in {SCHEMAS}")


@pytest.mark.parametrize("kind", SCHEMA_OF)
def test_fixtures_are_valid(kind: str) -> None:
    source = SCHEMAS / SCHEMA_OF[kind]
    schema = etree.RelaxNG(file=str(source))
    paths = sorted((FIXTURES / kind).glob("*.xml"))
    assert paths
    expected = {"unknown_things"} if kind == "domain" else set()
    if kind == "capabilities" and "cluster_id" in source.read_text(encoding="utf-8"):
        expected = {"kvm_two_nodes"}
    assert {path.stem for path in paths if not schema.validate(etree.parse(str(path)))} == expected
