# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cannot be seeded offline: told clearly, nothing left, and no file of the hypervisor touched.

Only with FLEET_VIRT_TRIALS: every look into a disk takes many seconds where there is no KVM.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.tests.integration.support import offline
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet

# The folder that such a link finds on the hypervisor if it is followed there
_OUTSIDE = f"{offline.FOLDER}/outside"
_OUTSIDE_THERE = (
    f"mkdir -p {_OUTSIDE}/etc/ssh/sshd_config.d {_OUTSIDE}/root/.ssh; cd {_OUTSIDE};"
    " cp /etc/passwd /etc/group /etc/hosts etc; cp /etc/ssh/sshd_config etc/ssh;"
    " echo nobody > root/.ssh/authorized_keys"
)
_UP = "../" * 8
_LUKS = f"{offline.FOLDER}/luks.raw"
_MARKS = (
    "find /etc /root {0} -xdev -type f ! -path '*/.ansible/*' -exec sha256sum {{}} + | sort;"
    " find /etc /root {0} -xdev ! -path '*/.ansible/*' -printf '%p %l %m %u\\n' | sort"
)


# A system on an encrypted disk; guestfish reads the key from the line after each of two commands
_ENCRYPTED = (
    *("part-init /dev/sda mbr", "part-add /dev/sda p 2048 65535", "part-add /dev/sda p 65536 -1"),
    *("mkfs ext4 /dev/sda1", "luks-format /dev/sda2 0", "no secret"),
    *("luks-open /dev/sda2 root", "no secret", "mkfs ext4 /dev/mapper/root label:root"),
    *("mount /dev/mapper/root /", *offline.SYSTEM, "umount /", "luks-close /dev/mapper/root"),
)


def _link(path: str, *before: str) -> tuple[str, ...]:
    """Commands that make ``path`` of an image a link to a folder of the hypervisor."""
    return (*before, f"ln-s {_UP}{_OUTSIDE[1:]}{path} {path}")


def _marks(fleet: Fleet) -> set[str]:
    """Every file of the hypervisor that such a link could lead to; libvirt writes its own."""
    lines = fleet.host("hv1", _MARKS.format(_OUTSIDE)).splitlines()
    return {line for line in lines if "/libvirt" not in line}


def _refused(fleet: Fleet, image: str, *words: str) -> None:
    options = {"name": "refused", "image": image, "memory": 64, "start": False}
    seed = {"method": "offline", "user": "root"}
    for check in (True, False):
        refused = fleet.init("hv1", check=check, **options, seed=seed)
        if check and not refused["failed"]:
            continue  # it does not look into the image
        assert refused["failed"], refused
        for word in words:
            assert word in refused["msg"], refused["msg"]
        assert fleet.files("hv1") == []
        assert fleet.domains()["hv1"] == []


if "FLEET_VIRT_TRIALS" in os.environ:

    @pytest.fixture(scope="module")
    def _installed(lab: Laboratory) -> Iterator[None]:
        with offline.libguestfs(lab):
            yield

    @pytest.fixture(scope="module")
    def _links(lab: Laboratory, _installed: None) -> None:
        links = {
            "etc": _link("/etc", "mv /etc /was"),
            # what it leads to is in the image as well, so that it looks like a system's
            "etc-inside": _link("/etc", f"mkdir-p {_OUTSIDE}", f"mv /etc {_OUTSIDE}/etc"),
            "keys": _link("/root/.ssh"),
            "keys-inside": _link("/root/.ssh", f"mkdir-p {_OUTSIDE}/root/.ssh"),
            "sshd": _link("/etc/ssh/sshd_config"),
            "sshd-folder": _link("/etc/ssh/sshd_config.d"),
        }
        offline.build(lab, links)
        lab.ssh("hv1", _OUTSIDE_THERE)

    @pytest.mark.usefixtures("_links")
    @pytest.mark.parametrize(
        ("image", "link"),
        [
            ("etc", "/etc"),
            ("etc-inside", "/etc"),
            ("keys", "/root/.ssh"),
            ("keys-inside", "/root/.ssh"),
            ("sshd", "/etc/ssh/sshd_config"),
            ("sshd-folder", "/etc/ssh/sshd_config.d"),
        ],
    )
    def test_links_that_lead_to_the_hypervisor(fleet: Fleet, image: str, link: str) -> None:
        before = _marks(fleet)
        assert any(f"{_OUTSIDE}/root/.ssh/authorized_keys" in line for line in before)
        _refused(
            fleet, f"{offline.FOLDER}/{image}.raw", f"{link} ", f"-> {_UP}{_OUTSIDE[1:]}{link}"
        )
        assert _marks(fleet) ^ before == set()

    @pytest.mark.usefixtures("_installed")
    def test_an_encrypted_root(fleet: Fleet) -> None:
        fleet.host("hv1", f"truncate -s 128M {_LUKS}")
        drive = f"--keys-from-stdin --format=raw -a {_LUKS}"
        offline.guestfish(fleet.lab, drive, *_ENCRYPTED)
        _refused(
            fleet,
            _LUKS,
            "no operating system was detected on /var/lib/libvirt/images/refused_system.qcow2",
            "/dev/sda2 is encrypted (LUKS)",
            "method nocloud",
        )
