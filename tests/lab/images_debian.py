# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The full guest: Debian's packages with cloud-init, sshd, the guest agent and Python.

It is not Debian's own cloud image. It lacks what only costs time under emulation: documentation,
timers, one of cloud-init's stages, and those of its modules that no seed of ours asks for.
Interfaces have the names that
systemd gives them, so that a seed which counts on eth0 is found out.
"""

from __future__ import annotations

from pathlib import Path

from .images_disk import Disk, put_files

__all__ = ["GUEST_FILES", "OPTIONS", "PACKAGES", "VARIANT", "prepare"]

PACKAGES = (
    *("apt", "ca-certificates", "cloud-guest-utils", "cloud-init", "dbus", "e2fsprogs", "fdisk"),
    *("initramfs-tools", "iproute2", "iputils-ping", "less", "libnss-myhostname"),
    "locales",
    *("linux-image-cloud-amd64", "netplan.io", "openssh-server", "procps", "python3"),
    *("qemu-guest-agent", "sudo", "systemd", "systemd-resolved", "systemd-sysv", "tzdata", "udev"),
)
VARIANT = "minbase"
GUEST_FILES = Path(__file__).parent / "guest" / "debian"

# What the initramfs has to find the root with. Any driver would do; these few load in a second.
_INITRAMFS_MODULES = ("virtio_pci", "virtio_blk", "virtio_scsi", "sd_mod", "ata_piix")
_HOOK = (
    'mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"'
    ' && printf "MODULES=list\\nCOMPRESS=gzip\\n" > "$1/etc/initramfs-tools/conf.d/lab"'
    f' && printf "%s\\n" {" ".join(_INITRAMFS_MODULES)}'
    ' > "$1/usr/share/initramfs-tools/modules.d/lab"'
)
OPTIONS = (
    "--dpkgopt=force-unsafe-io",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    f"--essential-hook={_HOOK}",
)
_COMMAND_LINE = (
    "root=LABEL=root ro console=tty0 console=ttyS0,115200 loglevel=4 scsi_mod.scan=sync "
    "mitigations=off nokaslr no_timer_check tsc=reliable hpet=disable cryptomgr.notests"
)
_FILES = {
    "etc/fstab": "LABEL=root / ext4 defaults,errors=remount-ro 0 1\n",
    "etc/hostname": "debian\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
    # Present and empty: every guest makes its own.
    "etc/machine-id": "",
}
_MASKED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer"),
    *("e2scrub_all.timer", "e2scrub_reap.service", "getty@tty1.service"),
    *("cloud-config.service", "systemd-binfmt.service"),
)


def prepare(source: Path, work: Path) -> Disk:  # noqa: ARG001
    """The full guest's disk: the installed tree in `source` itself becomes the root."""
    for name, text in _FILES.items():
        (source / name).write_text(text)
    for key in source.glob("etc/ssh/ssh_host_*"):
        key.unlink()
    (source / "var/lib/dbus/machine-id").unlink(missing_ok=True)
    put_files(GUEST_FILES, source)
    for unit in _MASKED:
        link = source / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    resolver = source / "etc/resolv.conf"
    resolver.unlink(missing_ok=True)
    resolver.symlink_to("../run/systemd/resolve/stub-resolv.conf")
    return Disk(
        root=source,
        kernel=next((source / "boot").glob("vmlinuz-*")),
        initramfs=next((source / "boot").glob("initrd.img-*")),
        command_line=_COMMAND_LINE,
        size_mib=2048,
        boot_mib=64,
    )
