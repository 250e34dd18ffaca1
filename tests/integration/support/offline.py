# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libguestfs on a hypervisor of the laboratory, and images that only the seeding offline needs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ansible_collections.fleet.virt.tests.lab import images
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

FOLDER = "/var/tmp/fleet-virt-offline"
# What is downloaded stays in the cache of apt, so that it is brought once
_INSTALL = (
    "/usr/bin/python3 -c 'import guestfs' 2>/dev/null && exit;"
    " export DEBIAN_FRONTEND=noninteractive;"
    " test -d /var/tmp/.guestfs-0 || apt-get -q update && apt-get install -y -q --no-upgrade"
    " python3-guestfs libguestfs-tools linux-image-cloud-amd64"
)
# The least that is taken for a system in which nothing is missing
SYSTEM = (
    *("mkdir-p /etc/ssh", "mkdir-p /usr/bin", "mkdir-p /usr/sbin", "ln-s usr/bin /bin"),
    *("mkdir-p /usr/lib/systemd/system", "touch /usr/lib/systemd/systemd"),
    *("touch /usr/lib/systemd/systemd-networkd", "touch /usr/bin/python3", "touch /usr/bin/sudo"),
    *("touch /usr/bin/apt-get", "touch /usr/sbin/sshd", "mkdir-p /root", "mkdir-p /var/lib"),
    "write /etc/passwd root:x:0:0:root:/root:/bin/sh",
    "write /etc/group root:x:0:",
    "write /etc/fstab 'LABEL=root / ext4 defaults 0 1'",
)


def install(lab: Laboratory, host: str = "hv1") -> None:
    """Have libguestfs there, unless it is."""
    lab.ssh(host, _INSTALL, timeout=600)


def remove(lab: Laboratory, host: str = "hv1") -> None:
    """Take away what makes the collection find it: other tests are of a host that has none."""
    lab.ssh(host, f"rm -rf {FOLDER}; dpkg --purge python3-guestfs", timeout=120)


@contextmanager
def libguestfs(lab: Laboratory, host: str = "hv1") -> Iterator[None]:
    """A hypervisor with libguestfs and an empty folder for images."""
    install(lab, host)
    lab.ssh(host, f"rm -rf {FOLDER}; mkdir -p {FOLDER}")
    try:
        yield
    finally:
        remove(lab, host)


def guestfish(lab: Laboratory, drives: str, *commands: str, host: str = "hv1") -> str:
    """What guestfish says, with these drives, to these commands of its own."""
    words = "\n".join(["run", *commands])
    return lab.ssh(
        host, f"LIBGUESTFS_BACKEND=direct guestfish {drives}", input=f"{words}\n", timeout=600
    ).stdout


def build(
    lab: Laboratory, made: dict[str, Sequence[str]], *, mib: int = 32, filesystem: str = "ext4"
) -> None:
    """Raw images in FOLDER by name, each a file system with SYSTEM and what these commands add."""
    paths = [f"{FOLDER}/{name}.raw" for name in made]
    lab.ssh("hv1", f"truncate -s {mib}M {' '.join(paths)}")
    commands: list[str] = []
    for letter, more in zip("abcdefgh", made.values()):
        disk = f"/dev/sd{letter}"
        commands += [f"mkfs {filesystem} {disk} label:root", f"mount {disk} /", *SYSTEM, *more]
        commands.append("umount /")
    guestfish(lab, " ".join(f"--format=raw -a {path}" for path in paths), *commands)


def bring_debian(lab: Laboratory, path: str) -> None:
    """The laboratory's Debian image as a file of hv1."""
    with images.image("debian").open("rb") as file:
        copy = [*lab.login("hv1"), f"cat > {path}"]
        subprocess.run(copy, stdin=file, check=True, timeout=300)
