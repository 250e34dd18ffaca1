# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeds on their way to a hypervisor: YAML read, nothing of them left where it would be shown."""

from __future__ import annotations

import base64
import json
import time
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    effects_nocloud as seed_nocloud,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.settings import SEED
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import HIDDEN
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import options
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _seeds

KEY = (
    "ssh-ed25519 "
    + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(range(32))).decode()
)
TEXT = "#cloud-config\n# a comment\nswap:\n  size: 0\nwhen: 2020-01-01\n"


def test_seeds_are_taken_out_and_come_back_as_they_were() -> None:
    seed = {"hostname": "db", "files": [{"path": "/k", "content": "HUSH"}]}
    vms = [
        {"name": "one", "memory": 64, "seed": seed},
        {"name": "two", "seed": False},
        {"name": "three", "seed": json.dumps({"user_data": TEXT})},
        {"name": "four"},
    ]
    cleaned, text = _seeds.taken_out(vms)
    assert cleaned == [
        {"name": "one", "memory": 64},
        {"name": "two", "seed": False},
        {"name": "three"},
        {"name": "four"},
    ]
    assert "HUSH" not in text
    assert seed_nocloud.unpacked(text) == {
        "one": seed,
        "three": {"user_data": {"swap": {"size": 0}, "when": "2020-01-01"}},
    }


def test_no_secret_goes_to_all_hypervisors_and_nothing_that_is_written_wrong() -> None:
    secret: list[dict[str, object]] = [
        {"name": "one", "seed": {option: "HUSH"}} for option in HIDDEN
    ]
    fit: list[dict[str, object]] = [
        {"name": "two", "memory": 64},
        {"name": "three", "seed": {"hostname": "db"}, "console": "vnc"},
        {"name": "four", "seed": False, "console": {"type": "vnc"}},
    ]
    vms: list[object] = [
        *secret,
        {"name": "five", "seed": json.dumps({"user_data": TEXT})},
        {"name": "six", "console": {"type": "vnc", "password": "HUSH"}},
        {"name": "six", "console": '{"type": "vnc", "password": "HUSH"}'},
        {
            "name": "six",
            "xml": "<domain><devices><graphics type='spice' passwd='HUSH'/></devices></domain>",
        },
        {"name": "seven", "seed": "{"},
        "eight",
        *fit,
        {"name": "nine", "seed": '{"hostname": "db"}'},
    ]
    assert _seeds.fit_for_all(vms) == [*fit, {"name": "nine", "seed": {"hostname": "db"}}]


def test_what_is_hidden_is_what_is_taken_for_secret() -> None:
    """Every row of a seed that may hold a secret is one that no other hypervisor sees."""
    rows = {row.name: [row, *getattr(row, "settings", ())] for row in SEED}
    secret = {name for name, found in rows.items() if any(vars(one).get("secret") for one in found)}
    assert secret == {"password_hash", "users"}
    assert secret <= set(HIDDEN)


def test_nothing_is_packed_when_there_is_nothing() -> None:
    assert _seeds.taken_out([{"name": "one"}]) == ([{"name": "one"}], "")
    assert seed_nocloud.unpacked("") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", "line 1, column 6"),
        ("a: 1\n b: 2", "line 2, column 3"),
        ("a: *HUSH_no", "this is not valid YAML"),
        ("a: !!python/object/apply:os.system [HUSH]", "this is not valid YAML"),
        ("a: \x01", "this is not valid YAML"),
    ],
)
def test_what_is_not_yaml_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="this is not valid YAML") as caught:
        _seeds.read_yaml(text)
    assert words in str(caught.value)


def test_user_data_that_is_not_yaml_is_one_problem_of_the_vm() -> None:
    vm = {"name": "a", "image": "x", "seed": {"ssh_public_keys": [KEY], "user_data": "a: [1"}}
    _domains, problems = options.many([vm], defaults=options.Defaults(read_yaml=_seeds.read_yaml))
    assert [problem.path for problem in problems] == ["vms[0].seed.user_data"]
    assert "line 1" in problems[0].message


def test_an_alias_of_itself_is_refused() -> None:
    value: dict[str, t.Any] = {"user_data": "a: &a [*a]"}
    _domain, problems = options.from_options(
        {"name": "a", "seed": {"ssh_public_keys": [KEY], **value}},
        defaults=options.Defaults(read_yaml=_seeds.read_yaml),
    )
    assert [problem.path for problem in problems] == ["seed.user_data"]


BOMB = "a: &a [xxxxxxxxxx]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefghi", "bcdefghij")
)
MERGED = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 10)}]}}\n"
    for old, new in zip("abcdefghi", "bcdefghij")
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "with its aliases expanded this has more than 4194304 characters"),
        ("a: &a [*a]", "this is not valid YAML"),
        ("a: &a {b: *a}", "this is not valid YAML"),
        (f"a: &a {'x' * 1_000_000}\nb: [*a, *a, *a, *a, *a]", "more than 4194304 characters"),
    ],
)
def test_aliases_that_grow_without_end(text: str, words: str) -> None:
    begun = time.process_time()  # not the clock's: others may have the processors
    with pytest.raises(ValueError, match=words):
        _seeds.read_yaml(text)
    assert time.process_time() - begun < 10


def test_merge_keys_that_grow_without_end() -> None:
    """They do until PyYAML 6.0.4, which merges once what is merged in several ways."""
    begun = time.process_time()
    found, refusal = None, ""
    try:
        found = _seeds.read_yaml(MERGED)
    except ValueError as error:
        refusal = str(error)
    small = {name: {"x": 1, "y": 2} for name in "abcdefghij"}
    assert found == small or refusal.startswith("this is not valid YAML")
    assert time.process_time() - begun < 10


def test_aliases_and_merge_keys_are_taken() -> None:
    text = "a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]\n"
    one = {"x": 1}
    assert _seeds.read_yaml(text) == {"a": one, "b": {"x": 1, "y": 2}, "c": [one, one]}
