# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiny guest: Debian's cloud kernel, busybox, dropbear and the guest agent on a real root disk.

Its programs come unpacked out of Debian's packages (nothing is configured, no maintainer script
runs); its own scripts are the files in guest/tiny. It holds no key of any kind: host keys are made
at the first boot or come from the seed, authorized keys come from the seed alone. Without a seed
it is reached through its agent and its serial console.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from .errors import LabError
from .images_disk import Disk, put_files, run

PACKAGES = ("busybox-static", "dropbear-bin", "linux-image-cloud-amd64", "qemu-guest-agent")
VARIANT = "extract"
OPTIONS: tuple[str, ...] = ()
GUEST_FILES = Path(__file__).parent / "guest" / "tiny"

PROGRAMS = (
    "usr/sbin/dropbear",
    "usr/bin/dropbearkey",
    "usr/bin/dropbearconvert",
    "usr/sbin/qemu-ga",
)
BOOT_MODULES = ("virtio_pci", "virtio_rng", "virtio_blk", "virtio_scsi", "sd_mod")
LATER_MODULES = ("ata_piix",)
ROOT_MODULES = (
    *("virtio_net", "virtio_console", "virtio_balloon", "af_packet"),
    *("sr_mod", "ata_piix", "isofs", "vfat", "nls_cp437", "nls_ascii", "nls_iso8859_1"),
    *("evdev", "button", "pvpanic_mmio", "pvpanic_pci"),
)
# What takes the kernel a while under emulation and nobody needs here: tracing its functions, a file
# in /sys for each cache of its allocator, BPF's view of congestion control, huge pages, signatures
_NOT_NEEDED = "init_kprobe_trace,slab_sysfs_init,cubictcp_register,init_hugetlbfs_fs,digsig_init"
# All but the first line saves almost a fifth of the boot under emulation, and noreplace-smp alone a
# twentieth: the locks that one processor needs none of stay in the kernel's code. Without
# tsc=reliable, a guest of two processors goes by the HPET ("Marking TSC unstable due to TSCs
# unsynchronized"), which is slow under emulation; of hundreds that did, one lost the timer of its
# first processor.
COMMAND_LINE = (
    "console=ttyS0,115200 quiet scsi_mod.scan=manual panic=5 "
    "mitigations=off nokaslr no_timer_check tsc=reliable hpet=disable noreplace-smp "
    "cryptomgr.notests lsm= "
    f"audit=0 initcall_blacklist={_NOT_NEEDED}"
)

FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    # no password matches "*"; dropbear runs with -s besides
    "etc/shadow": "root:*:1:0:99999:7:::\n",
    "etc/shells": "/bin/sh\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "etc/hostname": "tiny\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/fstab": "LABEL=root / ext4 defaults 0 1\n",
    "etc/tiny.words": "",
    "etc/os-release": 'ID=tiny\nID_LIKE=debian\nNAME="Tiny guest"\nVERSION_ID="1"\n'
    'PRETTY_NAME="Tiny guest"\n',
}
FOLDERS = (
    "data dev etc/dropbear mnt proc root/.ssh run sbin sys tmp usr/bin var/lib/cloud/seed var/log"
)


def plain_name(path: str) -> str:
    """A module's name as the kernel shows it, from its file's name."""
    return os.path.basename(path).removesuffix(".ko").replace("-", "_")


def modules_in_order(root: Path, wanted: Sequence[str]) -> list[Path]:
    """The modules' files of the kernel in `root`, each behind those it depends on.

    What the kernel has built in is left out; a module it has in neither form is an error.
    """
    folder = next((root / "lib/modules").iterdir())
    files = {plain_name(path.name): path for path in folder.rglob("*.ko")}
    built_in = {plain_name(line) for line in (folder / "modules.builtin").read_text().splitlines()}
    order: list[Path] = []

    def add(name: str) -> None:
        if name in built_in:
            return
        if name not in files:
            raise LabError(f"the kernel {folder.name} has no module {name}")
        if files[name] in order:
            return
        found = re.search(rb"\0depends=([^\0]*)\0", files[name].read_bytes())
        for need in found.group(1).decode().split(",") if found else ():
            if need:
                add(need.replace("-", "_"))
        order.append(files[name])

    for name in wanted:
        add(name)
    return order


_SIGNED = b"~Module signature appended~\n"


