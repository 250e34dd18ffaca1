# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Package names by distribution, and what is said about what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import DependencyMissing
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_requirements as requirements,
)

# Lines of /etc/os-release as the distributions ship them
RELEASES = {
    "debian": 'ID=debian\nVERSION_ID="12"\n',
    "ubuntu": "ID=ubuntu\nID_LIKE=debian\n",
    "mint": 'ID=linuxmint\nID_LIKE="ubuntu debian"\n',
    "rhel": 'ID="rhel"\nID_LIKE="fedora"\n',
    "rocky": 'ID="rocky"\nID_LIKE="rhel centos fedora"\n',
    "fedora": "ID=fedora\n",
    "leap": 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n',
    "tumbleweed": 'ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n',
    "sles": 'ID="sles"\nID_LIKE="suse"\n',
    "arch": "ID=arch\n",
    "unknown": "# nothing\nID=plan9\nbroken line\n",
    "empty": "",
}


def read(tmp_path: Path, name: str) -> dict[str, str]:
    path = tmp_path / "os-release"
    path.write_text(RELEASES[name])
    return requirements.os_release(str(path))


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("debian", "debian"),
        ("ubuntu", "debian"),
        ("mint", "debian"),
        ("rhel", "rhel"),
        ("rocky", "rhel"),
        ("fedora", "fedora"),
        ("leap", "suse"),
        ("tumbleweed", "suse"),
        ("sles", "suse"),
        ("arch", "arch"),
        ("unknown", None),
        ("empty", None),
    ],
)
def test_family(tmp_path: Path, name: str, family: str | None) -> None:
    assert requirements.family(read(tmp_path, name)) == family


@pytest.mark.parametrize(
    ("name", "missing", "text"),
    [
        (
            "debian",
            ["libvirt", "lxml", "qemu-img"],
            "not installed: libvirt, lxml, qemu-img;"
            " install with: apt-get install python3-libvirt python3-lxml qemu-utils",
        ),
        (
            "rocky",
            ["qemu-img"],
            "not installed: qemu-img; install with: dnf install qemu-img",
        ),
        (
            "leap",
            ["libvirt"],
            "not installed: libvirt; install with: zypper install python3-libvirt-python",
        ),
        ("arch", ["lxml"], "not installed: lxml; install with: pacman -S python-lxml"),
        (
            "unknown",
            ["libvirt", "lxml"],
            "not installed: libvirt, lxml; install them with the distribution's package manager",
        ),
    ],
)
def test_message(tmp_path: Path, name: str, missing: list[str], text: str) -> None:
    assert requirements.missing_message(missing, read(tmp_path, name)) == text


def test_a_command_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements.require()
    requirements.require("sh")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(DependencyMissing, match="not installed: qemu-img"):
        requirements.require("qemu-img")
