# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our reader of image headers against two others: the inspector that OpenStack takes uploads with
(oslo.utils), and QEMU's own."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import image_format
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.image_format import (
    BACKING_BYTES,
    HEAD_BYTES,
    parse_header,
)
from oslo_utils.imageutils import format_inspector as oslo

_SEED = 20261127
_MIB = 1 << 20
_SECTOR = 512  # QEMU's disks are whole sectors, whatever a header says
_SIZE = 4 * 65536  # of the smallest file that holds the tables of _HEADER
# What ours says of a format that is neither raw nor qcow2, by oslo's and by QEMU's name of it.
# Parallels is none of oslo's.
_FOREIGN = {
    "vmdk": "a VMDK",
    "vdi": "a VDI image",
    "vhdx": "a VHDX image",
    "vhd": "a VHD image",
    "vpc": "a VHD image",
    "qed": "a QED image",
    "luks": "encrypted (LUKS)",
    "parallels": "a Parallels image",
}
_RAW = ("raw", "gpt", "iso")  # to QEMU a partition table and an ISO file system are raw disks
# What each names a file that QEMU would open besides, in ours and in oslo's words
_OTHER_FILES = {"backing_file": "has a backing file", "data_file": "external data file"}


class Answer(t.NamedTuple):
    """What another reader says of an image; ``unsafe``: names of oslo's checks that fail."""

    format: str
    virtual_bytes: int | None
    unsafe: frozenset[str]
    backing: str | None = None


def _judged(inspector: oslo.FileInspector) -> Answer:
    unsafe: frozenset[str] = frozenset()
    try:
        inspector.safety_check()
    except oslo.SafetyCheckFailed as error:
        unsafe = frozenset(error.failures)
    except oslo.ImageFormatError:  # cut off, so that it cannot tell
        unsafe = frozenset({"incomplete"})
    # of a raw disk it reads no more than shows that it is one, and an ISO 9660 says its own size
    size = None if inspector.NAME in _RAW else inspector.virtual_size // _SECTOR * _SECTOR
    return Answer(inspector.NAME, size, unsafe)


def by_oslo(path: Path) -> Answer:
    inspector = oslo.detect_file_format(str(path))
    assert inspector is not None
    return _judged(inspector)


def by_qemu(path: Path) -> Answer | None:
    """None if QEMU does not open it. It is not made to open other files, as ``qemu-img info`` of
    the whole chain would be."""
    done = subprocess.run(
        ["qemu-img", "info", "--output=json", path], capture_output=True, check=False
    )
    if done.returncode:
        return None
    found = json.loads(done.stdout)
    backing = found.get("backing-filename")
    data = found.get("format-specific", {}).get("data", {}).get("data-file")
    unsafe = [name for name, file in (("backing_file", backing), ("data_file", data)) if file]
    return Answer(found["format"], found["virtual-size"], frozenset(unsafe), backing)


