# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base images by their names and contents; what needs libvirt's storage is in the laboratory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_base_file as base_file,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_base_images as images,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import (
    BaseName,
    Digest,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.effects_storage import Pool

DIGEST = Digest("0123456789abcdef" * 4)
OTHER = Digest("f" * 64)


@pytest.fixture
def connection() -> Iterator[Connection]:
    """libvirt's test driver: none of this asks it for anything."""
    with connect("test:///default", 10) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "image_format", "expected"),
    [
        ("debian12.qcow2", "qcow2", "debian12.qcow2"),
        ("centos.img", "qcow2", "centos.img.qcow2"),
        ("disk.raw", "raw", "disk.raw"),
        ("really-raw.qcow2", "raw", "really-raw.qcow2.raw"),
        ("qcow2", "qcow2", "qcow2.qcow2"),
        (".qcow2", "qcow2", "image.qcow2"),
        ("Größe mit Blank,komma.img", "raw", "Gr__e_mit_Blank_komma.img.raw"),
        ("a" * 300, "qcow2", "a" * 128 + ".qcow2"),
    ],
)
def test_names_of_base_volumes(name: str, image_format: str, expected: str) -> None:
    volume = str(BaseName.of(name, DIGEST, image_format))
    assert volume == f"{DIGEST}-{expected}"
    assert len(volume.encode()) < 255


@pytest.mark.parametrize(
    "uri",
    ["test:///default", "qemu+ssh://hv1/system", "qemu://hv1/system", "qemu+tls://hv1/system"],
)
def test_files_are_this_machines(uri: str) -> None:
    with pytest.raises(PlanRefused, match=r"use a local URI such as qemu:///system"):
        images.require_local(Connection(None, uri, 1))


@pytest.mark.parametrize("uri", ["qemu:///system", "qemu:///session", "xen:///system"])
def test_local_uris(uri: str) -> None:
    images.require_local(Connection(None, uri, 1))


def test_bases_are_found_by_content(connection: Connection, tmp_path: Path) -> None:
    pool = Pool("base", str(tmp_path))
    (tmp_path / f"{DIGEST}-one.img.raw").write_bytes(bytes(1024))
    (tmp_path / "stray.qcow2").write_bytes(b"")
    (tmp_path / f".{OTHER}-hidden.raw").write_bytes(b"")
    base = images.find_base(connection, pool, DIGEST)
    assert base == images.BaseImage(
        volume=BaseName(DIGEST, "one.img", "raw"),
        format="raw",
        path=f"{tmp_path}/{DIGEST}-one.img.raw",
        virtual_bytes=1024,
    )
    assert (base.name, base.digest) == ("one.img", DIGEST)
    assert images.list_bases(connection, pool) == [base]
    assert images.find_base(connection, pool, OTHER) is None


def test_a_pool_without_folder_has_no_bases(connection: Connection, tmp_path: Path) -> None:
    pool = Pool("base", str(tmp_path / "nothing"))
    assert images.list_bases(connection, pool) == []
    assert images.find_base(connection, pool, DIGEST) is None


def test_what_only_looks_like_a_base_is_refused(connection: Connection, tmp_path: Path) -> None:
    pool = Pool("base", str(tmp_path))
    name = tmp_path / f"{DIGEST}-x.raw"
    name.symlink_to("/etc/passwd")
    with pytest.raises(PlanRefused, match="Too many levels of symbolic links"):
        images.find_base(connection, pool, DIGEST)
    name.unlink()
    os.mkfifo(name)
    with pytest.raises(PlanRefused, match="is not a file"):
        images.find_base(connection, pool, DIGEST)


def _base(folder: Path, name: str, content: bytes) -> str:
    volume = f"{hashlib.sha256(content).hexdigest()}-{name}"
    (folder / volume).write_bytes(content)
    return volume


def test_copy_base_under_exact_name_keeps_both(connection: Connection, tmp_path: Path) -> None:
    content = bytes(512 * 1024) + b"end".ljust(512, b"\0")
    first = _base(tmp_path, "r2.img.raw", content)
    digest = Digest(first[:64])
    pool = Pool("base", str(tmp_path))
    twin = images.find_base(connection, pool, digest)
    wanted = BaseName(digest, "r1.img", "raw")
    assert twin is not None
    assert images.find_base(connection, pool, digest, wanted) is None
    made = images.copy_base(connection, pool, twin, wanted)
    assert (made.volume, made.name, made.digest) == (wanted, "r1.img", digest)
    assert sorted(os.listdir(tmp_path)) == sorted([first, str(wanted)])
    assert (tmp_path / str(wanted)).read_bytes() == content
    assert not os.path.samefile(tmp_path / first, tmp_path / str(wanted))
    assert images.find_base(connection, pool, digest, wanted) == made
    assert [str(base.volume) for base in images.list_bases(connection, pool)] == sorted(
        [first, str(wanted)]
    )
    # another call changes nothing
    assert images.copy_base(connection, pool, twin, wanted) == made


def test_copy_base_of_damaged_file_is_refused(connection: Connection, tmp_path: Path) -> None:
    volume = _base(tmp_path, "r2.img.raw", bytes(1024))
    (tmp_path / volume).write_bytes(b"x" * 1024)
    pool = Pool("base", str(tmp_path))
    twin = images.find_base(connection, pool, Digest(volume[:64]))
    assert twin is not None
    with pytest.raises(PlanRefused, match="it is damaged: restore it"):
        images.copy_base(connection, pool, twin, BaseName(twin.digest, "r1.img", "raw"))
    assert os.listdir(tmp_path) == [volume]


def test_copy_base_under_name_of_another_format_is_refused(
    connection: Connection, tmp_path: Path
) -> None:
    volume = _base(tmp_path, "r2.img.raw", bytes(1024))
    pool = Pool("base", str(tmp_path))
    twin = images.find_base(connection, pool, Digest(volume[:64]))
    assert twin is not None
    with pytest.raises(PlanRefused, match="not what the name says"):
        images.copy_base(connection, pool, twin, BaseName(twin.digest, "r1", "qcow2"))
    assert os.listdir(tmp_path) == [volume]


def test_copy_base_without_space_is_refused_before_copying(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = _base(tmp_path, "r2.img.raw", b"x" * 4096)
    pool = Pool("base", str(tmp_path))
    twin = images.find_base(connection, pool, Digest(volume[:64]))
    assert twin is not None
    monkeypatch.setattr(base_file, "free_space", lambda _folder: (1 << 20, 1 << 20))
    with pytest.raises(PlanRefused, match="does not fit into"):
        images.copy_base(connection, pool, twin, BaseName(twin.digest, "r1.img", "raw"))
    with pytest.raises(PlanRefused, match="does not fit into"):
        base_file.require_room(str(tmp_path / "yet" / "to" / "come"), 1)
    base_file.require_room(str(tmp_path), 0)
    assert os.listdir(tmp_path) == [volume]
