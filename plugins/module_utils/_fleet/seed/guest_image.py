# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a guest's image contains, as far as it matters to seeding."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass

Exists = t.Callable[[str], bool]

_BIN = ("/usr/bin", "/bin", "/usr/local/bin")
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")
_UNITS = ("/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system")
_ENABLED = (
    "/etc/systemd/system/multi-user.target.wants",
    "/etc/systemd/system/sockets.target.wants",
)
# Package managers with the packages of an SSH server and of Python
MANAGERS: dict[str, tuple[str, str]] = {
    "apt-get": ("openssh-server", "python3"),
    "dnf": ("openssh-server", "python3"),
    "yum": ("openssh-server", "python3"),
    "zypper": ("openssh-server", "python3"),
    "pacman": ("openssh", "python"),
}
# Where certificates are put, and the command that installs them from there
TRUST: dict[str, str] = {
    "/etc/pki/ca-trust/source/anchors": "update-ca-trust",
    "/usr/share/pki/trust/anchors": "update-ca-certificates",
    "/usr/local/share/ca-certificates": "update-ca-certificates",
    "/etc/ca-certificates/trust-source/anchors": "update-ca-trust",
}


class Found(t.TypedDict):
    """The description of an image in a result."""

    os: str
    cloud_init: bool
    agent: bool
    python: bool
    sshd: bool
    network: str | None


class Seeded(t.TypedDict):
    """How a VM is seeded, in a result, and its image if that was inspected."""

    method: str
    reason: str
    found: Found | None


@dataclass(frozen=True)
class Image:
    """What was found; ``network`` is one of guest_network.BACKENDS, units are names."""

    os: str
    cloud_init: bool = False
    agent: bool = False
    python: bool = False
    sshd: bool = False
    sudo: bool = False
    network: str | None = None
    network_enabled: bool = False
    sshd_unit: str | None = None  # one that exists and is not enabled
    manager: str | None = None
    trust: str | None = None
    bash: bool = False
    resolved: bool = False

    def shown(self) -> Found:
        """Its description in a result."""
        return {
            "os": self.os,
            "cloud_init": self.cloud_init,
            "agent": self.agent,
            "python": self.python,
            "sshd": self.sshd,
            "network": self.network,
        }


def look(exists: Exists, os: str) -> Image:
    """What the image contains; ``exists`` tells whether a path in it exists, following links.

    ``os`` is from its os-release(5). Raises PlanRefused without systemd, which runs the unit for
    the first boot.
    """
    if not _any(exists, ("/usr/lib/systemd", "/lib/systemd"), "systemd"):
        raise PlanRefused(
            f"the image ({os}) has no systemd, which runs the remaining steps at the first boot;"
            " use an image with cloud-init and method nocloud, or seed: false"
        )
    network, enabled = _network(exists)
    return Image(
        os=os,
        cloud_init=_any(exists, _BIN, "cloud-init"),
        agent=_any(exists, (*_BIN, *_SBIN), "qemu-ga"),
        python=_any(exists, _BIN, "python3") or exists("/usr/libexec/platform-python"),
        sshd=_any(exists, _SBIN, "sshd"),
        sudo=_any(exists, _BIN, "sudo"),
        network=network,
        network_enabled=enabled,
        sshd_unit=_sshd_unit(exists),
        manager=next((manager for manager in MANAGERS if _any(exists, _BIN, manager)), None),
        trust=next((path for path in TRUST if exists(path)), None),
        bash=exists("/bin/bash"),
        resolved=_enabled(exists, "systemd-resolved.service", "sysinit.target"),
    )


def _any(exists: Exists, folders: t.Iterable[str], name: str) -> bool:
    return any(exists(f"{folder}/{name}") for folder in folders)


def _enabled(exists: Exists, unit: str, *targets: str) -> bool:
    wants = (f"/etc/systemd/system/{target}.wants" for target in targets)
    return _any(exists, (*_ENABLED, *wants), unit)


def _network(exists: Exists) -> tuple[str | None, bool]:
    """The network backend: the one that is enabled, else one that is installed."""
    networkd = _any(exists, ("/usr/lib/systemd", "/lib/systemd"), "systemd-networkd")
    backends = (
        ("networkmanager", _any(exists, _SBIN, "NetworkManager"), "NetworkManager.service"),
        ("networkd", networkd, "systemd-networkd.service"),
        ("ifupdown", _any(exists, _SBIN, "ifup"), "networking.service"),
    )
    targets = ("network-online.target", "network.target")
    for name, present, unit in backends:
        if present and _enabled(exists, unit, *targets):
            return name, True
    # ifupdown before networkd, which is part of systemd whether it is used or not
    for name in ("networkmanager", "ifupdown", "networkd"):
        if any(backend == name and present for backend, present, _unit in backends):
            return name, False
    return None, False


def _sshd_unit(exists: Exists) -> str | None:
    for name in ("ssh", "sshd"):
        if any(_enabled(exists, f"{name}.{kind}") for kind in ("service", "socket")):
            return None
    names = ("ssh.service", "sshd.service")
    return next((name for name in names if _any(exists, _UNITS, name)), None)
