# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bootable qcow2 disk from a folder, without a loop device, a mount or a partition scan.

Layout (MBR): a FAT partition with SYSLINUX, kernel and initramfs at the start of the disk, behind
it the ext4 root. The root is the partition table's first entry (/dev/vda1) and the last on the
disk, so that it can be grown, as in Debian's own cloud images.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECTOR = 512
MIB = 1024 * 1024
BOOT_START = 1 * MIB  # where every partitioning tool begins; leaves room for the boot loader
MBR_CODE = Path("/usr/lib/syslinux/mbr/mbr.bin")


class ImageError(Exception):
    """An image cannot be built; the text says what to do about it."""


@dataclass(frozen=True)
class Disk:
    """What goes onto a disk. Sizes in MiB; root gets what boot leaves of the disk."""

    root: Path
    kernel: Path
    initramfs: Path
    command_line: str
    size_mib: int
    boot_mib: int


def run(argv: Sequence[str | Path], **options: str) -> str:
    """Run one program that dies with its caller; return its standard output.

    :raises ImageError: with the end of what the program said.
    """
    # PDEATHSIG: after a kill -9 of the builder nothing goes on writing into its folder.
    command = ["setpriv", "--pdeathsig", "KILL", "--", *map(str, argv)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=None
        if not options
        else {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **options},
    )
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise ImageError(f"{' '.join(map(str, argv))}: exit status {done.returncode}\n{said}")
    return done.stdout


def _entry(bootable: bool, kind: int, start: int, size: int) -> bytes:
    """One entry of an MBR partition table; addresses by sector number only (LBA)."""
    no_chs = b"\xfe\xff\xff"
    flag = b"\x80" if bootable else b"\x00"
    return flag + no_chs + bytes([kind]) + no_chs + struct.pack("<II", start // SECTOR, size // SECTOR)


def master_boot_record(code: bytes, identity: int, entries: Sequence[bytes]) -> bytes:
    """The first sector of a disk: boot code, disk signature, up to four entries."""
    if len(code) > 440 or len(entries) > 4:
        raise ImageError("a master boot record holds 440 bytes of code and four partitions")
    table = b"".join(entries).ljust(64, b"\0")
    return code.ljust(440, b"\0") + struct.pack("<IH", identity, 0) + table + b"\x55\xaa"


def write_disk(disk: Disk, output: Path, name: uuid.UUID) -> None:
    """Write `output` (qcow2). `name` becomes the root's file system UUID and the disk's signature.

    :raises ImageError: a program failed, or the content does not fit.
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
    sectors = boot_size // SECTOR
    run(
        ["mformat", "-i", drive, "-T", str(sectors), "-h", "255", "-s", "63"]
        + ["-H", str(BOOT_START // SECTOR), "-v", "boot", "-N", f"{name.int & 0xFFFFFFFF:08x}", "::"],
    )
    for source, target in ((disk.kernel, "vmlinuz"), (disk.initramfs, "initrd"), (config, "syslinux.cfg")):
        run(["mcopy", "-i", drive, source, f"::/{target}"])
    run(["syslinux", "--install", "--offset", str(BOOT_START), raw])
    run(
        # A guest may be older than the machine: no feature that its kernel or e2fsck would not know.
        ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-L", "root", "-U", str(name)]
        + ["-O", "^metadata_csum_seed,^orphan_file", "-E", f"offset={root_start},root_owner=0:0"]
        + ["-d", disk.root, raw, f"{root_size // 1024}k"]
    )
    run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, output])
    raw.unlink()
    config.unlink()


def remove_tree(path: Path) -> None:
    """Remove a folder that may already be gone."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
