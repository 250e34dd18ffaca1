# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When libvirt takes the machine ID as its UUID of a machine, and when that is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import config_block
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.config_block import Block
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import (
    identity,
    read_identity,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import machine_uuid

CONF = "/etc/libvirt/libvirtd.conf"
GOOD = "4C4C4544-0042-3510-8052-B3C04F4B4E32"
ID = "69753e4046f88bc38bcc3eeb35a66c66"
OTHER = "addc92058cbd59e6932c25c7f8927861"


def _machine(
    root: Path, firmware: str | None = None, text: str = "", machine_id: str | None = ID
) -> identity.Identity:
    """What is read of a machine with these files."""
    files = {CONF: text}
    if firmware is not None:
        files["/sys/class/dmi/id/product_uuid"] = f"{firmware}\n"
    if machine_id is not None:
        files["/etc/machine-id"] = f"{machine_id}\n"
    for name, content in files.items():
        path = Path(f"{root}{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return read_identity.read(CONF, root=str(root))


@pytest.mark.parametrize(
    "firmware",
    [
        None,
        "",
        "Not Settable",
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        "01010101-0101-0101-0101-010101010101",
        "03000200-0400-0500-0006-000700080009",
        "00020003-0004-0005-0006-000700080009",  # the same, as other firmware writes it
        "03000200-0400-0500-0006-000700080008",
        "03020100-0504-0706-0809-0a0b0c0d0e0f",
        "12345678-1234-5678-90AB-CDDEEFAABBCC",
    ],
)
def test_host_without_a_uuid_needs_its_systemd_id(firmware: str | None, tmp_path: Path) -> None:
    machine = _machine(tmp_path, firmware)
    assert identity.needs(machine, None)
    assert identity.source(machine, None) is None
    assert machine.usable_id == ID


@pytest.mark.parametrize(
    ("firmware", "text", "option"),
    [
        (GOOD, "", None),
        (f"{GOOD}garbage", "", None),  # libvirt reads 36 characters
        (None, f'host_uuid = "{GOOD}"\n', None),
        (None, "host_uuid_source = 'machine-id'\n", None),
        (None, config_block.put("", Block(CONF, identity.lines("machine-id"), top=True)), None),
        (None, "", "machine-id"),
        (None, "", "smbios"),
    ],
)
def test_host_with_a_lasting_uuid_needs_nothing(
    firmware: str | None, text: str, option: str | None, tmp_path: Path
) -> None:
    assert not identity.needs(_machine(tmp_path, firmware, text), option)


@pytest.mark.parametrize(
    "text",
    [
        'host_uuid_source = "smbios"\n',
        f'#host_uuid = "{GOOD}"\n',
        'host_uuid = "00000000-0000-0000-0000-000000000000"\n',
        config_block.put("", Block(CONF, identity.lines("smbios"), top=True)),
    ],
)
def test_line_that_gives_no_uuid_counts_for_none(text: str, tmp_path: Path) -> None:
    assert identity.needs(_machine(tmp_path, None, text), None)


def test_systemd_id_once_taken_is_kept_whatever_firmware_says_later(tmp_path: Path) -> None:
    text = config_block.put("", Block(CONF, identity.lines("machine-id"), top=True))
    machine = _machine(tmp_path, GOOD, text)
    assert identity.source(machine, None) == "machine-id"
    assert identity.expected(machine, "machine-id") == ID
    assert identity.source(machine, "smbios") == "smbios"


@pytest.mark.parametrize("machine_id", [None, "", "uninitialized", "0" * 32, ID[:-1]])
def test_systemd_id_that_libvirt_cannot_take_is_none(
    machine_id: str | None, tmp_path: Path
) -> None:
    machine = _machine(tmp_path, machine_id=machine_id)
    assert machine.usable_id is None
    problem = identity.refusal("hv1", {"machine_id": machine.usable_id}, {})
    assert "none that lasts" in problem
    assert "systemd-machine-id-setup" in problem


def test_systemd_id_of_this_boot_is_none(tmp_path: Path) -> None:
    mounts = tmp_path / "proc/self/mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text("31 25 0:22 /machine-id /etc/machine-id ro - tmpfs tmpfs rw\n")
    assert _machine(tmp_path).usable_id is None


def test_unique_systemd_id_of_an_unknown_host_is_taken() -> None:
    others: dict[str, identity.MachineFacts] = {
        "hv2": {"machine_id": OTHER, "uuid": GOOD.lower(), "noted": {}, "cards": {}},
        "hv3": {"machine_id": None, "uuid": None},  # bare
    }
    assert identity.refusal("hv1", {"machine_id": ID}, others) == ""
    noted: identity.MachineFacts = {"noted": {"hv1": [machine_uuid.written(ID)]}, "cards": {}}
    assert identity.refusal("hv1", {"machine_id": ID}, {"hv2": noted}) == "", "the same machine"


@pytest.mark.parametrize(
    ("facts", "why", "remedy"),
    [
        ({"machine_id": ID}, "hv2 has its machine ID too", "systemd-machine-id-setup"),
        ({"uuid": machine_uuid.written(ID)}, "hv2 has its machine ID too", "reboot it"),
        (
            {"machine_id": OTHER, "noted": {"hv1": [GOOD.lower()]}},
            f"hv2 has noted it as machine {GOOD.lower()}",
            f"libvirtd_host_uuid_source=machine-id --limit hv1; the others' notes of it go with -e"
            f" virt_hypervisors_lost={GOOD.lower()}",
        ),
        (
            {"machine_id": OTHER, "cards": {"hv1": ["/vms/web1@hv1.fleet.xml"]}},
            "the card /vms/web1@hv1.fleet.xml names it",
            "--limit hv1; to leave it as it is, set libvirtd_host_uuid_source: smbios",
        ),
        (
            {"error": "no route"},
            "hv2 cannot be asked for machine IDs and notes (hv2: no route)",
            "virt_hypervisors_lost=hv2",
        ),
    ],
)
def test_systemd_id_of_two_hosts_is_refused_with_a_remedy(
    facts: identity.MachineFacts, why: str, remedy: str
) -> None:
    problem = identity.refusal("hv1", {"machine_id": ID}, {"hv2": facts})
    assert why in problem
    assert remedy in problem


def test_own_card_or_note_names_a_host_too() -> None:
    own: identity.MachineFacts = {"machine_id": ID, "cards": {"hv1": ["/vms/a@hv1.fleet.xml"]}}
    assert "a@hv1.fleet.xml names it" in identity.refusal("hv1", own, {})
    assert "cannot be asked" in identity.refusal("hv1", {"error": "it was not asked"}, {})
