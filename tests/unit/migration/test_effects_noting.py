# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a move leaves in the pool of notes of its source, on libvirt's test driver."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import (
    effects_heard,
    heard,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import effects_noting
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.options import Destination
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.read_endpoints import (
    Endpoints,
)

_ROUTED = ("198.51.100.7", "2001:db8::7")  # addresses of documentation, on no link
_POOL = "<pool type='dir'><name>fleet-notes</name><target><path>{}</path></target></pool>"


def _held(connection: Connection) -> list[str]:
    pool = connection.conn.storagePoolLookupByName("fleet-notes")
    return [volume.name() for volume in pool.listAllVolumes()]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Connection]:
    with connect("test:///default", 5) as opened:
        pool = opened.conn.storagePoolDefineXML(_POOL.format(tmp_path), 0)
        pool.create(0)
        # the driver's volumes are no files, so they are read as the driver has them
        monkeypatch.setattr(effects_heard, "volumes", lambda: _held(opened))
        monkeypatch.setattr(Connection, "local", True)
        try:
            yield opened
        finally:
            pool.destroy()
            pool.undefine()


def test_move_keeps_which_routed_address_answered(source: Connection) -> None:
    for address in (*_ROUTED, _ROUTED[0]):
        ends = Endpoints(source, "test", "hv1", Destination("hv2", address))
        effects_noting.leave(source, ends, {})
    volumes = {heard.volume(ipaddress.ip_address(address)) for address in _ROUTED}
    assert {*_held(source)} == volumes


def test_note_of_vm_is_left_beside_that(source: Connection) -> None:
    ends = Endpoints(source, "test", "hv1", Destination("hv2", _ROUTED[0]))
    effects_noting.leave(source, ends, {"hv2": f"{'2' * 8}-2222-4222-8222-{'2' * 12}.7"})
    claims = [name for name in _held(source) if not name.startswith("heard.")]
    assert claims
    assert len(_held(source)) == len(claims) + 1
