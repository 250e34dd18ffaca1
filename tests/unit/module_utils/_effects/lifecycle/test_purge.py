# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for other runs before VMs are removed, on libvirt's test driver."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._effects.base import owner
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._effects.lifecycle import purge
from ansible_collections.fleet.virt.plugins.module_utils._pure.base.metadata import NAMESPACE, Owner
from ansible_collections.fleet.virt.plugins.module_utils._pure.lifecycle.purge_plan import Options

_DOMAIN = """
<domain type='test'>
  <name>{name}</name><memory>131072</memory><os><type>hvm</type></os>
  <metadata><f:fleet xmlns:f='{namespace}'><f:phase>creating</f:phase>
  <f:owner boot_id='{o.boot_id}' pid='{o.pid}' start_time='{o.start_time}' run='{o.run}'/>
  </f:fleet></metadata>
</domain>
"""
_OWNERS = {
    "busy1": owner.myself("a"),
    "busy2": owner.myself("b"),
    "busy3": owner.myself("c"),
    "between1": owner.reserved("d"),
    "between2": owner.reserved("e"),
    "left": Owner(owner.boot_id(), 1, 1, "f"),
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A node of the test driver with VMs that are being made, and one whose run is dead."""
    texts = [_DOMAIN.format(name=name, namespace=NAMESPACE, o=one) for name, one in _OWNERS.items()]
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{''.join(texts)}</node>")
    with connect(f"test://{node}", 10) as opened:
        yield opened


def _seconds(connection: Connection, *names: str) -> float:
    began = time.monotonic()
    purge._wait_for_others(connection, names)
    return time.monotonic() - began


def test_all_that_are_busy_are_waited_for_together(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "_PATIENCE", 1.0)
    assert 1 <= _seconds(connection, "busy1", "busy2", "busy3", "left", "nobody") < 2


def test_claims_between_two_steps_are_observed_together(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "_OBSERVE", 1.0)
    assert 1 <= _seconds(connection, "between1", "between2") < 2


def test_nobody_waits_for_the_dead(connection: Connection) -> None:
    assert _seconds(connection, "left", "nobody") < 1


def test_what_nobody_expected_is_the_failure_of_one_vm_by_its_name(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "local", True)
    look = purge._look

    def broken(*given: t.Any) -> t.Any:
        if given[1].name() == "busy2":
            raise ValueError("embedded null byte")
        return look(*given)

    monkeypatch.setattr(purge, "_look", broken)
    names = ["left", "busy2"]
    result = purge.run(connection, names, purge.Settings(Options()), check=True)
    told = {vm["name"]: vm["msg"] for vm in result["vms"]}
    assert "unexpected ValueError: embedded null byte" in told["busy2"]
    assert "'left' was not made by this collection" in told["left"]
    assert "'busy2': unexpected" in result["msg"]
