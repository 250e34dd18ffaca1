# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what preflight judges, from libvirt's own test driver."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import read as preflight


def test_a_check_that_fails_takes_no_other_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_connection: object) -> None:
        raise FleetVirtError("no capabilities")

    monkeypatch.setattr(preflight, "_hypervisor", fails)
    settings = preflight.PreflightRequest(
        "test:///default", 5.0, [], ["default-pool", "absent"], []
    )
    facts = preflight.read(settings)
    assert facts["errors"]["hypervisor"] == "no capabilities"
    assert "cpu" not in facts["errors"]
    assert [(pool["name"], pool["state"]) for pool in facts["pools"]] == [
        ("default-pool", "running"),
        ("absent", None),
    ]
