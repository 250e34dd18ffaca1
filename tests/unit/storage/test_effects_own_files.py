# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which file of a name may be removed, on this machine's own files."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_file_identity as identity,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    BEGUN,
    MADE,
    NOT_MADE,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.effects_own_files import (
    why_stays,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_file_users import (
    FileUser,
    PoolPlace,
    References,
)

UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"


class Folder:
    """A pool, in which a VM has one volume."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "web1_system.qcow2"
        self.shared = False
        self.users: list[FileUser] = []

    def stays(self, made: str, role: str = "disk", **more: t.Any) -> str | None:
        """Why it stays, if it was noted to be ``made`` so."""
        place = PoolPlace("default", "dir", str(self.path), True, None, self.shared, None)
        references = References({"default": place})
        for user in (FileUser("used by domain 'web1'", UUID), *self.users):
            references.add(str(self.file), user)
        volume = OwnVolume("default", self.file.name, str(self.file), "system", role, made)
        found = why_stays(volume, UUID, references, **more)
        return None if found is None else found.reason

    def empty(self) -> None:
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", self.file, "1M"], check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_the_file_that_was_made(folder: Folder) -> None:
    folder.file.write_bytes(b"content")
    noted = identity.of_file(str(folder.file))
    assert folder.stays(noted) is None
    os.chmod(folder.file, 0o600)
    folder.file.write_bytes(b"more than there was")
    assert folder.stays(noted) is None


def test_another_file_of_its_name(folder: Folder) -> None:
    folder.file.write_bytes(b"content")
    noted = identity.of_file(str(folder.file))
    folder.file.rename(folder.path / "old")
    folder.file.write_bytes(b"content")
    assert folder.stays(noted) == "it is another file than the one that was created there"


def test_another_file_with_the_number_of_the_one_that_was_made(folder: Folder) -> None:
    """An inode that is free is used again, at once on ext4."""
    seen = set()
    for _dummy in range(20):
        folder.file.write_bytes(b"content")
        seen.add(identity.of_file(str(folder.file)))
        folder.file.unlink()
    # only the inode is known on a file system that has no generations
    assert len(seen) == 20 or not any("." in one for one in seen)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("7.1", "7.1", True),
        ("7.1", "7.2", False),
        ("7.1", "8.1", False),
        ("7.1", "7", True),  # as another client of its server sees it
        ("7", "7.1", True),
        ("7", "71", False),
        ("7", "71.1", False),
    ],
)
def test_identities(one: str, two: str, same: bool) -> None:
    assert identity.is_same(one, two) is same


@pytest.mark.parametrize(
    ("made", "content", "stays"),
    [
        # killed before it made anything; then an administrator put a disk there
        (NOT_MADE, b"an administrator's", "it appeared after the name was claimed"),
        (NOT_MADE, b"", "it appeared after the name was claimed"),
        # killed while it was made: what holds nothing is nobody's loss
        (BEGUN, b"an administrator's", "it has content, and may not have been created for this VM"),
        (BEGUN, b"", None),
        # claims of before there were notes
        ("", b"an administrator's", "it has content, and may not have been created for this VM"),
        ("", b"", None),
        (MADE, b"content", None),
        ("nonsense", b"", "another file"),
    ],
)
def test_what_was_not_noted_to_be_made(
    folder: Folder, made: str, content: bytes, stays: str | None
) -> None:
    folder.file.write_bytes(content)
    found = folder.stays(made)
    assert found is None if stays is None else stays in str(found)


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
@pytest.mark.parametrize("made", [BEGUN, ""])
def test_an_image_that_was_just_being_made(folder: Folder, made: str) -> None:
    folder.empty()
    assert folder.stays(made) is None
    words = ["qemu-io", "-f", "qcow2", "-c", "write 0 512", folder.file]
    subprocess.run(words, check=True, capture_output=True)
    assert "it has content" in str(folder.stays(made))
    folder.file.unlink()
    with folder.file.open("wb") as file:  # raw, and all a hole, larger than what is read
        file.truncate(1 << 30)
    assert folder.stays(made) is None
    with folder.file.open("r+b") as file:
        file.seek(1 << 29)
        file.write(b"x")
    assert "it has content" in str(folder.stays(made))


@pytest.mark.parametrize("made", [BEGUN, ""])
def test_a_seed_medium_has_the_uuid_of_its_vm_on_it(folder: Folder, made: str) -> None:
    folder.file.write_bytes(bytes(40000) + f"instance-id: {UUID}".encode())
    assert folder.stays(made, "seed") is None
    assert "it has content" in str(folder.stays(made, "disk"))
    folder.file.write_bytes(bytes(40000) + b"instance-id: 00000000-0c57-4f3e-9f0e-0d6d5c1f2a3b")
    assert "it has content" in str(folder.stays(made, "seed"))


def test_whoever_names_it_keeps_it(folder: Folder) -> None:
    folder.file.write_bytes(b"content")
    noted = identity.of_file(str(folder.file))
    folder.users.append(FileUser("used by domain 'theirs'", "another"))
    for made, proven in ((noted, False), (noted, True), (BEGUN, False), (MADE, True)):
        assert folder.stays(made, proven=proven) == "used by domain 'theirs'"
    folder.users[:] = [FileUser("backs /pool/clone", None, "/pool/clone")]
    assert folder.stays(noted, proven=True) == "backs /pool/clone"


def test_whoever_has_locked_it_keeps_it(folder: Folder) -> None:
    folder.file.write_bytes(b"content")
    noted = identity.of_file(str(folder.file))
    with folder.file.open("r+b") as file:
        request = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 100, 1, 0)
        fcntl.fcntl(file.fileno(), fcntl.F_OFD_SETLK, request)
        assert "in use (locked)" in str(folder.stays(noted))
        assert "in use (locked)" in str(folder.stays(noted, proven=True))
    assert folder.stays(noted) is None


def test_storage_that_others_reach(folder: Folder) -> None:
    folder.file.write_bytes(b"content")
    noted = identity.of_file(str(folder.file))
    folder.shared = True
    assert "which were not checked" in str(folder.stays(noted))
    assert folder.stays(noted, asked=True) is None


def test_what_is_no_file_of_the_pool(folder: Folder) -> None:
    assert folder.stays("7.7") is None  # it is gone
    target = folder.path / "target"
    target.write_bytes(b"")
    folder.file.symlink_to(target)
    assert folder.stays(BEGUN) == "not a regular file"
    folder.file.unlink()
    folder.file.mkdir()
    assert folder.stays(BEGUN) == "not a regular file"
    folder.path = folder.path / "elsewhere"
    assert "where it was created" in str(folder.stays(BEGUN))
