# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest machine type that all hypervisors have."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.machine_types import (
    newest_common,
)

_OLD = ["pc", "q35", "pc-i440fx-7.2", "pc-i440fx-2.12", "pc-q35-7.2", "pc-q35-2.12", "isapc"]
_NEW = ["pc", "q35", "pc-i440fx-10.0", "pc-i440fx-7.2", "pc-q35-10.0", "pc-q35-7.2", "microvm"]


@pytest.mark.parametrize(
    ("machines", "wanted", "expected"),
    [
        ([_OLD], None, "pc-q35-7.2"),
        ([_NEW], None, "pc-q35-10.0"),
        ([_OLD, _NEW], None, "pc-q35-7.2"),
        ([_OLD, _NEW], "pc", "pc-i440fx-7.2"),
        ([_OLD, _NEW], "q35", "pc-q35-7.2"),
        ([_OLD, _NEW], "pc-q35-7.2", "pc-q35-7.2"),
        ([_OLD, _NEW], "pc-q35-10.0", None),
        ([["virt", "virt-8.2", "virt-9.0"]], None, "virt-9.0"),
        ([_OLD, ["virt-9.0"]], None, None),
        ([["isapc"]], None, None),
        ([], None, None),
    ],
)
def test_newest_common(machines: list[list[str]], wanted: str | None, expected: str | None) -> None:
    assert newest_common(machines, wanted) == expected
