# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locks, shared file systems and headers on this machine's own files."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._host import ownership
from ansible_collections.fleet.virt.plugins.module_utils._host.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._host.ownership import (
    References,
    User,
    is_locked,
)


def lock(descriptor: int, kind: int, first: int) -> None:
    request = struct.pack("hhqqi4x", kind, os.SEEK_SET, first, 1, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)


@pytest.mark.parametrize("kind", [fcntl.F_RDLCK, fcntl.F_WRLCK])
@pytest.mark.parametrize(
    ("first", "locked"), [(100, True), (103, True), (201, True), (99, False), (300, False)]
)
def test_locks_as_qemu_takes_them(tmp_path: Path, kind: int, first: int, locked: bool) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"x")
    assert not is_locked(str(path))
    descriptor = os.open(path, os.O_RDWR)
    lock(descriptor, kind, first)
    assert is_locked(str(path)) is locked
    os.close(descriptor)
    assert not is_locked(str(path))


def test_a_file_by_all_its_names(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_bytes(b"")
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "hard").hardlink_to(real)
    other = tmp_path / "other"
    other.write_bytes(b"")
    user = User("used by domain 'a'", "u")
    found = References({})
    found.add(str(tmp_path / "link"), user)
    for name in ("real", "link", "hard"):
        assert found.users(str(tmp_path / name)) == {user}
    assert found.users(str(other)) == set()
    assert found.named("real") == {user}
    assert found.named("nobody") == set()


def overlay(path: Path, backing: str) -> None:
    head = struct.pack(">4sIQI", b"QFI\xfb", 2, 512, len(backing))
    path.write_bytes(head.ljust(512, b"\0") + backing.encode())


def test_chains_are_followed_to_their_ends(tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    folder.mkdir()
    (tmp_path / "base").write_bytes(b"raw")
    overlay(tmp_path / "middle", "base")
    overlay(folder / "top", "../middle")
    found = References({})
    ownership._follow(found, str(folder / "top"))
    assert {user.image for user in found.users(str(tmp_path / "middle"))} == {str(folder / "top")}
    assert {user.image for user in found.users(str(tmp_path / "base"))} == {
        str(tmp_path / "middle")
    }


def test_a_circle_of_images_ends(tmp_path: Path) -> None:
    overlay(tmp_path / "a", "b")
    overlay(tmp_path / "b", "a")
    found = References({})
    ownership._follow(found, str(tmp_path / "a"))
    assert set(found.chains) == {str(tmp_path / "a"), str(tmp_path / "b")}


def test_this_machines_folder_is_its_own(tmp_path: Path) -> None:
    assert ownership._sharing(str(tmp_path)) == (False, None)
    (tmp_path / ownership.POOL_ID_FILE).write_text("an-id\n")
    assert ownership._sharing(str(tmp_path)) == (False, "an-id")


def test_only_where_the_files_are() -> None:
    from ansible_collections.fleet.virt.plugins.module_utils._host import purge
    from ansible_collections.fleet.virt.plugins.module_utils._model.purge_plan import Options

    with (
        connect("test:///default", 10) as connection,
        pytest.raises(PlanRefused, match="run this on the hypervisor itself"),
    ):
        purge.run(connection, ["test"], purge.Settings(Options()), check=True)
