# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our block in a file of somebody else: what is not ours stays as it is."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import config_block
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.config_block import (
    BEGIN,
    END,
    Block,
)

TOP = Block("/etc/x.conf", ("a = 1", 'b = "two"'), top=True)
BOTTOM = Block("/etc/x.conf", ("A=1",), top=False)
WRITTEN = f'{BEGIN}\na = 1\nb = "two"\n{END}\n'


@pytest.mark.parametrize(
    ("text", "block", "wanted"),
    [
        ("", TOP, WRITTEN),
        ("# theirs\nc = 3\n", TOP, f"{WRITTEN}# theirs\nc = 3\n"),
        ("c = 3", TOP, f"{WRITTEN}c = 3\n"),
        (f"{WRITTEN}c = 3\n", TOP, f"{WRITTEN}c = 3\n"),
        (f"c = 3\n{WRITTEN}d = 4\n", TOP, f"{WRITTEN}c = 3\nd = 4\n"),
        (f"{BEGIN}\nold = 1\n{END}\nc = 3\n", TOP, f"{WRITTEN}c = 3\n"),
        (f"{WRITTEN}{WRITTEN}", TOP, WRITTEN),
        ("B=2\n", BOTTOM, f"B=2\n{BEGIN}\nA=1\n{END}\n"),
        (f"{BEGIN}\nA=1\n{END}\nB=2\n", BOTTOM, f"B=2\n{BEGIN}\nA=1\n{END}\n"),
        (f"{WRITTEN}c = 3\n", Block("x", (), top=True), "c = 3\n"),
        ("", Block("x", (), top=True), ""),
    ],
)
def test_put(text: str, block: Block, wanted: str) -> None:
    assert config_block.put(text, block) == wanted
    assert config_block.put(wanted, block) == wanted


def test_a_block_without_its_end_is_not_guessed() -> None:
    with pytest.raises(PlanRefused, match=r"/etc/x\.conf.*END"):
        config_block.put(f"{BEGIN}\na = 1\nc = 3\n", TOP)


def test_what_has_no_effect_is_named() -> None:
    text = f'a = 0\n# a = 5\n{WRITTEN}  b="two"\nb = "three"\nc = 3\n'
    assert config_block.overruled(text, TOP) == ["/etc/x.conf: a = 0", '/etc/x.conf: b = "three"']


def test_settings_a_file_names() -> None:
    text = '# Comment = of words\n#max_files = 1\nuser = "x"\n #  odd_one =\n'
    assert config_block.named(text) == {"max_files", "user", "odd_one"}
