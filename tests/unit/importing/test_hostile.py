# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives and disks that are made to mislead are refused, each with value, rule and remedy."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing import read_source
from ansible_collections.fleet.virt.tests.unit.importing import packages
from ansible_collections.fleet.virt.tests.unit.importing.packages import member

DISK = "web-disk001.vmdk"
OVF = packages.virtualbox().encode()
Build = Callable[[Path], Path]


def archive(*members: tuple[tarfile.TarInfo, bytes], form: int = 0) -> Build:
    return lambda folder: packages.archive(folder / "web.ova", *members, form=form)


def with_disk(data: bytes | Callable[[bytes], bytes]) -> Build:
    """An OVA whose disk has these bytes, or those that this makes of a sound one."""

    def build(folder: Path) -> Path:
        sound = packages.stream(folder).read_bytes()
        disk = data(sound) if callable(data) else data
        return packages.archive(folder / "web.ova", member("web.ovf", OVF), member(DISK, disk))

    return build


def with_descriptor(text: str) -> Build:
    def build(folder: Path) -> Path:
        disk = packages.stream(folder).read_bytes()
        members = member("web.ovf", text.encode()), member(DISK, disk)
        return packages.archive(folder / "web.ova", *members)

    return build


def claiming(size: int) -> Build:
    """An archive with a disk that claims more bytes than there are."""

    def build(folder: Path) -> Path:
        path = packages.archive(
            folder / "web.ova", member("web.ovf", OVF), member(DISK, b"x" * 512)
        )
        data = bytearray(path.read_bytes())
        place = data.rindex(DISK.encode())
        header = data[place : place + 512]
        header[124:136] = f"{size:011o}\0".encode()
        header[148:156] = b" " * 8
        header[148:156] = f"{sum(header):06o}\0 ".encode()
        data[place : place + 512] = header
        path.write_bytes(data)
        return path

    return build


def _capacity(sectors: int) -> Callable[[bytes], bytes]:
    """A VMDK whose header claims this capacity; without one QEMU opens what it describes."""
    return lambda data: data[:12] + struct.pack("<Q", sectors) + data[20:]


def _described(*lines: str, drop: str = "RW ") -> Callable[[bytes], bytes]:
    """A VMDK with these lines in place of its extent in the descriptor."""

    def change(data: bytes) -> bytes:
        text = data[512 : 512 + 20 * 512].partition(b"\0")[0].decode()
        kept = [line for line in text.splitlines() if not line.startswith(drop)]
        described = "\n".join([*kept, *lines, ""]).encode()
        return data[:512] + described.ljust(20 * 512, b"\0") + data[512 + 20 * 512 :]

    return change


def _backed(name: str) -> Callable[[bytes], bytes]:
    def change(_sound: bytes) -> bytes:
        header = bytearray(64 << 10)
        header[:104] = struct.pack(
            ">4sIQIIQIIQQIIQQQQII",
            *(b"QFI\xfb", 3, 512, len(name), 16, 1 << 20, 0, 1, 3 << 16, 1 << 16, 1, 0, 0),
            *(0, 0, 0, 4, 104),
        )
        header[512 : 512 + len(name)] = name.encode()
        return bytes(header) + bytes(4 << 16)

    return change


def _beyond(_sound: bytes) -> bytes:
    """A VHDX whose table of regions says that its metadata are at the last byte of 64 bits."""
    region = bytes.fromhex("06a27c8b90479a4bb8fe575f050f886e") + struct.pack(
        "<QII", (1 << 64) - 1, 0, 1
    )
    table = b"regi" + bytes(4) + struct.pack("<II", 1, 0) + region
    return b"vhdxfile".ljust(192 << 10, b"\0") + table.ljust(64 << 10, b"\0")


def linked(folder: Path) -> Path:
    """An OVF whose disk is a link to another file."""
    (folder / "web.ovf").write_bytes(OVF)
    (folder / DISK).symlink_to("/etc/shadow")
    return folder / "web.ovf"


def piped(folder: Path) -> Path:
    os.mkfifo(folder / "web.ova")
    return folder / "web.ova"


