# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what preflight judges, from libvirt's own test driver."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_bridges
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import read as preflight


def test_a_check_that_fails_takes_no_other_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_connection: object) -> None:
        raise FleetVirtError("no capabilities")

    monkeypatch.setattr(preflight, "_hypervisor", fails)
    settings = preflight.PreflightRequest(
        "test:///default", 5.0, [], ["default-pool", "absent"], []
    )
    facts = preflight.read(settings)
    assert facts["errors"]["hypervisor"] == "no capabilities"
    assert "cpu" not in facts["errors"]
    assert [(pool["name"], pool["state"]) for pool in facts["pools"]] == [
        ("default-pool", "running"),
        ("absent", None),
    ]


def test_bridge_of_a_profile_is_needed_where_a_vm_is_on_it() -> None:
    settings = preflight.PreflightRequest(
        "test:///default", 5.0, ["asked"], [], [], ["unused", "by-nic", "by-network"]
    )
    with connect("test:///default", 5.0) as connection:
        network = (
            "<network><name>lan</name><forward mode='bridge'/><bridge name='by-network'/></network>"
        )
        connection.conn.networkDefineXML(network)
        sources = {"bridge": "bridge='by-nic'", "network": "network='lan'"}
        for kind, source in sources.items():
            connection.conn.defineXMLFlags(
                f"<domain type='test'><name>on-{kind}</name><memory>1024</memory>"
                "<os><type>hvm</type></os><devices>"
                f"<interface type='{kind}'><source {source}/></interface></devices></domain>",
                0,
            )
        used = read_bridges.used(connection)
    assert {"by-nic", "by-network"} <= used
    names = [*settings.bridges, *settings.profile_bridges]
    needed = {name: preflight._bridge(name, settings, used)["needed"] for name in names}
    assert needed == {"asked": True, "unused": False, "by-nic": True, "by-network": True}
    assert preflight._bridge("unused", settings, None)["needed"] is None
    facts = preflight.read(settings)
    assert [bridge["name"] for bridge in facts["bridges"]] == names
