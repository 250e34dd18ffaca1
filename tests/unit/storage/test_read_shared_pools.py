# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools that were declared shared: recorded in the pool of notes, and absent without their id."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    read as migration_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import (
    effects as notes_effects,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import read as notes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    effects_storage as storage,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    pool_xml,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    read_file_users as ownership,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_pools import (
    pool_entries,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_shared_pools import (
    POOL_ID_FILE,
    SharedPools,
    absent_text,
    read_id,
    record_name,
    recorded_in,
)

pytest.importorskip("libvirt")
ID = "0f6d8e0a-3d5e-4f61-9d5c-2b8f0c9a7e11"
FOLDER = "/default-pool"  # of libvirt's test driver, which has no file in it
RECORD = record_name(FOLDER, ID)


@pytest.mark.parametrize(
    ("volumes", "folder", "expected"),
    [
        ([RECORD], FOLDER, (ID,)),
        ([RECORD], f"{FOLDER}/", (ID,)),
        ([RECORD], "/other", ()),
        ([], FOLDER, ()),
        ([record_name(FOLDER, "b"), record_name(FOLDER, "a")], FOLDER, ("a", "b")),
        ([f"{RECORD}.x", f"x{RECORD}", "pool.0.a", "reading.x", ""], FOLDER, ()),
    ],
)
def test_records_name_the_ids_of_a_folder(
    volumes: list[str], folder: str, expected: tuple[str, ...]
) -> None:
    assert recorded_in(volumes, folder) == expected


@pytest.mark.parametrize("text", ["", "a/b", "a.b", "a b", "x" * 65, "\n"])
def test_text_that_is_no_id_is_not_recorded(text: str) -> None:
    assert record_name(FOLDER, text) is None


def test_id_is_read_from_its_file(tmp_path: Path) -> None:
    assert read_id(str(tmp_path)) is None
    assert read_id(str(tmp_path / "none")) is None
    (tmp_path / POOL_ID_FILE).write_text(" \n")
    assert read_id(str(tmp_path)) is None
    (tmp_path / POOL_ID_FILE).write_text(f"{ID}\n")
    assert read_id(str(tmp_path)) == ID


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        (None, f"/vms has no file {POOL_ID_FILE}; mount it there"),
        ("b", "at /vms is storage with the id b, not a; mount the right one"),
    ],
)
def test_absent_pool_is_named_with_its_host_and_a_remedy(actual: str | None, words: str) -> None:
    text = absent_text("vms", "hv2", "/vms", "a", actual)
    assert text.startswith("pool vms is not mounted on hv2: ")
    assert words in text


@contextlib.contextmanager
def recorded(*records: str) -> Iterator[Connection]:
    """libvirt's test driver, whose pool of notes has these volumes."""
    with connect("test:///default", 10) as connection:
        # this driver knows no flag to build a pool
        xml = pool_xml.render("fleet-notes", "/fleet-notes")
        pool = connection.conn.storagePoolDefineXML(xml, 0)
        try:
            pool.create(0)
            for record in records:
                notes_effects.keep(connection, record)
            yield connection
        finally:
            for volume in pool.listAllVolumes(0):
                volume.delete(0)
            pool.destroy()
            pool.undefine()


def test_pool_without_its_recorded_id_is_empty_for_no_reader() -> None:
    with recorded(RECORD) as connection:
        words = "pool default-pool is not mounted on "
        with pytest.raises(PlanRefused, match=words):
            storage.find_pool(connection, "default-pool", None)
        with pytest.raises(PlanRefused, match=words):
            storage.find_pool(connection, "other", FOLDER)
        with pytest.raises(PlanRefused, match=f"users of images are unknown here: {words}"):
            ownership.read(connection)
        place = ownership.read_pools(connection)["default-pool"]
        assert place.shared
        assert place.id == ID
        assert place.absent is not None
        (entry,) = pool_entries(connection)
        assert str(entry["error"]).startswith(words)
        (destination,) = migration_facts.read_pools(connection)
        assert str(destination.absent).startswith(words)
        assert not destination.active
        assert notes.held(connection) == []  # a record is no note


@pytest.mark.parametrize("records", [[], [record_name("/elsewhere", ID)]])
def test_pool_that_was_not_declared_shared_needs_no_id(records: list[str]) -> None:
    with recorded(*records) as connection:
        assert SharedPools(connection).absent("default-pool", FOLDER) is None
        assert storage.find_pool(connection, "default-pool", None) is not None
        assert ownership.read_pools(connection)["default-pool"].shared is False
        assert pool_entries(connection)[0]["error"] is None
        assert migration_facts.read_pools(connection)[0].absent is None
