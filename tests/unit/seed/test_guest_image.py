# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an image has, told from what is where in it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import guest_image

WANTS = "/etc/systemd/system/multi-user.target.wants"
SYSTEMD = {"/usr/lib/systemd/systemd"}
DEBIAN = SYSTEMD | {
    "/usr/bin/apt-get",
    "/usr/bin/python3",
    "/usr/bin/sudo",
    "/usr/sbin/sshd",
    "/usr/sbin/ifup",
    "/bin/bash",
    "/usr/local/share/ca-certificates",
    "/usr/lib/systemd/systemd-networkd",
    f"{WANTS}/ssh.service",
}
FEDORA = SYSTEMD | {
    "/usr/bin/dnf",
    "/usr/bin/yum",
    "/usr/bin/cloud-init",
    "/usr/bin/qemu-ga",
    "/usr/sbin/sshd",
    "/usr/lib/systemd/system/sshd.service",
    "/usr/sbin/NetworkManager",
    "/usr/lib/systemd/systemd-networkd",
    f"{WANTS}/NetworkManager.service",
    "/etc/pki/ca-trust/source/anchors",
}


def look(paths: t.Collection[str]) -> guest_image.Image:
    return guest_image.look(paths.__contains__, "debian 12")


def test_a_debian() -> None:
    image = look(DEBIAN)
    assert image.shown() == {
        "os": "debian 12",
        "cloud_init": False,
        "agent": False,
        "python": True,
        "sshd": True,
        "network": "ifupdown",
    }
    assert (image.manager, image.trust) == ("apt-get", "/usr/local/share/ca-certificates")
    assert (image.sudo, image.bash, image.sshd_unit) == (True, True, None)


def test_a_fedora() -> None:
    image = look(FEDORA)
    assert image.shown() == {
        "os": "debian 12",
        "cloud_init": True,
        "agent": True,
        "python": False,
        "sshd": True,
        "network": "networkmanager",
    }
    assert (image.manager, image.trust) == ("dnf", "/etc/pki/ca-trust/source/anchors")
    assert image.sshd_unit == "sshd.service"  # which is not enabled


@pytest.mark.parametrize(
    ("paths", "network", "enabled"),
    [
        (set(), None, False),
        ({"/lib/systemd/systemd-networkd"}, "networkd", False),
        ({"/lib/systemd/systemd-networkd", "/sbin/ifup"}, "ifupdown", False),
        (
            {"/lib/systemd/systemd-networkd", "/sbin/ifup", f"{WANTS}/systemd-networkd.service"},
            "networkd",
            True,
        ),
        ({"/sbin/ifup", f"{WANTS}/networking.service"}, "ifupdown", True),
        (
            {
                "/sbin/ifup",
                "/usr/sbin/NetworkManager",
                f"{WANTS}/networking.service",
                f"{WANTS}/NetworkManager.service",
            },
            "networkmanager",
            True,
        ),
        # a link to a program that is not there
        ({f"{WANTS}/NetworkManager.service", "/sbin/ifup"}, "ifupdown", False),
    ],
)
def test_what_configures_the_network(paths: set[str], network: str | None, enabled: bool) -> None:
    image = look(SYSTEMD | paths)
    assert (image.network, image.network_enabled) == (network, enabled)


@pytest.mark.parametrize(
    ("paths", "manager"),
    [
        ({"/usr/bin/apt-get"}, "apt-get"),
        ({"/usr/bin/yum"}, "yum"),
        ({"/usr/bin/zypper"}, "zypper"),
        ({"/usr/bin/pacman"}, "pacman"),
        (set(), None),
    ],
)
def test_package_managers(paths: set[str], manager: str | None) -> None:
    assert look(SYSTEMD | paths).manager == manager


def test_without_systemd_nothing_can_happen_at_the_first_boot() -> None:
    with pytest.raises(PlanRefused, match=r"the image \(debian 12\) has no systemd"):
        look({"/sbin/init"})
