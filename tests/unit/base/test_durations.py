# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of tasks: never below what works on the hypervisor is given there."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import durations
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    plan as migration_plan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import (
    MigrationOptions,
    MigrationPlan,
)

_GIB = 1024**3


def test_data_and_vms_count() -> None:
    assert durations.transfer(0) == 900
    assert durations.transfer(_GIB + 1) == 900 + 2 * 600
    assert durations.creation([0, 10 * _GIB]) == 900 + 900 + 6000
    assert durations.moves([], 800, 2) == 0


@pytest.mark.parametrize("parallel", [1, 2, 3, 10])
@pytest.mark.parametrize("per_gib", [1, 800])
def test_a_move_has_time_for_all_that_its_hypervisor_gives_it(parallel: int, per_gib: int) -> None:
    options = MigrationOptions(seconds_per_gib=per_gib)
    for sizes in ((0,), (1, 1, 1), (100, 1, 1, 1), (1, 1, 1, 100), (7, 3, 9, 2, 8)):
        given = durations.moves([size * _GIB for size in sizes], per_gib, parallel)
        for order in itertools.islice(itertools.permutations(sizes), 24):
            ends = [0.0] * parallel
            for size in order:
                ends.sort()
                own = migration_plan.seconds(MigrationPlan(), size * 1024, options)
                ends[0] += 2 * own  # with on_timeout=pause
            assert given > max(ends)
