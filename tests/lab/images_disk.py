# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bootable qcow2 disk from a folder, without a loop device, a mount or a partition scan.

Layout (MBR): a FAT partition with SYSLINUX, kernel and initramfs at the start of the disk, behind
it the ext4 root. The root is the partition table's first entry (/dev/vda1) and the last on the
disk, so that it can be grown, as in Debian's own cloud images.
"""

from __future__ import annotations

import shutil
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import processes
from .errors import LabError

__all__ = ["MBR_CODE", "Disk", "put_files", "run", "write_disk"]

SECTOR = 512
MIB = 1024 * 1024
BOOT_START = 1 * MIB  # where every partitioning tool begins; leaves room for the boot loader
MBR_CODE = Path("/usr/lib/syslinux/mbr/mbr.bin")


@dataclass(frozen=True)
class Disk:
    """What goes onto a disk. Sizes in MiB; root gets what boot leaves of the disk."""

    root: Path
    kernel: Path
    initramfs: Path
    command_line: str
    size_mib: int
    boot_mib: int


def run(*argv: str | Path, limit: float = 120, role: str | None = None) -> str:
    """Run one program that dies with us, so that a killed builder leaves nothing that writes.

    :raises LabError: it failed or took longer than ``limit`` seconds.
    """
    command = ["setpriv", "--pdeathsig", "KILL", "--", *map(str, argv)]
    return processes.run(command, timeout=limit, role=role).stdout


def put_files(source: Path, target: Path, leave_out: Sequence[str] = ()) -> None:
    """Copy a folder's files into a guest's tree; nothing but "executable" is taken of their modes.

    The checkout's owner, umask and times are nobody's business in a guest.
    """
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        elif path.name not in leave_out:
            shutil.copyfile(path, place)
            place.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _entry(bootable: bool, kind: int, start: int, size: int) -> bytes:
    """One entry of an MBR partition table; addresses by sector number only (LBA)."""
    no_chs = b"\xfe\xff\xff"
    flag = b"\x80" if bootable else b"\x00"
    sectors = struct.pack("<II", start // SECTOR, size // SECTOR)
    return flag + no_chs + bytes([kind]) + no_chs + sectors


def master_boot_record(code: bytes, identity: int, entries: Sequence[bytes]) -> bytes:
    """The first sector of a disk: boot code, disk signature, up to four entries."""
    if len(code) > 440 or len(entries) > 4:
        raise LabError("a master boot record holds 440 bytes of code and four partitions")
    table = b"".join(entries).ljust(64, b"\0")
    return code.ljust(440, b"\0") + struct.pack("<IH", identity, 0) + table + b"\x55\xaa"


def write_disk(disk: Disk, output: Path, name: uuid.UUID) -> None:
    """Write `output` (qcow2). `name` becomes the root's file system UUID and the disk's signature.

    :raises LabError: a program failed, or the content does not fit.
    """
    raw = output.with_suffix(".raw")
    config = output.with_suffix(".cfg")
    boot_size = disk.boot_mib * MIB
    root_start = BOOT_START + boot_size
    root_size = disk.size_mib * MIB - root_start
    config.write_text(
        "default linux\nprompt 0\ntimeout 0\nlabel linux\n  kernel /vmlinuz\n"
        f"  initrd /initrd\n  append {disk.command_line}\n",
        encoding="ascii",
    )
    with raw.open("wb") as stream:
        stream.truncate(disk.size_mib * MIB)
        stream.write(
            master_boot_record(
                MBR_CODE.read_bytes(),
                name.int & 0xFFFFFFFF,
                [
                    _entry(False, 0x83, root_start, root_size),
                    _entry(True, 0x0E, BOOT_START, boot_size),
                ],
            )
        )
    drive = f"{raw}@@{BOOT_START}"
    serial = f"{name.int & 0xFFFFFFFF:08x}"
    geometry = ("-T", str(boot_size // SECTOR), "-h", "255", "-s", "63")
    # SYSLINUX looks up each cluster of the kernel, emulated: eight sectors, with which it is FAT16
    clusters = ("-c", "8")
    hidden = ("-H", str(BOOT_START // SECTOR))  # SYSLINUX adds it to every address it reads
    run("mformat", "-i", drive, *geometry, *clusters, *hidden, "-v", "boot", "-N", serial, "::")
    for source, target in (
        (disk.kernel, "vmlinuz"),
        (disk.initramfs, "initrd"),
        (config, "syslinux.cfg"),
    ):
        run("mcopy", "-i", drive, source, f"::/{target}")
    run("syslinux", "--install", "--offset", str(BOOT_START), raw)
    # A guest may be older than the machine: no feature that its kernel or e2fsck would not know.
    features = ("-O", "^metadata_csum_seed,^orphan_file")
    place = ("-E", f"offset={root_start},root_owner=0:0", "-d", disk.root)
    layout = ("-t", "ext4", "-b", "4096", "-m", "0", "-L", "root", "-U", str(name))
    run("mke2fs", "-q", "-F", *layout, *features, *place, raw, f"{root_size // 1024}k")
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, output)
    raw.unlink()
    config.unlink()
