# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What placement reads of this machine itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_devices as devices,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.offers import (
    Offers,
    offers_from,
)


def test_interfaces_are_those_of_this_machine() -> None:
    assert "lo" in devices.interfaces()


def test_block_devices_have_all_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no block device, hangs nowhere, and is not followed in a circle."""
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "gone").symlink_to("/nowhere")
    (tmp_path / "circle").symlink_to(tmp_path)
    monkeypatch.setattr(devices, "_DEV", str(tmp_path))
    assert devices.block_devices() == []
    real = [str(one) for one in Path("/dev").iterdir() if one.is_block_device()]
    if real:
        (tmp_path / "vg0").mkdir()
        (tmp_path / "vg0" / "lv").symlink_to(real[0])
        assert devices.block_devices() == [str(tmp_path / "vg0" / "lv")]


def test_huge_pages_of_the_default_size_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size, total, free in ((1048576, 0, 0), (2048, 10, 7)):
        folder = tmp_path / f"hugepages-{size}kB"
        folder.mkdir()
        (folder / "nr_hugepages").write_text(f"{total}\n")
        (folder / "free_hugepages").write_text(f"{free}\n")
    memory = tmp_path / "meminfo"
    memory.write_text("HugePages_Total: 10\nHugepagesize:       2048 kB\n")
    monkeypatch.setattr(devices, "_PAGES", tmp_path)
    monkeypatch.setattr(devices, "_MEMINFO", memory)
    assert devices.hugepages() == [
        {"size_kib": 2048, "total": 10, "free": 7},
        {"size_kib": 1048576, "total": 0, "free": 0},
    ]


def test_virtiofs_is_where_its_helper_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_HELPERS", (tmp_path / "none", tmp_path))
    (tmp_path / "10-gpu.json").write_text(json.dumps({"type": "gpu", "binary": "/bin/sh"}))
    (tmp_path / "20-broken.json").write_text("{")
    (tmp_path / "30-gone.json").write_text(json.dumps({"type": "fs", "binary": "/nowhere"}))
    assert devices.has_virtiofs() is False
    (tmp_path / "50-virtiofsd.json").write_text(json.dumps({"type": "fs", "binary": "/bin/sh"}))
    assert devices.has_virtiofs() is True


def test_vsock_is_offered_where_its_device_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_VSOCK", str(tmp_path / "vhost-vsock"))
    assert devices.has_vsock() is False
    (tmp_path / "vhost-vsock").touch()
    assert devices.has_vsock() is True


def test_what_was_read_is_what_placement_takes() -> None:
    entry = {
        "volumes": {"default": ["a"]},
        "devices": ["/dev/vg/a"],
        "interfaces": None,
        "openvswitch": [],
        "nwfilters": ["own"],
        "vsock": False,
        "hugepages": [{"size_kib": 2048, "total": 2, "free": 1}, "nonsense"],
        "virtiofs": "yes",
        "secure_boot": True,
        "secrets": ["disks"],
        "cell": "a",
    }
    assert offers_from(entry) == Offers(
        volumes={"default": frozenset({"a"})},
        devices=frozenset({"/dev/vg/a"}),
        openvswitch=frozenset(),
        nwfilters=frozenset({"own"}),
        vsock=False,
        hugepages=((2048, 2, 1),),
        secure_boot=True,
        secrets=frozenset({"disks"}),
        cell="a",
    )
    assert offers_from("nonsense") == Offers()
