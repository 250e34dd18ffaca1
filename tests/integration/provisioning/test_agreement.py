# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan, check mode and run agree on what is changed, refused and pending, for random pairs of a
definition and a request, in libvirt's QEMU driver; a second run has nothing to do.

Environment: 100 pairs with VMs that are off; with FLEET_VIRT_TRIALS 1,000, and 50 on guests that
run (without it 5, on the guest of ``test_change.py``). The seed is printed and may be given as
FLEET_VIRT_SEED.
"""

from __future__ import annotations

import os

import pytest
from ansible_collections.fleet.virt.tests.integration.support import agreement, guests

from .conftest import Fleet

_ALL = "FLEET_VIRT_TRIALS" in os.environ
_SEED = os.environ.get("FLEET_VIRT_SEED", "20261127")
_PAIRS = 500 if _ALL else 50  # on each of two versions of libvirt
_RUNNING, _GUESTS = 50, 5


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_plan_check_and_run_of_vms_that_are_off_agree(fleet: Fleet, host: str) -> None:
    assert fleet.guests is not None
    fleet.guests.prepare(host)  # for its pool
    found = agreement.judge(fleet.lab, host, _SEED, _PAIRS)
    assert found["changed"] > _PAIRS // 10
    assert found["refused"] > _PAIRS // 10


if _ALL:  # five guests are booted; `make test` has five pairs on one that runs anyway

    def test_plan_check_and_run_of_running_guests_agree(fleet: Fleet) -> None:
        assert fleet.guests is not None
        fleet.guests.prepare("hv1")
        words = (guests.BASE, str(_GUESTS))
        found = agreement.judge(fleet.lab, "hv1", _SEED, _RUNNING, *words)
        assert found["pending"] > 0
        assert found["refused"] > 0
