# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's installer, booted from a CD, with a second CD in the VM, asks its first question.

It takes minutes under emulation and 130 MB of packages, so it is run with FLEET_VIRT_TRIALS alone.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab import paths

from .conftest import Fleet

_PACKAGES = ("debian-installer-12-netboot-amd64", "isolinux")
_TEXT = "usr/lib/debian-installer/images/12/amd64/text/debian-installer/amd64"
_FILES = (f"./{_TEXT}/linux", f"./{_TEXT}/initrd.gz", "./usr/lib/ISOLINUX/isolinux.bin")
_LDLINUX = Path("/usr/lib/syslinux/modules/bios/ldlinux.c32")
_CONFIG = """\
default install
label install
  kernel linux
  append initrd=initrd.gz console=ttyS0,115200 mitigations=off nokaslr
"""
_CD = "/var/lib/libvirt/images/installer.iso"
_MAKE = f"""
cd /run/installer && xorriso -as mkisofs -quiet -V INSTALLER -b isolinux.bin -c boot.cat \
-no-emul-boot -boot-load-size 4 -boot-info-table -o {_CD} .
"""
_QUESTION = "activates buttons"  # below each question


def _installer() -> Path:
    """The folder with the installer's files, kept in the cache folder."""
    folder = paths.cache() / "sources" / "debian-installer-12"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "-q", "download", *_PACKAGES], cwd=folder, check=True)
        for package in folder.glob("*.deb"):
            content = subprocess.run(
                ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True
            ).stdout
            unpack = ["tar", "-x", "--wildcards", "--transform=s,.*/,,", *_FILES]
            subprocess.run(
                unpack, cwd=folder, input=content, stderr=subprocess.DEVNULL, check=False
            )
            package.unlink()
        (folder / "isolinux.cfg").write_text(_CONFIG, encoding="ascii")
        (folder / "ldlinux.c32").write_bytes(_LDLINUX.read_bytes())
        (folder / "complete").touch()
    return folder


def test_debians_installer_asks_its_first_question(fleet: Fleet) -> None:
    folder = _installer()
    fleet.host("hv1", "rm -rf /run/installer; mkdir /run/installer")
    for name in ("linux", "initrd.gz", "isolinux.bin", "isolinux.cfg", "ldlinux.c32"):
        with (folder / name).open("rb") as stream:
            command = [*fleet.lab.login("hv1"), "--", f"cat > /run/installer/{name}"]
            subprocess.run(command, stdin=stream, check=True, timeout=120)
    fleet.host("hv1", _MAKE)
    content = bytearray(1 << 16)
    content[0x8001:0x8006] = b"CD001"
    (fleet.images / "drivers.iso").write_bytes(content)
    vm: dict[str, Any] = {
        "name": "installed",
        "vcpus": 1,
        "memory": 768,
        "disks": [
            {"name": "system", "size": 64},
            {"name": "cd", "device": "cdrom", "image": _CD},
            {"name": "drivers", "device": "cdrom", "bus": "sata", "image": "drivers.iso"},
        ],
        "machine": "q35",
    }
    result = fleet.init("hv1", **vm)
    assert not result["failed"], result.get("msg")
    log = "/var/log/libvirt/qemu/installed-console.log"
    wait_for(lambda: _QUESTION in fleet.host("hv1", f"cat {log}"), 900, "the installer's question")
    drives = fleet.host("hv1", "virsh -q domblklist installed")
    assert drives.count(".iso") == 2, drives
    assert not fleet.init("hv1", **vm)["changed"]
