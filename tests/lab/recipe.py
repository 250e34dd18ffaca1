# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in a host's root tree: data only, so that its digest names the tree."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

__all__ = ["MACHINE_PACKAGES", "QEMU_CONF", "SUITES", "Recipe", "recipe_for"]

SUITES = ("bookworm", "trixie")

# A user manager for each login costs more than most of what tests log in for.
_NO_USER_MANAGER = (
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "pam-auth-update",
    "--package",
    "--remove",
    "systemd",
)
# Nor the message of the day and a look for mail, which nobody reads.
_NO_MESSAGE = ("sed", "-E", "-i", r"/pam_(motd|mail)\.so/d", "/etc/pam.d/sshd")

# What the machine itself must have; command -> Debian package.
MACHINE_PACKAGES = {
    "bash": "bash",
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "dnsmasq": "dnsmasq-base",
    "tinyproxy": "tinyproxy-bin",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setsid": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "chattr": "e2fsprogs",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}

_COMMON = (
    "systemd,systemd-sysv,dbus,openssh-server,sudo,python3,python3-apt,iproute2,ifupdown,"
    "procps,iputils-ping,ca-certificates"
)
_HYPERVISOR = (
    "udev,libvirt-daemon-system,libvirt-clients,qemu-system-x86,qemu-utils,python3-libvirt,"
    "python3-lxml,xorriso,dnsmasq-base,iptables,nftables,bridge-utils,gnutls-bin,kmod,polkitd,"
    "borgbackup,fuse3,python3-pyfuse3,corosync,pacemaker,pacemaker-cli-utils,resource-agents"
)
# A host of a cell starts them, and no other
_CELL = ("systemctl", "disable", "--quiet", "corosync.service", "pacemaker.service")
# Of use inside a newer root: ansible-core releases that want a newer Python than the machine's. And
# one of two hypervisors can emulate a TPM and has UEFI; on the other, virt-install makes VMs, too.
_EXTRA = {"trixie": "python3-venv,swtpm,swtpm-tools,ovmf", "bookworm": "virtinst"}

# There is no hardware here and nobody at the console: these cost boot time or fail.
_MASKED = (
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-kernel.socket",
    "systemd-udevd-control.socket",
    "getty@tty1.service",
    "console-getty.service",
    "systemd-networkd-wait-online.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
)

# A container has neither the cgroup controllers nor the security modules nor the mount
# propagation that these want; and ownership remembered in extended attributes does not survive
# the overlay.
QEMU_CONF = """
# The laboratory is a container: see tests/lab/recipe.py.
cgroup_controllers = [ ]
security_driver = "none"
namespaces = [ ]
remember_owner = 0
"""

# The default key exchange guards against computers that are yet to be built, and is most of what a
# connection costs.
_SSHD_CONF = (
    "UseDNS no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
    "KexAlgorithms curve25519-sha256\n"
)


@dataclass(frozen=True)
class Recipe:
    """One root tree: every field is part of its digest."""

    suite: str
    bare: bool
    packages: tuple[str, ...]
    masked: tuple[str, ...] = _MASKED
    files: dict[str, str] = field(default_factory=dict)
    append: dict[str, str] = field(default_factory=dict)
    commands: tuple[tuple[str, ...], ...] = ()
    remove: tuple[str, ...] = ("etc/ssh/ssh_host_*", "etc/apt/apt.conf.d/99mmdebstrap")
    dpkg: tuple[str, ...] = (
        "force-unsafe-io",
        "path-exclude=/usr/share/man/*",
        "path-exclude=/usr/share/locale/*",
        "path-exclude=/usr/share/doc/*",
        "path-include=/usr/share/doc/*/copyright",
    )

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that change with anything in the recipe."""
        data = json.dumps(self.__dict__, sort_keys=True)
        return hashlib.sha256(data.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The tree's folder name."""
        return f"{self.suite}{'-bare' if self.bare else ''}-{self.digest}"


def recipe_for(suite: str, bare: bool) -> Recipe:
    """The recipe of a ready hypervisor, or of a bare machine that is to become one."""
    packages = _COMMON if bare else f"{_COMMON},{_HYPERVISOR},{_EXTRA[suite]}"
    names = tuple(sorted({name for name in packages.split(",") if name}))
    files = {
        "etc/ssh/sshd_config.d/lab.conf": _SSHD_CONF,
        "etc/sudoers.d/admin": "admin ALL=(ALL:ALL) NOPASSWD: ALL\n",
        # Recommended packages double what has to be fetched and show nothing more.
        "etc/apt/apt.conf.d/90lab": 'APT::Install-Recommends "false";\n',
    }
    adduser = ("useradd", "--create-home", "--shell", "/bin/bash", "--user-group")
    groups = ("--groups", "sudo" if bare else "sudo,libvirt")
    return Recipe(
        suite=suite,
        bare=bare,
        packages=names,
        files=files,
        append={} if bare else {"etc/libvirt/qemu.conf": QEMU_CONF},
        commands=(
            (*adduser, *groups, "admin"),
            _NO_USER_MANAGER,
            _NO_MESSAGE,
            *(() if bare else (_CELL,)),
        ),
    )
