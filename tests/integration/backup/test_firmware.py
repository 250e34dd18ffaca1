# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VM with UEFI and a TPM is saved while it runs: a copy and the VM itself have the variables and
the secret of that moment. Of the laboratory's hypervisors hv2 has the firmware and swtpm."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.backup_server import BackupServer
from ansible_collections.fleet.virt.tests.integration.support.guests import IMAGES, Guests
from ansible_collections.fleet.virt.tests.lab import (
    images,
    images_disk,
    images_kernel,
    images_tiny,
)
from ansible_collections.fleet.virt.tests.lab.images_disk import run

pytestmark = pytest.mark.trials

NAME, COPY = "sealed1", "sealed1-before"
_TPM = "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>"
_PLAIN = "<firmware><feature enabled='no' name='secure-boot'/></firmware>"
_NVRAM = "/var/lib/libvirt/qemu/nvram"
_STATES = "/var/lib/libvirt/swtpm"
_TEMPLATE = "/usr/share/OVMF/OVMF_VARS_4M.fd"  # of firmware without secure boot
# TPM 2.0 library, part 3: an index of eight bytes that all may write and read, without a password
_INDEX = "01500020"
_OPEN = "00000009 40000009 0000 00 0000"  # a session with an empty password
_PUBLIC = f"000e {_INDEX} 000b 02060006 0000 0008"
_DEFINE = f"8002 0000002d 0000012a 40000001 {_OPEN} 0000 {_PUBLIC}"
_WRITE = f"8002 0000002b 00000137 {_INDEX} {_INDEX} {_OPEN} 0008 {{}} 0000"
_READ = f"8002 00000023 0000014e {_INDEX} {_INDEX} {_OPEN} 0008 0000"
_SUCCESS = "00000000"


def _bring_disk(guests: Guests, path: str, folder: Path) -> None:
    """Bring a disk that UEFI boots: its shell starts the kernel, Debian's, since the tiny guest's
    own knows neither UEFI nor TPM."""
    raw, script = folder / "tiny.raw", folder / "startup.nsh"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(images_kernel.VARIABLE, raising=False)
        image = images.image("tiny")
    run("qemu-img", "convert", "-O", "raw", image, raw)
    boot = f"{raw}@@{images_disk.BOOT_START}"
    script.write_text(f"fs0:\r\nlinux.efi initrd=\\initrd {images_tiny.COMMAND_LINE}\r\n")
    run("mren", "-i", boot, "::/vmlinuz", "::/linux.efi")
    run("mcopy", "-o", "-i", boot, script, "::/startup.nsh")
    with raw.open("rb") as stream:
        command = [*guests.lab.login("hv2"), "--", f"sudo tee {path} > /dev/null"]
        subprocess.run(command, stdin=stream, check=True, timeout=60)


class Sealed:
    """The guest, and what its TPM keeps."""

    def __init__(self, guests: Guests) -> None:
        self.guests = guests

    def ask_tpm(self, name: str, command: str) -> str:
        """Have the guest send a command to its TPM; the answer after its head, in hexadecimal."""
        given = "".join(rf"\x{byte:02x}" for byte in bytes.fromhex(command))
        asks = f"exec 3<>/dev/tpm0; printf '{given}' >&3; dd bs=4096 count=1 <&3 2>/dev/null"
        printed = self.guests.output("hv2", name, f"{{ {asks}; }} | od -An -v -tx1")
        answer = "".join(printed).replace(" ", "")
        assert answer[12:20] == _SUCCESS, answer
        return answer[20:]

    def keep(self, name: str, text: bytes) -> None:
        """Keep eight bytes in its TPM."""
        self.ask_tpm(name, _WRITE.format(text.hex()))

    def kept(self, name: str) -> bytes:
        """The bytes that are kept in its TPM."""
        return bytes.fromhex(self.ask_tpm(name, _READ)[12:28])

    def variables(self, name: str) -> str:
        """The digest of its UEFI variables."""
        xml = self.guests.virsh("hv2", "dumpxml", "--inactive", name)
        path = re.search(r"<nvram[^>]*>([^<]+)</nvram>", xml)
        assert path, xml
        return self.guests.script("hv2", f"sha256sum < {path[1]}").split()[0]

    def state(self, uuid: str) -> list[str]:
        """The digests of the files of its TPM's state."""
        digests = f"cd {_STATES}/{uuid}; find . -type f ! -name .lock | sort | xargs sha256sum"
        return self.guests.script("hv2", digests).splitlines()

    def uuid(self, name: str) -> str:
        """Its UUID."""
        return self.guests.virsh("hv2", "domuuid", name).strip()


