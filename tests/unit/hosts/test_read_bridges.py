# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bridges of a hypervisor: libvirt's test driver and this machine's kernel answer."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_bridges import bridges
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import read_host

_ETHERNET = "<interface type='ethernet' name='eth1'/>"
_BRIDGE = (
    "<interface type='bridge' name='{0}'>"
    "<bridge><interface type='ethernet' name='{0}-port'/></bridge></interface>"
)


@contextlib.contextmanager
def _node(folder: Path, *interfaces: str) -> Iterator[Connection]:
    """A node of libvirt's test driver with these ``interfaces``."""
    file = folder / "node.xml"
    file.write_text(f"<node>{''.join(interfaces)}</node>", encoding="utf-8")
    with connect(f"test://{file}", 5) as connection:
        yield connection


def test_bridges_of_a_remote_hypervisor_are_those_of_its_libvirt(tmp_path: Path) -> None:
    listed = [_BRIDGE.format("br7"), _ETHERNET, _BRIDGE.format("br1")]
    with _node(tmp_path, *listed) as connection:
        assert bridges(connection) == ["br1", "br7"]
        assert read_host(connection, "base")["bridges"] == ["br1", "br7"]


def test_bridges_are_unknown_if_libvirt_lists_none(tmp_path: Path) -> None:
    with _node(tmp_path, _ETHERNET) as connection:
        assert bridges(connection) is None
    with _node(tmp_path) as connection:
        assert bridges(connection) is None


def test_bridges_are_unknown_if_an_interface_is_unreadable(tmp_path: Path) -> None:
    """Reading ends after some characters, which the last interface exceeds."""
    listed = [_BRIDGE.format("br7"), _BRIDGE.format("br1")]
    with _node(tmp_path, *listed) as connection:
        connection.limit(60, 60)
        assert bridges(connection) is None


def test_bridge_that_vanishes_after_it_was_listed_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _node(tmp_path, _BRIDGE.format("br7"), _BRIDGE.format("br1")) as connection:
        listing = connection.conn.listAllInterfaces

        def list_and_remove(flags: int) -> t.Any:
            interfaces: t.Any = listing(flags)
            for interface in interfaces:
                if interface.name() == "br7":
                    if interface.isActive():
                        interface.destroy(0)
                    interface.undefine()
            return interfaces

        monkeypatch.setattr(connection.conn, "listAllInterfaces", list_and_remove)
        assert bridges(connection) == ["br1"]


def test_bridges_of_a_local_hypervisor_are_those_of_its_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "local", True)
    sys_net = Path("/sys/class/net")
    kernel = sorted(
        uevent.parent.name
        for uevent in sys_net.glob("*/uevent")
        if "DEVTYPE=bridge" in uevent.read_text()
    )
    with _node(tmp_path, _BRIDGE.format("br7")) as connection:
        assert bridges(connection) == (kernel if sys_net.is_dir() else None)
