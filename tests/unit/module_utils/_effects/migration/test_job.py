# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said while a VM moves, and which unit moves it."""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._effects.migration import (
    job as migration_job,
)

_MIB = 1024 * 1024


def test_a_line_of_progress() -> None:
    stats = {
        "data_total": 200 * _MIB,
        "data_processed": 60 * _MIB,
        "data_remaining": 150 * _MIB,
        "time_elapsed": 3000,
        "memory_dirty_rate": 512,
        "memory_page_size": 4096,
    }
    assert migration_job.line("web1", stats) == (
        "web1: 25 %, 60.0 of 200.0 MiB, 20.0 MiB/s, changes 2.0 MiB/s, 8 s left"
    )
    assert migration_job.line("web1", {}) == "web1: 0 %, 0.0 of 0.0 MiB, 0.0 MiB/s"


def test_units_are_named_after_vms() -> None:
    assert migration_job.unit_of("5a8c") == "fleet-virt-migrate-5a8c.service"
