# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes wrong while VMs are removed, on libvirt's test driver."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    NAMESPACE,
    Owner,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_lease_holder as owner,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import effects as purge
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.plan import PurgeOptions

_DOMAIN = """
<domain type='test'>
  <name>{name}</name><memory>131072</memory><os><type>hvm</type></os>
  <metadata><f:fleet xmlns:f='{namespace}'><f:phase>creating</f:phase>
  <f:owner boot_id='{o.boot_id}' pid='{o.pid}' start_time='{o.start_time}' run='{o.run}'/>
  </f:fleet></metadata>
</domain>
"""
_LEFT = Owner(owner.boot_id(), 1, 1, "f")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A node of the test driver with two VMs whose runs are dead."""
    names = ("left", "other")
    texts = [_DOMAIN.format(name=name, namespace=NAMESPACE, o=_LEFT) for name in names]
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{''.join(texts)}</node>")
    with connect(f"test://{node}", 10) as opened:
        yield opened


def test_what_nobody_expected_is_the_failure_of_one_vm_by_its_name(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "local", True)
    look = purge._look

    def broken(*given: t.Any) -> t.Any:
        if given[1].name() == "other":
            raise ValueError("embedded null byte")
        return look(*given)

    monkeypatch.setattr(purge, "_look", broken)
    names = ["left", "other"]
    result = purge.run(connection, names, purge.PurgeSettings(PurgeOptions()), check=True)
    told = {vm["name"]: vm["msg"] for vm in result["vms"]}
    assert "unexpected ValueError: embedded null byte" in told["other"]
    assert "'left' was neither made nor adopted by this collection" in told["left"]
    assert "'other': unexpected" in result["msg"]
