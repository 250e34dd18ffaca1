# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor says of shared storage and of moves: mended by its remedies, and gone."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
_ORPHAN = "virsh -q vol-create-as shared doctor-old.img 1M --format raw"
_FORGET = "rm -f /var/lib/libvirt/fleet-notes/pool.*; virsh -q pool-refresh fleet-notes"
FAULTS = [
    ("card_differs", "'doctored'"),
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


def _findings(movers: Movers) -> list[dict[str, Any]]:
    run = movers.ansible.playbook("doctor", {"virt_output": "json"}).succeeded()
    answer = run.of("Show the findings")["hv1"]
    assert json.loads(answer["output"])["not_looked_at"] == []
    findings: list[dict[str, Any]] = answer["findings"]
    return findings


def test_card_move_and_shared_volume_are_mended_by_their_remedies(
    movers: Movers, declared: Path
) -> None:
    disks = [{"name": "system", "pool": "shared", "size": 64}]
    movers.make("doctored", disks=disks, overlay=False, start=False)
    (declared / _CARD).unlink()
    movers.lab.ssh("hv1", "/bin/sh -e", input=_MOVING + _ORPHAN)
    movers.fleet.host("hv2", "virsh -q pool-refresh shared")

    findings = _findings(movers)
    unused = [one["message"] for one in findings if one["id"] == "volume_unused"]
    assert len(unused) == 1, "the disk is not unused, though hv2 has no VM with it"
    for kind, word in FAULTS:
        (named,) = [one for one in findings if one["id"] == kind and word in one["message"]]
        typed = re.search(r"\bansible(-playbook)? .*", named["remedy"])
        assert typed is not None, named
        program, *words = shlex.split(typed[0])
        movers.ansible.run(program, words).succeeded()

    assert {one["id"] for one in _findings(movers)}.isdisjoint(dict(FAULTS))
    assert (declared / _CARD).exists()
    assert (declared / "doctored_system.qcow2").exists()
    movers.fleet.host("hv1", "virsh -q undefine doctor-moving")
