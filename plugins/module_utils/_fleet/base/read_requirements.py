# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Missing dependencies of this machine, with the package names of its distribution."""

from __future__ import annotations

import platform
import shutil
import sys
import typing as t

from ..._errors import DependencyMissing
from ..._libvirt import LIBVIRT_IMPORT_ERROR
from ..._lxml import LXML_IMPORT_ERROR

_FAMILIES: dict[str, dict[str, str]] = {
    "debian": {"libvirt": "python3-libvirt", "lxml": "python3-lxml", "qemu-img": "qemu-utils"},
    "rhel": {"libvirt": "python3-libvirt", "lxml": "python3-lxml", "qemu-img": "qemu-img"},
    "fedora": {"libvirt": "python3-libvirt", "lxml": "python3-lxml", "qemu-img": "qemu-img"},
    "suse": {
        "libvirt": "python3-libvirt-python",
        "lxml": "python3-lxml",
        "qemu-img": "qemu-img or qemu-tools",
    },
    "arch": {"libvirt": "libvirt-python", "lxml": "python-lxml", "qemu-img": "qemu-img"},
}
_INSTALL = {
    "debian": "apt-get install",
    "rhel": "dnf install",
    "fedora": "dnf install",
    "suse": "zypper install",
    "arch": "pacman -S",
}


def family(os_release: t.Mapping[str, str]) -> str | None:
    """Key of the package table for the fields of /etc/os-release (os-release(5))."""
    words = [os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()]
    for word in words:
        if word in _FAMILIES:
            return word
    if any(word.startswith(("opensuse", "sles")) for word in words):
        return "suse"
    return "debian" if "ubuntu" in words else None


def missing_message(missing: t.Sequence[str], os_release: t.Mapping[str, str]) -> str:
    """The message for the administrator about the ``missing`` keys of the table."""
    distribution = family(os_release)
    if distribution is None:
        names = ", ".join(missing)
        return f"not installed: {names}; install them with the distribution's package manager"
    packages = " ".join(_FAMILIES[distribution][key] for key in missing)
    return f"not installed: {', '.join(missing)}; install with: {_INSTALL[distribution]} {packages}"


def require(*commands: str, libvirt: bool = True) -> None:
    """Raise DependencyMissing unless libvirt, lxml and each of ``commands`` are present; without
    ``libvirt`` that is not needed."""
    missing = []
    if libvirt and LIBVIRT_IMPORT_ERROR is not None:
        missing.append("libvirt")
    if LXML_IMPORT_ERROR is not None:
        missing.append("lxml")
    missing += [command for command in commands if shutil.which(command) is None]
    if not missing:
        return
    try:
        release: t.Mapping[str, str] = os_release()
    except OSError:
        release = {}
    text = missing_message(missing, release)
    if any(key in ("libvirt", "lxml") for key in missing):
        text += f" (Python modules for {sys.executable}, {platform.python_version()})"
    raise DependencyMissing(text)


def os_release(path: str = "/etc/os-release") -> dict[str, str]:
    """The fields of os-release(5)."""
    fields = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            key, separator, value = line.strip().partition("=")
            if separator:
                fields[key] = value.strip("\"'")
    return fields
