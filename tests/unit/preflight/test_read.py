# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what preflight judges, from libvirt's own test driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_bridges
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import read as preflight
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import read_host

_UUID = "82db5a07-2a58-4631-8428-769d765478a1"


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
        network = connection.conn.networkDefineXML(
            "<network><name>lan</name><forward mode='bridge'/><bridge name='by-network'/></network>"
        )
        sources = {"bridge": "bridge='by-nic'", "network": "network='lan'"}
        made = [
            connection.conn.defineXMLFlags(
                f"<domain type='test'><name>on-{kind}</name><memory>1024</memory>"
                "<os><type>hvm</type></os><devices>"
                f"<interface type='{kind}'><source {source}/></interface></devices></domain>",
                0,
            )
            for kind, source in sources.items()
        ]
        used = read_bridges.used(connection)
        for one in (*made, network):
            one.undefine()
    assert {"by-nic", "by-network"} <= used
    names = [*settings.bridges, *settings.profile_bridges]
    needed = {name: preflight._bridge(name, settings, used)["needed"] for name in names}
    assert needed == {"asked": True, "unused": False, "by-nic": True, "by-network": True}
    assert preflight._bridge("unused", settings, None)["needed"] is None
    facts = preflight.read(settings)
    assert [bridge["name"] for bridge in facts["bridges"]] == names


@pytest.mark.parametrize(
    ("files", "lasting"),
    [
        ({"product_uuid": f"{_UUID.upper()}\n"}, True),
        ({"machine-id": f"{_UUID.replace('-', '')}\n"}, True),
        ({"libvirtd.conf": f'#host_uuid = "x"\n  host_uuid = "{_UUID}"  # ours\n'}, True),
        ({"virtqemud.conf": f"host_uuid='{_UUID}'"}, True),
        ({}, False),
        ({"product_uuid": "ffffffff-ffff-ffff-ffff-ffffffffffff", "libvirtd.conf": ""}, False),
        ({"libvirtd.conf": f'#host_uuid = "{_UUID}"\n'}, False),
    ],
)
def test_uuid_lasts_if_it_comes_from_a_file(
    files: dict[str, str], lasting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    sources = (tmp_path / "product_uuid", tmp_path / "machine-id")
    monkeypatch.setattr(read_host, "_UUID_FILES", sources)
    monkeypatch.setattr(read_host, "_SETTINGS", tmp_path)
    assert read_host.has_lasting(_UUID) is lasting


def test_uuid_is_unknown_where_the_firmware_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_host, "_UUID_FILES", (tmp_path,))  # a folder: even root cannot read it
    monkeypatch.setattr(read_host, "_SETTINGS", tmp_path)
    assert read_host.has_lasting(_UUID) is None
