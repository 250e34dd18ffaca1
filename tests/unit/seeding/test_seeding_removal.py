# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A seed medium that could not be made: what is there under its name is somebody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import LibvirtFailure
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    effects_nocloud as seed_nocloud,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import effects as seeding
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    effects_storage as storage,
)

_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
_NAME = "web1_seed.iso"
_DOMAIN = (
    "<domain type='test'><name>web1</name><memory>131072</memory><os><type>hvm</type></os></domain>"
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A node whose pool has a volume that came after it was seen that the name is free."""
    node = tmp_path / "node.xml"
    node.write_text(
        f"<node>{_DOMAIN}<pool type='dir'><name>default</name><target><path>{tmp_path}</path>"
        f"</target><volume type='file'><name>{_NAME}</name><capacity>4096</capacity><target>"
        f"<path>{tmp_path}/{_NAME}</path></target></volume></pool></node>"
    )
    with connect(f"test://{node}", 10) as opened:
        opened.conn.lookupByName("web1").destroy()
        yield opened


def test_somebody_was_faster(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    medium = seed_nocloud.Medium(b"secret", "ssh-ed25519 AAAA")
    monkeypatch.setattr(Connection, "local", True)
    monkeypatch.setattr(locks, "own_folder", lambda: tmp_path)
    monkeypatch.setattr(seed_nocloud, "make", lambda *_arguments: medium)
    monkeypatch.setattr(seed_nocloud, "require_programs", lambda: None)
    monkeypatch.setattr(storage, "is_taken", lambda *_arguments: False)
    theirs = tmp_path / _NAME
    theirs.write_bytes(b"somebody's")
    pool = storage.find_pool(connection, "default", None)
    assert pool is not None
    assert storage.find_volume(connection, pool, _NAME) is not None
    options = {"user": "admin", "ssh_public_keys": [_KEY]}
    with pytest.raises(LibvirtFailure, match=f"create volume {_NAME}"):
        seeding.run(connection, "web1", "present", options, "default", check=False)
    assert storage.find_volume(connection, pool, _NAME) is not None
    assert theirs.read_bytes() == b"somebody's"
    assert lookup.read_metadata(connection, connection.conn.lookupByName("web1")) is None