def test_restored_vm_has_uefi_variables_and_tpm_state_of_its_backup(
    guests: Guests, ansible: Ansible, tmp_path: Path
) -> None:
    sealed = Sealed(guests)
    _bring_disk(guests, f"{IMAGES}/{NAME}.raw", tmp_path)
    xml = guests.xml(NAME, memory=256, devices=_TPM, nics=())
    xml = xml.replace("<os>", "<os firmware='efi'>").replace("</os>", f"{_PLAIN}</os>")
    xml = xml.replace("type='qcow2'", "type='raw'").replace(f"{NAME}.qcow2", f"{NAME}.raw")
    guests.pool("hv2", "default", IMAGES)
    guests.define_xml("hv2", NAME, xml)
    guests.virsh("hv2", "start", NAME)
    guests.wait_agent("hv2", NAME, 180)
    guests.execute("hv2", NAME, "test -d /sys/firmware/efi/efivars")
    sealed.ask_tpm(NAME, _DEFINE)
    sealed.keep(NAME, b"original")
    uuid = sealed.uuid(NAME)
    variables, state = sealed.variables(NAME), sealed.state(uuid)
    assert variables not in guests.script("hv2", f"sha256sum {_TEMPLATE}"), "it has written some"
    server = BackupServer(guests, ansible, ("hv2",))
    server.begin()
    try:
        server.backup(NAME)
        (archive,) = server.archives(NAME, "hv2")
        assert (sealed.variables(NAME), sealed.state(uuid)) == (variables, state), "it was idle"
        sealed.keep(NAME, b"later on")
        assert sealed.state(uuid) != state
        guests.virsh("hv2", "destroy", NAME)

        place = {**server.variables, "vm_name": NAME, "vm_host": "hv2"}
        beside = {**place, "vm_new_name": COPY, "virt_archive": archive}
        done = ansible.playbook("restore", beside, limit=300).succeeded()
        guests.made.append(("hv2", COPY))
        assert f"{COPY}  hv2" in done.stdout, done.stdout
        other = sealed.uuid(COPY)
        assert other != uuid
        _require_saved(sealed, COPY, other, variables, state)

        guests.remove("hv2", NAME)
        guests.script("hv2", f"rm {IMAGES}/{NAME}.raw")
        assert guests.script("hv2", f"ls {_STATES}").split() == [other]
        ansible.playbook("restore", place, limit=300).succeeded()
        assert sealed.uuid(NAME) == uuid
        _require_saved(sealed, NAME, uuid, variables, state)

        asked = {**server.variables, "vm_name": NAME, "virt_boot_seconds": "240"}
        proven = ansible.playbook("verify_backups", asked, limit=400).succeeded()
        assert re.search(rf"{NAME} +{archive} +hv2 +proven", proven.stdout), proven.stdout
        assert sorted(guests.script("hv2", f"ls {_STATES}").split()) == sorted([uuid, other])
        server.require_nothing_left()
    finally:
        server.end()
        for name in (NAME, COPY):
            guests.remove("hv2", name)
        guests.script("hv2", f"rm -f {IMAGES}/{NAME}*")
    assert guests.script("hv2", f"ls {_NVRAM} {_STATES} | grep -v :$ || true").strip() == ""


def _require_saved(sealed: Sealed, name: str, uuid: str, variables: str, state: list[str]) -> None:
    """Its files are those of the backup before it is started, and its TPM knows the secret then."""
    guests = sealed.guests
    assert sealed.variables(name) == variables
    assert sealed.state(uuid) == state
    guests.virsh("hv2", "start", name)
    guests.wait_agent("hv2", name, 180)
    guests.execute("hv2", name, "test -d /sys/firmware/efi/efivars")
    assert sealed.kept(name) == b"original"
    guests.virsh("hv2", "destroy", name)
