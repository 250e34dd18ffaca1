# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which unit moves a VM."""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_job as migration_job,
)


def test_units_are_named_after_vms() -> None:
    assert migration_job.unit_of("5a8c") == "fleet-virt-migrate-5a8c.service"
