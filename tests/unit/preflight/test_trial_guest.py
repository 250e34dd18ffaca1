# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The trial guest: how its end is read."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import trial_guest


def test_it_is_one_sector_that_a_firmware_boots() -> None:
    assert len(trial_guest.SECTOR) == 512
    assert trial_guest.SECTOR.endswith(b"\x55\xaa")


@pytest.mark.parametrize(
    ("status", "said", "tried", "problem"),
    [
        (99, "", True, None),
        (1, "failed to initialize kvm: No such device", True, "ended with 1): failed to"),
        (1, "-device: 'isa-debug-exit' is not a valid device model name", False, "cannot boot"),
        (-6, "", True, "ended with -6"),
    ],
)
def test_outcome(status: int, said: str, tried: bool, problem: str | None) -> None:
    found = trial_guest.outcome(status, said)
    assert found["tried"] is tried
    assert problem in found["problem"] if problem else found["problem"] is None


def test_arguments() -> None:
    argv = trial_guest.arguments("/usr/bin/qemu", "kvm", "/x")
    assert argv[:3] == ["/usr/bin/qemu", "-accel", "kvm"]
    assert argv[-1] == "file=/x,format=raw,if=ide,snapshot=off"