BOMB = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
EXTERNAL = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/shadow">]>'
START = '<?xml version="1.0"?>'
UNPACK = "unpack it into an empty folder"
HOSTILE: dict[str, tuple[Build, str, str]] = {
    "a path upwards": (
        archive(member("../../etc/cron.d/x", b"x")),
        "'../../etc/cron.d/x' has a path",
        UNPACK,
    ),
    "an absolute name": (archive(member("/etc/passwd", b"x")), "has a path", UNPACK),
    "a backslash": (archive(member("..\\x.ovf", b"x")), "has a path", UNPACK),
    "a path in an extended header": (
        archive(member("x" * 90 + "/" + "y" * 200, b"x"), form=tarfile.PAX_FORMAT),
        "has a path",
        UNPACK,
    ),
    "a symbolic link": (
        archive(member("web.ovf", OVF), member(DISK, type=tarfile.SYMTYPE, linkname="/etc/shadow")),
        f"'{DISK}' is a symbolic link",
        UNPACK,
    ),
    "a hard link": (
        archive(member("web.ovf", OVF), member(DISK, type=tarfile.LNKTYPE, linkname="web.ovf")),
        "is a hard link",
        UNPACK,
    ),
    "a device": (archive(member("sda", type=tarfile.BLKTYPE)), "is a device", UNPACK),
    "a named pipe within": (archive(member("x", type=tarfile.FIFOTYPE)), "named pipe", UNPACK),
    "a folder": (archive(member("x", type=tarfile.DIRTYPE)), "is a folder", UNPACK),
    "two files of a name": (
        archive(member("web.ovf", OVF), member("web.ovf", OVF)),
        "two members 'web.ovf'",
        UNPACK,
    ),
    "two descriptors": (archive(member("a.ovf", OVF), member("b.ovf", OVF)), "2 OVF", "tar -xf"),
    "too many members": (
        archive(*(member(f"{index}.txt") for index in range(300))),
        "more than 256 members",
        UNPACK,
    ),
    "a size beyond the end": (claiming(1 << 30), "claims 1073741824", "copy it again"),
    "a large extended header": (
        archive(member("x", bytes(1 << 20), type=tarfile.XHDTYPE)),
        "extended header of 1048576 bytes",
        UNPACK,
    ),
    "an extended header whose length is none": (
        archive(member("x", b"x path=a\n", type=tarfile.XHDTYPE)),
        "damaged extended header",
        "copy it again",
    ),
    "an extended header of no length": (
        archive(member("x", b"0 path=a\n", type=tarfile.XHDTYPE)),
        "damaged extended header",
        "copy it again",
    ),
    "a size in other digits than ASCII's": (
        archive(member("x", "11 size=\u00b2\n".encode(), type=tarfile.XHDTYPE)),
        "damaged extended header",
        "copy it again",
    ),
    "a large descriptor": (
        archive(member("web.ovf", b"<?xml " + bytes(5 << 20))),
        "manifest of 5242886 bytes",
        "import its disk alone",
    ),
    "a bomb of entities": (
        with_descriptor(packages.virtualbox().replace(START, START + BOMB)),
        "document type",
        "",
    ),
    "an external entity": (
        with_descriptor(packages.virtualbox().replace(START, START + EXTERNAL)),
        "document type",
        "",
    ),
    "a path in the descriptor": (
        with_descriptor(packages.virtualbox("../../../etc/shadow")),
        "'../../../etc/shadow', which has a path",
        "beside the descriptor",
    ),
    "an address in the descriptor": (
        with_descriptor(packages.virtualbox("http://198.51.100.1/x.vmdk")),
        "is on a server",
        "beside the descriptor",
    ),
    "a VMDK that only describes": (
        with_disk(b'# Disk DescriptorFile\nversion=1\nRW 8 FLAT "/etc/shadow" 0\n'),
        "content is in other files",
        "each disk in one file",
    ),
    "a VMDK whose header defers to its descriptor": (
        with_disk(_capacity(0)),
        "content is in other files",
        "each disk in one file",
    ),
    "a VMDK of 2^60 sectors": (with_disk(_capacity(1 << 60)), "at most 64 TiB", ""),
    "a VMDK with another extent": (
        with_disk(_described('RW 131072 FLAT "/etc/shadow" 0')),
        "'/etc/shadow'",
        "each disk in one file",
    ),
    "a VMDK with two extents": (
        with_disk(_described('RW 64 SPARSE "a.vmdk"', 'RW 64 SPARSE "b.vmdk"')),
        "has 2 extents",
        "each disk in one file",
    ),
    "a VMDK with a parent": (
        with_disk(_described('RW 64 SPARSE "a.vmdk"', 'parentFileNameHint="/etc/shadow"')),
        "difference to another disk",
        "(a snapshot); if you trust",
    ),
    "a VMDK in split files": (
        with_disk(_described('createType="twoGbMaxExtentSparse"', drop="createType")),
        "'twoGbMaxExtentSparse'",
        "each disk in one file",
    ),
    "a truncated VMDK": (with_disk(lambda data: data[:-512]), "truncated", "copy it again"),
    "a qcow2 disk with a backing file": (
        with_disk(_backed("/etc/shadow")),
        "has a backing file ('/etc/shadow')",
        "qemu-img convert",
    ),
    "a qcow2 disk with a backing file as JSON": (
        with_disk(_backed('json:{"driver":"file"}')),
        "has a backing file",
        "qemu-img convert",
    ),
    "a VHDX whose metadata are beyond any file": (
        with_disk(_beyond),
        "damaged or truncated VHDX",
        "copy it again",
    ),
    "an archive in an archive": (with_disk(b"PK\3\4" + bytes(508)), "a ZIP archive", "unpack"),
    "a disk that is a link": (linked, "no link is followed", "copy all files"),
    "a named pipe": (piped, "is not a regular file", "name an OVA"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archive_is_refused(name: str, tmp_path: Path) -> None:
    build, words, remedy = HOSTILE[name]
    path = build(tmp_path)
    with pytest.raises(FleetVirtError) as refused:
        read_source.source(str(path), verify=True)
    assert words in str(refused.value)
    assert remedy in str(refused.value)


def test_sound_archive_of_these_tests_is_read(tmp_path: Path) -> None:
    path = with_disk(lambda data: data)(tmp_path)
    assert len(read_source.source(str(path), verify=True).disks) == 1


def test_unpacked_archive_is_imported(tmp_path: Path) -> None:
    """What the remedy says, typed: for folders, many members and two of a name."""
    content = packages.stream(tmp_path).read_bytes()
    others = [member("x/", type=tarfile.DIRTYPE), *(member(f"x/{n}.txt") for n in range(300))]
    files = [member("x/web.ovf", OVF), member("x/web.ovf", OVF), member(f"x/{DISK}", content)]
    path = archive(*others, *files)(tmp_path)
    with pytest.raises(FleetVirtError, match=UNPACK):
        read_source.source(str(path), verify=True)
    folder = tmp_path / "empty"
    folder.mkdir()
    subprocess.run(["tar", "-xf", path, "-C", folder], check=True)
    (found,) = folder.rglob("*.ovf")
    assert len(read_source.source(str(found), verify=True).disks) == 1


def test_manifest_that_is_too_large_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / DISK).write_bytes(packages.stream(tmp_path).read_bytes())
    (tmp_path / "web.ovf").write_bytes(OVF)
    manifest = tmp_path / "web.mf"
    manifest.write_bytes(bytes(2 << 20))
    with pytest.raises(FleetVirtError, match="at most 1048576 are read: import the OVF file with"):
        read_source.source(str(tmp_path / "web.ovf"), verify=True)
    manifest.unlink()
    assert len(read_source.source(str(tmp_path / "web.ovf"), verify=True).disks) == 1


def test_descriptor_that_is_a_link_is_refused_as_that(tmp_path: Path) -> None:
    (tmp_path / "real.xml").write_bytes(OVF)
    (tmp_path / "web.ovf").symlink_to("real.xml")
    with pytest.raises(FleetVirtError, match="the descriptor is a link; name the file"):
        read_source.source(str(tmp_path / "web.ovf"), verify=True)


def test_vhdx_with_parent_is_refused(tmp_path: Path) -> None:
    path = packages.convert(tmp_path, "web.vhdx", "-O", "vhdx")
    data = bytearray(path.read_bytes())
    parameters = data.index(bytes.fromhex("3767a1ca36fa434db3b633f0aa44e76b"))
    start = data.index(b"metadata")
    place = start + int.from_bytes(data[parameters + 16 : parameters + 20], "little") + 4
    data[place] |= 2
    path.write_bytes(data)
    with pytest.raises(FleetVirtError, match=r"\(a checkpoint\); merge its checkpoints first"):
        read_source.source(str(path), verify=True)


@pytest.mark.parametrize("changed", ["web.ovf", DISK])
def test_file_that_differs_from_its_manifest_is_refused(changed: str, tmp_path: Path) -> None:
    path = packages.ova(tmp_path / "web.ova", packages.virtualbox(), packages.stream(tmp_path))
    with tarfile.open(path) as tar:
        place = tar.getmember(changed).offset_data
    data = bytearray(path.read_bytes())
    # a comment's letter, or one of the content
    at = data.index(b"virtual machine", place) if changed == "web.ovf" else place + 40960
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(FleetVirtError, match=r"SHA256 .*, and its manifest says .*copy it again"):
        read_source.source(str(path), verify=True)
    read_source.source(str(path), verify=False)


@pytest.mark.parametrize("kind", ["twoGbMaxExtentSparse", "monolithicFlat", "snapshot"])
def test_disk_of_several_files_is_imported_once_they_are_joined(kind: str, tmp_path: Path) -> None:
    """What the remedy says, typed with the files that an export consists of."""
    create = ["qemu-img", "create", "-q", "-f", "vmdk"]
    if kind == "snapshot":
        subprocess.run([*create, "base.vmdk", "1M"], cwd=tmp_path, check=True)
        words = [*create, "-b", "base.vmdk", "-F", "vmdk", "disk.vmdk"]
    else:
        words = [*create, "-o", f"subformat={kind}", "disk.vmdk", "1M"]
    subprocess.run(words, cwd=tmp_path, check=True)
    written = ["qemu-io", "-f", "vmdk", "-c", "write -P 7 0 64k", "disk.vmdk"]
    subprocess.run(written, cwd=tmp_path, check=True, capture_output=True)
    with pytest.raises(FleetVirtError) as refused:
        read_source.source(str(tmp_path / "disk.vmdk"), verify=True)
    command = re.search(r"qemu-img convert [^,;]*(?=, and import)", str(refused.value))
    assert command is not None, refused.value
    typed = command[0].replace("DISK", "disk.vmdk").split()
    subprocess.run(typed, cwd=tmp_path, check=True)
    (found,) = read_source.source(str(tmp_path / "disk.qcow2"), verify=True).disks
    assert found is not None
    assert (found[1].format, found[1].virtual_bytes) == ("qcow2", 1 << 20)
    same = ["qemu-img", "compare", "disk.vmdk", "disk.qcow2"]
    subprocess.run(same, cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("attribute", "words"),
    [('ovf:compression="gzip"', "is compressed"), ('ovf:chunkSize="65536"', "split into several")],
)
def test_compressed_or_split_disk_is_imported_by_the_commands_named(
    attribute: str, words: str, tmp_path: Path
) -> None:
    name = "my disk.vmdk"
    packages.stream(tmp_path, name)
    text = packages.virtualbox(name).replace(f'"{name}"', f'"{name}" {attribute}', 1)
    (tmp_path / "web.ovf").write_text(text)
    if "gzip" in attribute:
        subprocess.run(["gzip", name], cwd=tmp_path, check=True)
        (tmp_path / f"{name}.gz").rename(tmp_path / name)
    else:
        split = ["split", "-b", "65536", "-d", "-a", "9", name, f"{name}."]
        subprocess.run(split, cwd=tmp_path, check=True)
        (tmp_path / name).unlink()
    with pytest.raises(FleetVirtError, match=words) as refused:
        read_source.source(str(tmp_path / "web.ovf"), verify=True)
    command = re.search(r"\(((?:cat|gunzip) [^)]*)\)", str(refused.value))
    assert command is not None
    subprocess.run(["sh", "-c", command[1]], cwd=tmp_path, check=True)
    made = tmp_path / ("disk.vmdk" if "gzip" in attribute else name)
    assert len(read_source.source(str(made), verify=True).disks) == 1
