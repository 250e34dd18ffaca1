# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said of the maintenance of a member of a cell."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import (
    effects_maintenance as maintenance,
)

_LINE = "node attribute fleet-maintenance=true\n"


def test_hypervisor_without_cell_keeps_result() -> None:
    """This machine is in none."""
    result = {"changed": True, "maintenance": True}
    assert maintenance.mark(result, True, check=False) == result


@pytest.mark.parametrize(
    ("wanted", "diff", "before", "after"),
    [
        (True, {"before": "", "after": "volume x\n"}, "", f"volume x\n{_LINE}"),
        (True, None, "", _LINE),
        (False, {"before": "volume x\n", "after": ""}, f"volume x\n{_LINE}", ""),
        (False, None, _LINE, ""),
    ],
)
def test_attribute_that_changes_is_in_diff(
    wanted: bool, diff: object, before: str, after: str
) -> None:
    """Also where the hypervisor's own mark was right already, as a killed run leaves it."""
    given = {"changed": diff is not None, "maintenance": wanted}
    changed = maintenance.with_attribute({**given, **({"diff": diff} if diff else {})}, wanted)
    assert changed == {"changed": True, "diff": {"before": before, "after": after}}


@pytest.mark.parametrize(
    ("wanted", "what"), [(True, "may still start its VMs"), (False, "still starts none of its VMs")]
)
def test_cell_without_quorum_is_named(wanted: bool, what: str) -> None:
    text = maintenance.not_told("a", "there is no quorum here", wanted=wanted)
    assert text.startswith("there is no quorum here, so cell 'a' was not told, and ")
    assert what in text
