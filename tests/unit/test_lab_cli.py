# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The laboratory's command line takes its words in any order in which somebody would type them."""

from __future__ import annotations

import itertools
import re

import pytest
from ansible_collections.fleet.virt.tests.lab import cli


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["up", "2"], {"verb": "up", "count": 2, "name": "lab"}),
        (["up", "2", "--name t1"], {"verb": "up", "count": 2, "name": "t1"}),
        (["up", "2", "--name up", "--suites trixie"], {"name": "up", "suites": "trixie"}),
        (["down", "--name t1"], {"verb": "down", "name": "t1"}),
        (["status", "--name t1"], {"verb": "status", "name": "t1"}),
        (["add", "--bare", "--suite trixie"], {"verb": "add", "bare": True, "suite": "trixie"}),
        (["kill", "hv1", "--name=t1"], {"verb": "kill", "host": "hv1", "name": "t1"}),
    ],
)
def test_lab_words_in_every_order_mean_the_same(
    parts: list[str], expected: dict[str, object]
) -> None:
    for order in itertools.permutations(parts):
        words = [word for part in order for word in part.split()]
        arguments = vars(cli._arguments(words))
        assert {key: arguments[key] for key in expected} == expected, words


@pytest.mark.parametrize(
    "words", ["ssh hv1 virsh list --name", "--name t1 ssh hv1 -- up 2", "hv1 ssh down"]
)
def test_lab_ssh_command_stays_as_it_is(words: str) -> None:
    arguments = cli._arguments(words.split())
    assert (arguments.verb, arguments.host) == ("ssh", "hv1")
    # newer Pythons leave out the dashes, others leave that to the laboratory
    given = [word for word in arguments.command if word != "--"]
    assert " ".join(given) == re.split("(?:ssh hv1|hv1 ssh) (?:-- )?", words)[1]


@pytest.mark.parametrize("words", ["", "2", "nowhere", "--name", "--name up"])
def test_lab_without_a_verb_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        cli._arguments(words.split())
    assert refused.value.code == 2
    assert "usage: lab" in capsys.readouterr().err
