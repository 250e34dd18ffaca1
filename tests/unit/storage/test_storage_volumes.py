# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools and volumes: found, made, filled and removed, on libvirt's test driver."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    LibvirtFailure,
    PlanRefused,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    effects_storage as storage,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

_NEW: dict[str, t.Any] = {"size": 4096, "volume_format": "raw"}


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return Machines(tmp_path, monkeypatch)


def _pool(connection: Connection) -> storage.Pool:
    pool = storage.find_pool(connection, "default", None)
    assert pool is not None
    return pool


def _make(connection: Connection) -> None:
    storage.create_volume(connection, _pool(connection), "new.raw", **_NEW)


def test_a_pool_is_found_by_its_name_before_its_folder(machines: Machines) -> None:
    with machines.new() as machine:
        connection, folder = machine.connection, str(machine.pool)
        assert _pool(connection).path == folder
        by_path = storage.find_pool(connection, "images", f"{folder}/")
        assert by_path is not None
        assert by_path.name == "default"
        both = storage.find_pool(connection, "base", folder)
        assert both is not None
        assert both.name == "base"
        assert storage.find_pool(connection, "images", None) is None
        assert storage.pool_at(connection, folder) == "default"
        assert storage.pool_at(connection, "/nowhere") is None


def test_a_pool_that_is_not_started_is_refused_and_known(machines: Machines) -> None:
    with machines.new() as machine:
        machine.connection.conn.storagePoolLookupByName("default").destroy()
        with pytest.raises(PlanRefused, match="virsh pool-start default"):
            storage.find_pool(machine.connection, "default", None)
        assert storage.pool_at(machine.connection, str(machine.pool)) == "default"


def test_a_pool_that_is_made_starts_at_boot(machines: Machines) -> None:
    with machines.new() as machine:
        made = machine.call(lambda this: storage.make_pool(this, "more", f"{machine.root}/more/"))
        assert made is not None
        found = storage.find_pool(machine.connection, "more", None)
        assert found is not None
        assert found.path == made.path == f"{machine.root}/more"
        assert found.handle.autostart()


def test_a_name_is_taken_by_a_volume_or_a_file(machines: Machines) -> None:
    def taken(machine: Machine, name: str) -> bool:
        return storage.is_taken(machine.connection, _pool(machine.connection), name)

    with machines.new() as machine:
        assert not taken(machine, "new.raw")
        assert taken(machine, "theirs.raw")  # libvirt has not heard of it
        machine.call(_make)
        assert taken(machine, "new.raw")
        with pytest.raises(LibvirtFailure, match=r"create volume new\.raw"):
            machine.call(_make)


def test_a_volume_is_removed_once(machines: Machines) -> None:
    with machines.new() as machine:
        machine.call(_make)
        pool = _pool(machine.connection)
        assert machine.call(lambda this: storage.delete_volume(this, pool, "new.raw"))
        assert machine.files() == {}
        assert machine.call(lambda this: storage.delete_volume(this, pool, "new.raw")) is False
        assert machine.faults() == []


@pytest.mark.parametrize(
    "said",
    [
        "pool 'default' has asynchronous jobs running.",
        "unexpected exit status 1: qemu-img: /a.qcow2: Unable to get accurate CPU usage",
    ],
)
def test_what_passes_is_tried_again(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setattr(storage.time, "sleep", lambda _seconds: None)
    busy = LibvirtFailure("create", said)

    class Busy:
        asked = 0

        def call(self, *_words: t.Any, **_limits: t.Any) -> str:
            Busy.asked += 1
            if Busy.asked < 4:
                raise busy
            return "made"

    assert storage.patiently(t.cast("Connection", Busy()), "create", lambda: None) == "made"
    assert Busy.asked == 4


def test_another_failure_is_told_at_once() -> None:
    class Full:
        asked = 0

        def call(self, *_words: t.Any, **_limits: t.Any) -> str:
            Full.asked += 1
            raise LibvirtFailure("create", "No space left on device")

    with pytest.raises(LibvirtFailure, match="No space left"):
        storage.patiently(t.cast("Connection", Full()), "create", lambda: None)
    assert Full.asked == 1
