# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locks, shared file systems and headers on this machine's own files."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    read_file_users as ownership,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.file_references import (
    NamedFiles,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_file_users import (
    FileUser,
    PoolPlace,
    References,
    is_locked,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_shared_pools import (
    POOL_ID_FILE,
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
    user = FileUser("used by domain 'a'", "u")
    found = References({})
    found.add(str(tmp_path / "link"), user)
    for name in ("real", "link", "hard"):
        assert found.users(str(tmp_path / name)) == {user}
    assert found.users(str(other)) == set()
    assert found.named("real") == {user}
    assert found.named("nobody") == set()


def overlay(path: Path, backing: str, kind: str = "") -> None:
    head = struct.pack(">4sIQI", b"QFI\xfb", 3, 512, len(backing)).ljust(100, b"\0")
    extension = struct.pack(">III", 104, 0xE2792ACA if kind else 0, len(kind)) + kind.encode()
    path.write_bytes((head + extension).ljust(512, b"\0") + backing.encode())


def follow(found: References, *images: Path) -> None:
    for image in images:
        ownership._follow(found, str(image), set(), believed=False)


def test_chains_are_followed_to_their_ends(tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    folder.mkdir()
    (tmp_path / "base").write_bytes(b"raw")
    overlay(tmp_path / "middle", "base")
    overlay(folder / "top", "../middle")
    found = References({})
    follow(found, folder / "top")
    assert {user.image for user in found.users(str(tmp_path / "middle"))} == {str(folder / "top")}
    assert {user.image for user in found.users(str(tmp_path / "base"))} == {
        str(tmp_path / "middle")
    }


def test_a_circle_of_images_ends(tmp_path: Path) -> None:
    overlay(tmp_path / "a", "b")
    overlay(tmp_path / "b", "a")
    found = References({})
    follow(found, tmp_path / "a")
    assert set(found.chains) == {str(tmp_path / "a"), str(tmp_path / "b")}


def scanned(folder: Path, *disks: tuple[str, str | None]) -> References:
    """All that is found of a pool at ``folder``, of which a domain has ``disks`` attached."""
    found = References({"p": PoolPlace("p", "dir", str(folder), True, None, False, None)})
    paths = frozenset((str(folder / name), kind) for name, kind in disks)
    named = NamedFiles(frozenset(path for path, _kind in paths), frozenset(), paths)
    ownership._scan(found, [(named, FileUser("used by domain 'evil'", "u"))], [])
    return found


def vmdk(path: Path, names: Sequence[str]) -> None:
    path.write_bytes(b"# Disk DescriptorFile\n" + "".join(f'"{n}"\n' for n in names).encode())


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda path: overlay(path, "web1.qcow2"), id="a neighbour's disk"),
        pytest.param(lambda path: overlay(path, "web1.qcow2\0"), id="NUL"),
        pytest.param(lambda path: overlay(path, "x" * 4000), id="no name that a file can have"),
        pytest.param(lambda path: overlay(path, "web1.qcow2/" * 300), id="folders in a file"),
        pytest.param(lambda path: vmdk(path, ["web1.qcow2", "x\n"] * 300), id="300 names"),
        pytest.param(lambda path: overlay(path, "../proc/self/root" + str(path)), id="itself"),
    ],
)
def test_what_a_guest_writes_into_its_raw_disk_concerns_nobody(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    (tmp_path / "web1.qcow2").write_bytes(b"")
    write(tmp_path / "evil.img")
    found = scanned(tmp_path, ("evil.img", "raw"))
    assert found.users(str(tmp_path / "web1.qcow2")) == set()
    assert found.chains[str(tmp_path / "evil.img")] == []
    # what no definition attaches may be an image: it is read, and nothing of it is an error
    alone = scanned(tmp_path)
    assert str(tmp_path / "evil.img") in alone.chains


def test_a_raw_disk_by_another_of_its_names(tmp_path: Path) -> None:
    """A pool that is a link, and a file with two names."""
    pool = tmp_path / "pool"
    pool.mkdir()
    overlay(pool / "evil.img", "web1.qcow2")
    (pool / "hard.img").hardlink_to(pool / "evil.img")
    (tmp_path / "link").symlink_to(pool)
    found = scanned(pool, ("../link/evil.img", "raw"))
    assert found.users(str(pool / "web1.qcow2")) == set()


@pytest.mark.parametrize("kinds", [("qcow2",), (None,), ("raw", "qcow2"), ("raw", None)])
def test_what_is_not_raw_everywhere_is_read(tmp_path: Path, kinds: tuple[str | None, ...]) -> None:
    overlay(tmp_path / "top", "base")
    found = scanned(tmp_path, *(("top", kind) for kind in kinds))
    assert {user.image for user in found.users(str(tmp_path / "base"))} == {str(tmp_path / "top")}


def test_a_raw_disk_below_a_snapshot_is_raw(tmp_path: Path) -> None:
    overlay(tmp_path / "evil.img", "web1.qcow2")  # written by the guest, before the snapshot
    overlay(tmp_path / "evil.snap", "evil.img", "raw")
    found = scanned(tmp_path, ("evil.snap", "qcow2"))
    assert {user.image for user in found.users(str(tmp_path / "evil.img"))} == {
        str(tmp_path / "evil.snap")
    }
    assert found.users(str(tmp_path / "web1.qcow2")) == set()


def test_nobody_is_believed_that_an_image_is_raw_who_does_not_use_it(tmp_path: Path) -> None:
    """A disk that a guest wrote to, and which is attached to nothing now, says so of another's."""
    overlay(tmp_path / "base", "below")
    overlay(tmp_path / "web1.qcow2", "base", "qcow2")
    overlay(tmp_path / "detached.img", "web1.qcow2", "raw")
    found = scanned(tmp_path, ("web1.qcow2", "qcow2"))
    assert found.users(str(tmp_path / "base"))
    assert found.users(str(tmp_path / "below"))
    assert scanned(tmp_path).users(str(tmp_path / "base"))


def test_a_long_chain_is_followed_to_its_end(tmp_path: Path) -> None:
    for number in range(250):
        overlay(tmp_path / f"{number:03}", f"{number + 1:03}")
    found = scanned(tmp_path)
    assert found.users(str(tmp_path / "250"))


def test_this_machines_folder_is_its_own(tmp_path: Path) -> None:
    assert ownership._sharing(str(tmp_path)) == (False, None)
    (tmp_path / POOL_ID_FILE).write_text("an-id\n")
    assert ownership._sharing(str(tmp_path)) == (False, "an-id")


def test_only_where_the_files_are() -> None:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import effects as purge
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.plan import PurgeOptions

    with (
        connect("test:///default", 10) as connection,
        pytest.raises(PlanRefused, match="run this on the hypervisor itself"),
    ):
        purge.run(connection, ["test"], purge.PurgeSettings(PurgeOptions()), check=True)