def unsigned(module: bytes) -> bytes:
    """A module's file without the signature at its end, which the kernel would verify: emulated,
    that takes longer than the rest of loading it. Debian's kernel takes modules without one."""
    if not module.endswith(_SIGNED):
        return module
    signed = module[: -len(_SIGNED)]
    # struct module_signature (kernel: scripts/sign-file.c): twelve bytes, the last four of them the
    # length of the signature before it, in network order
    return signed[: -12 - int.from_bytes(signed[-4:], "big")]


def _put_modules(source: Path, target: Path, *groups: Sequence[str]) -> None:
    """Copy modules with what they need, in modprobe's layout; the last group's names to a list.

    One modprobe for all of them is noticeably faster, emulated, than an insmod for each.
    """
    names = [name for group in groups for name in group]
    modules = modules_in_order(source, names)
    version = next((source / "lib/modules").iterdir()).name
    folder = target / "lib/modules" / version
    folder.mkdir(parents=True, exist_ok=True)
    depends = ""
    for module in modules:
        (folder / module.name).write_bytes(unsigned(module.read_bytes()))
        needs = modules_in_order(source, [plain_name(module.name)])[:-1]
        depends += f"{module.name}: {' '.join(need.name for need in reversed(needs))}\n"
    (folder / "modules.dep").write_text(depends)
    present = {plain_name(module.name) for module in modules}
    (target / "lib/modules/load").write_text(" ".join(n for n in groups[-1] if n in present))


def _put_libraries(source: Path, target: Path, program: str) -> None:
    """Copy what the program is linked with, to the paths where its loader looks for them."""
    said = run("chroot", source, "/lib64/ld-linux-x86-64.so.2", "--list", f"/{program}")
    for name in re.findall(r"(/\S+) \(0x", said):
        place = target / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copyfile(source / name.lstrip("/"), place)
            place.chmod(0o755)


def cpio(folder: Path) -> bytes:
    """The folder as an archive in the kernel's format ("newc"), owned by root."""
    parts: list[bytes] = []

    def add(name: str, mode: int, data: bytes, number: int) -> None:
        raw = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + raw
        parts.append(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))

    for number, path in enumerate(sorted(folder.rglob("*")), start=1):
        mode = path.lstat().st_mode
        data = b""
        if stat.S_ISLNK(mode):
            data = os.readlink(path).encode()
        elif stat.S_ISREG(mode):
            data = path.read_bytes()
        add(str(path.relative_to(folder)), mode, data, number)
    add("TRAILER!!!", 0, b"", 0)
    return b"".join(parts)


def _initramfs(source: Path, work: Path) -> Path:
    folder = work / "initramfs"
    for name in ("bin", "dev", "proc", "root", "sbin", "sys"):
        (folder / name).mkdir(parents=True)
    shutil.copy2(source / "bin/busybox", folder / "bin/busybox")
    shutil.copyfile(GUEST_FILES / "init", folder / "init")
    (folder / "init").chmod(0o755)
    _put_modules(source, folder, LATER_MODULES, BOOT_MODULES)
    archive = work / "initrd"
    archive.write_bytes(gzip.compress(cpio(folder), mtime=0))
    return archive


def _root(source: Path, work: Path) -> Path:
    folder = work / "root"
    for name in FOLDERS.split():
        (folder / name).mkdir(parents=True)
    (folder / "root/.ssh").chmod(0o700)
    (folder / "root").chmod(0o700)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "etc/shadow").chmod(0o600)
    put_files(GUEST_FILES, folder, ["init"])
    shutil.copy2(source / "bin/busybox", folder / "bin/busybox")
    for applet in run("chroot", source, "/bin/busybox", "--list").split():
        link = folder / "bin" / applet
        if not os.path.lexists(link) and not (folder / "sbin" / applet).exists():
            link.symlink_to("busybox")
    (folder / "sbin/init").symlink_to("../bin/busybox")
    for program in PROGRAMS:
        place = folder / program
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / program, place)
        _put_libraries(source, folder, program)
    _put_modules(source, folder, BOOT_MODULES, ROOT_MODULES)
    return folder


def prepare(source: Path, work: Path) -> Disk:
    """The tiny guest's disk out of the unpacked packages in `source`."""
    return Disk(
        root=_root(source, work),
        kernel=next((source / "boot").glob("vmlinuz-*")),
        initramfs=_initramfs(source, work),
        command_line=COMMAND_LINE,
        size_mib=48,
        boot_mib=20,
    )
