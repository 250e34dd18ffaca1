# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks on storage that both hypervisors have: nothing of them is copied, made or removed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import SHARED_AT, Movers

_PROFILE = [{"name": "system", "pool": "shared", "size": 256}]


def _make(movers: Movers, name: str, **options: Any) -> None:
    movers.make(name, disks=_PROFILE, overlay=False, **options)


def _files(folder: Path) -> dict[str, int]:
    """Names and inodes."""
    return {one.name: one.stat().st_ino for one in folder.iterdir()}


def test_b17_no_disk_is_copied_made_or_removed(movers: Movers, folder: Path) -> None:
    """B17, there, back and there, by each transport, while the guest counts and writes; check mode
    says so before."""
    _make(movers, "both")
    movers.count("both")
    before = _files(folder)
    assert "both_system.qcow2" in before
    args = movers.args("both")
    (told,) = movers.ansible.module("hv1", "virt_migrate", args, check=True)["hv1"]["vms"]
    assert (told["failed"], told["flow"], told["bytes_to_copy"]) == (False, "shared", 0), told
    first = movers.shown("hv1", "both")
    for source, other, options in (
        ("hv1", "hv2", {}),
        ("hv2", "hv1", {"tunnelled": True}),
        ("hv1", "hv2", {"parallel_connections": 2}),
    ):
        vm = movers.module("both", source, **options)
        assert (vm["failed"], vm["flow"]) == (False, "shared"), vm
        assert _files(folder) == before
        movers.clean(source, "both")
        assert "migrating" not in movers.metadata(other, "both")
        wait_for(lambda: movers.shown(other, "both") > first, 15, "it goes on counting")  # noqa: B023
    assert not movers.module("both")["changed"]


def test_the_same_id_on_another_storage_proves_nothing(movers: Movers, folder: Path) -> None:
    """hv2 has a copy of the folder, as from a backup."""
    _make(movers, "both", start=False)
    copy = folder.parent / "copy"
    movers.fleet.host("hv2", "virsh -q pool-destroy shared; umount -l /srv/shared")
    subprocess.run(["cp", "-a", folder, copy], check=True)
    with shared_folder(movers.lab, copy, SHARED_AT, ("hv2",)):
        movers.fleet.host("hv2", "virsh -q pool-start shared; virsh -q pool-refresh shared")
        vm = movers.module("both")
        assert vm["failed"]
        assert "a file created on the destination is not visible on the source" in vm["msg"]
        assert _files(copy).keys() == _files(folder).keys(), "what was made is removed"
        movers.clean("hv2", "both")
        assert movers.state("hv1", "both") == "shut off"