def compare(path: Path, other: Answer) -> None:
    """Fail where ours takes an image for something else than another reader does, or for safe
    where that one does not."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    ours = parse_header(head, path.stat().st_size)
    said = "; ".join(ours.problems)
    if other.format in _FOREIGN:
        assert f"is {_FOREIGN[other.format]}" in said
        return
    assert ours.format == ("raw" if other.format in _RAW else other.format)
    if ours.format == "raw":
        assert not [what for what in _FOREIGN.values() if what in said]
        assert other.virtual_bytes in (None, ours.virtual_bytes)
        return
    assert ours.virtual_bytes in (0, other.virtual_bytes)
    assert ours.virtual_bytes or ours.problems
    _compare_files(said, other)


def _compare_files(said: str, other: Answer) -> None:
    for name, words in _OTHER_FILES.items():
        assert (name in other.unsafe) == (words in said), (other, said)
    assert said or not other.unsafe


def _create(*words: str) -> t.Callable[[Path], None]:
    """By ``qemu-img create``, of 4 MiB; ``@`` stands for the folder."""

    def make(path: Path) -> None:
        given = [word.replace("@", str(path.parent)) for word in words]
        subprocess.run(["qemu-img", "create", "-q", *given, path, "4M"], check=True)

    return make


def _written(*pieces: tuple[int, bytes]) -> t.Callable[[Path], None]:
    """A file of 4 MiB with bytes at these places."""

    def make(path: Path) -> None:
        content = bytearray(4 * _MIB)
        for at, piece in pieces:
            content[at : at + len(piece)] = piece
        path.write_bytes(content)

    return make


_MBR = (446, b"\x80\0\x02\0\x83\0\0\0\x01\0\0\0\xff\x1f\0\0"), (510, b"\x55\xaa")
_ISO = (32768, b"\x01CD001\x01"), (32768 + 80, struct.pack("<I", 2048)), (32768 + 128, b"\0\x08")
IMAGES: dict[str, t.Callable[[Path], None]] = {
    "raw": _create("-f", "raw"),
    "raw with partitions": _written(*_MBR),
    "raw ISO 9660": _written(*_ISO),
    "raw that speaks of qcow2 later": _written((512, b"QFI\xfb\0\0\0\x03")),
    "qcow2 version 2": _create("-f", "qcow2", "-o", "compat=0.10"),
    "qcow2 version 3": _create("-f", "qcow2", "-o", "compat=1.1"),
    "qcow2, small clusters": _create("-f", "qcow2", "-o", "cluster_size=512"),
    "qcow2, zstd": _create("-f", "qcow2", "-o", "compression_type=zstd"),
    "qcow2, lazy": _create("-f", "qcow2", "-o", "lazy_refcounts=on"),
    "qcow2, preallocated": _create("-f", "qcow2", "-o", "preallocation=metadata"),
    "qcow2, backing file": _create("-f", "qcow2", "-F", "raw", "-b", "@/base"),
    "qcow2, backing beside": _create("-f", "qcow2", "-F", "raw", "-b", "base"),
    "qcow2 version 2, backing": _create(
        *("-f", "qcow2", "-o", "compat=0.10", "-F", "raw", "-b", "@/base")
    ),
    "qcow2, backing by JSON": _create(
        *("-f", "qcow2", "-F", "raw", "-b"),
        'json:{"driver": "raw", "file": {"driver": "file", "filename": "@/base"}}',
    ),
    "qcow2, data file": _create("-f", "qcow2", "-o", "data_file=@/data"),
    "qcow2, raw data file": _create("-f", "qcow2", "-o", "data_file=@/data,data_file_raw=on"),
    "vmdk": _create("-f", "vmdk"),
    "vmdk, stream": _create("-f", "vmdk", "-o", "subformat=streamOptimized"),
    "vmdk, flat": _create("-f", "vmdk", "-o", "subformat=monolithicFlat"),
    "vmdk, pieces": _create("-f", "vmdk", "-o", "subformat=twoGbMaxExtentSparse"),
    "vdi": _create("-f", "vdi"),
    "vdi, static": _create("-f", "vdi", "-o", "static=on"),
    "vhdx": _create("-f", "vhdx"),
    "vpc": _create("-f", "vpc"),
    "qed": _create("-f", "qed"),
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("images")
    (folder / "base").write_bytes(bytes(4 * _MIB))
    paths = {name: folder / f"{number}.img" for number, name in enumerate(IMAGES)}
    for name, path in paths.items():
        IMAGES[name](path)
    return paths


@pytest.mark.parametrize("name", IMAGES)
def test_image_of_any_format_is_to_ours_what_it_is_to_oslo_utils(
    name: str, images: dict[str, Path]
) -> None:
    compare(images[name], by_oslo(images[name]))


@pytest.mark.parametrize("name", IMAGES)
def test_image_of_any_format_is_to_ours_what_it_is_to_qemu(
    name: str, images: dict[str, Path]
) -> None:
    answer = by_qemu(images[name])
    assert answer is not None
    compare(images[name], answer)


@pytest.mark.parametrize("name", [name for name in IMAGES if name.startswith("qcow2")])
def test_backing_file_of_a_qcow2_image_is_what_qemu_names(
    name: str, images: dict[str, Path]
) -> None:
    answer = by_qemu(images[name])
    assert answer is not None
    head = images[name].read_bytes()[:BACKING_BYTES]
    if answer.backing is None or answer.backing.startswith("/"):
        assert image_format.backing_file(head) == answer.backing
    else:
        with pytest.raises(ValueError, match="not an absolute path"):
            image_format.backing_file(head)


@pytest.mark.parametrize("name", IMAGES)
def test_image_that_is_cut_off_is_never_safer_to_ours(
    name: str, images: dict[str, Path], tmp_path: Path
) -> None:
    content = images[name].read_bytes()
    path = tmp_path / "cut"
    for length in (512, 1024, 4096, 65536, len(content) - 512):
        if 0 < length < len(content):
            path.write_bytes(content[:length])
            compare(path, by_oslo(path))


def test_disk_that_is_encrypted_by_luks_is_so_to_ours_and_to_oslo_utils(tmp_path: Path) -> None:
    """By hand: QEMU takes seconds to choose how often a new key is derived."""
    path = tmp_path / "encrypted"
    _written((0, b"LUKS\xba\xbe\0\x01"))(path)
    assert by_oslo(path).format == "luks"
    compare(path, by_oslo(path))


def test_extended_l2_of_qcow2_is_known_to_ours_and_qemu_and_not_to_oslo_utils(
    tmp_path: Path,
) -> None:
    """The one image that ours takes and oslo.utils does not: the feature names no other file."""
    path = tmp_path / "extended"
    _create("-f", "qcow2", "-o", "extended_l2=on")(path)
    assert by_oslo(path).unsafe == {"unknown_features"}
    answer = by_qemu(path)
    assert answer is not None
    compare(path, answer)
    assert not parse_header(path.read_bytes()[:HEAD_BYTES], path.stat().st_size).problems


# Version, backing file's place and length, cluster bits, size, encryption, L1 entries and place,
# refcount table's place and clusters, snapshots and their place; and of version 3 three sets of
# features, refcount order, header length
_HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")
_FIELDS = (3, 0, 0, 16, 1 << 30, 0, 2, 3 * 65536, 65536, 1, 0, 0, 0, 0, 0, 4, 104)
_ODD = (0, 1, 2, 3, 4, 8, 9, 16, 21, 104, 112, 512, 65536, 131072, (1 << 32) - 1)


def broken(chance: random.Random) -> bytes:
    """A qcow2 header of which up to three fields or bytes are something else."""
    fields = list(_FIELDS)
    for _turn in range(chance.randint(0, 3)):
        at = chance.randrange(len(fields))
        fields[at] = chance.choice([*_ODD, chance.getrandbits(32), 1 << chance.randrange(32)])
    head = bytearray(_HEADER.pack(b"QFI\xfb", *fields))
    for _turn in range(chance.choice((0, 0, 0, 1, 2))):
        head[chance.randrange(4, len(head))] ^= 1 << chance.randrange(8)
    return bytes(head)


def test_header_of_qcow2_that_is_broken_at_random_is_never_safer_to_ours() -> None:
    chance = random.Random(_SEED)  # noqa: S311 (no secret)
    unsafe = 0
    for _turn in range(4000):
        head = broken(chance).ljust(512, b"\0")
        inspector = oslo.QcowInspector()
        inspector.eat_chunk(head)
        inspector.finish()
        answer = _judged(inspector)
        ours = parse_header(head, _SIZE)
        said = "; ".join(ours.problems)
        if int.from_bytes(head[4:8], "big") not in (2, 3):
            assert "qcow version" in said
            continue
        if ours.virtual_bytes:
            assert ours.virtual_bytes == answer.virtual_bytes, answer
        if head[7] == 2:  # this version has no features, which oslo.utils looks at nevertheless
            answer = answer._replace(unsafe=answer.unsafe - {"data_file"})
        if head[72:80] == struct.pack(">Q", 1 << 4):  # extended L2, see above
            answer = answer._replace(unsafe=answer.unsafe - {"unknown_features"})
        _compare_files(said, answer)
        unsafe += bool(answer.unsafe)
    assert unsafe > 400  # of both kinds there are many


def test_broken_qcow2_that_ours_takes_is_the_same_to_qemu_or_not_opened(tmp_path: Path) -> None:
    chance = random.Random(_SEED)  # noqa: S311 (no secret)
    path = tmp_path / "image"
    opened = 0
    taken = (head for head in iter(lambda: broken(chance), b"") if not _refused(head))
    for _turn in range(30):
        path.write_bytes(next(taken).ljust(_SIZE, b"\0"))
        answer = by_qemu(path)
        if answer is not None:
            assert answer.format == "qcow2"
            compare(path, answer)
            opened += 1
    assert opened > 10


def _refused(head: bytes) -> bool:
    return bool(parse_header(head.ljust(HEAD_BYTES, b"\0"), _SIZE).problems)
