# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of making media can be told without libvirt."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    effects_nocloud as seed_nocloud,
)


@pytest.mark.parametrize("hole", [0, 1, 4096, 399_999])
def test_a_medium_with_a_hole_is_not_whole(tmp_path: Path, hole: int) -> None:
    medium, content = tmp_path / "web1_seed.iso", b"\1" * 400_000
    medium.write_bytes(content)
    seed_nocloud._require_complete(str(medium), content)
    with medium.open("r+b") as file:
        file.truncate(hole)
        file.truncate(len(content))
    with pytest.raises(PlanRefused, match=r"web1_seed.iso is incomplete.* 391 KiB, and \d+ KiB"):
        seed_nocloud._require_complete(str(medium), content)


def test_a_device_may_be_larger_than_its_medium(tmp_path: Path) -> None:
    medium = tmp_path / "device"
    medium.write_bytes(b"\1" * 1000 + b"\0" * 1000)
    seed_nocloud._require_complete(str(medium), b"\1" * 1000)


def test_what_was_packed_is_unpacked() -> None:
    assert seed_nocloud.unpacked("") == {}
    assert seed_nocloud.unpacked(base64.b64encode(b'{"a": {"b": 1}}').decode()) == {"a": {"b": 1}}


def test_a_program_that_fails_is_named_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(FleetVirtError, match=r"ls could not create .*nothing-here"):
        seed_nocloud._run("the medium", ["ls", tmp_path / "nothing-here"])
    with pytest.raises(FleetVirtError, match="no-such-program could not create the medium: it is"):
        seed_nocloud._run("the medium", ["no-such-program"])
