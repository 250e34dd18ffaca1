# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faults of ``make faults`` still have their places; whether they are found is seen there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.seeded_faults import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_it_can_be_seeded(fault: Fault, checkout: Path) -> None:
    text = (checkout / fault.path).read_text(encoding="utf-8")
    seeded = fault.applied(text)
    assert seeded != text
    ast.parse(seeded)
    file, _colons, name = fault.tests.partition("::")
    tests = (checkout / "tests/unit" / file).read_text(encoding="utf-8")
    assert f"def {name.partition('[')[0]}(" in tests


def test_they_are_different() -> None:
    assert len(FAULTS) >= 20
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
