# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor says of shared storage and of moves: mended by its remedies, and gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration.support import doctor

from .conftest import SHARED_AT, Movers

_CARD = "doctored@hv1.fleet.xml"
# A move that was interrupted before anything was made on hv2
_MOVING = """
virsh -q define /dev/stdin <<END
<domain type='qemu'><name>doctor-moving</name><memory unit='MiB'>64</memory>
 <metadata><fleet xmlns='urn:fleet.virt:1'><phase>migrating</phase>
  <move source='hv1' destination='hv2' run='x' autostart='no' state='shutoff'/></fleet></metadata>
 <os><type arch='x86_64' machine='q35'>hvm</type></os></domain>
END
"""
_STRAY = "virsh -q undefine doctor-stray\n"  # by hand: its disk and its card stay
_STRAY_DISK = f"{SHARED_AT}/doctor-stray_system.qcow2"
_ORPHAN = "virsh -q vol-create-as shared doctor-old.img 1M --format raw\n"
_FORGET = "rm -f /var/lib/libvirt/fleet-notes/pool.*; virsh -q pool-refresh fleet-notes"
FAULTS = [
    ("card_differs", "'doctored'"),
    ("card_unusable", f"{SHARED_AT}/doctor-stray@hv1.fleet.xml"),
    ("move_unfinished", "'doctor-moving'"),
    ("volume_unused", f"{SHARED_AT}/doctor-old.img"),
]


@pytest.fixture
def declared(movers: Movers, folder: Path) -> Iterator[Path]:
    """The folder, as a pool that is declared shared."""
    pools = {"pools": [{"name": "shared", "path": SHARED_AT, "shared": True}]}
    made = movers.ansible.module("hypervisors", "virt_pool", pools)
    assert not [answer for answer in made.values() if answer["failed"]], made
    yield folder
    movers.sweep()
    for host in ("hv1", "hv2"):
        movers.lab.ssh(host, _FORGET, check=False)


def test_card_move_and_shared_volume_are_mended_by_their_remedies(
    movers: Movers, declared: Path
) -> None:
    disks = [{"name": "system", "pool": "shared", "size": 64}]
    movers.make("doctored", disks=disks, overlay=False, start=False)
    (declared / _CARD).unlink()
    movers.make("doctor-stray", disks=disks, overlay=False, start=False)
    movers.lab.ssh("hv1", "/bin/sh -e", input=_MOVING + _ORPHAN + _STRAY)
    movers.fleet.host("hv2", "virsh -q pool-refresh shared")

    findings = doctor.look(movers.ansible)
    unused = [one["message"] for one in findings if one["id"] == "volume_unused"]
    assert len(unused) == 1, "the disk is not unused, though hv2 has no VM with it"
    for kind, word in FAULTS:
        doctor.follow(movers.ansible, doctor.the_one(findings, kind, word)["remedy"])

    findings = doctor.look(movers.ansible)
    unused = [one["message"] for one in findings if one["id"] == "volume_unused"]
    assert [_STRAY_DISK in message for message in unused] == [True], "its card named it"
    assert {one["id"] for one in findings}.isdisjoint({*dict(FAULTS)} - {"volume_unused"})
    assert (declared / _CARD).exists()
    assert (declared / "doctored_system.qcow2").exists()
    movers.fleet.host("hv1", "virsh -q undefine doctor-moving")
