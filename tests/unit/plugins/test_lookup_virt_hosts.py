# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup that refuses to run a play for no hypervisor at all."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible import context
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_collections.fleet.virt.plugins.lookup import virt_hosts
from ansible_collections.fleet.virt.plugins.lookup.virt_hosts import LookupModule

GROUPS = {
    "all": ["hv1", "hv2", "web1"],
    "hypervisors": ["hv1", "hv2"],
    "empty": [],
    "guests": ["web1"],
}


def look_up(*terms: t.Any, limit: str | None = None, groups: t.Any = GROUPS) -> list[str]:
    variables = {"groups": groups, "ansible_limit": limit}
    return LookupModule(loader=DataLoader()).run(list(terms), variables)


@pytest.mark.parametrize(
    ("terms", "limit", "expected"),
    [
        (["hypervisors"], None, ["hv1", "hv2"]),
        (["hypervisors:!hv1"], None, ["hv2"]),
        (["all:&hypervisors"], None, ["hv1", "hv2"]),
        ([["hv2", "hv1"]], None, ["hv2", "hv1"]),
        (["hypervisors"], "hv2", ["hv2"]),
        (["hypervisors"], "hv1,web1", ["hv1"]),
        (["hypervisors"], "all:!hv1", ["hv2"]),
        (["hypervisors"], "~hv[2-9]", ["hv2"]),
        (["localhost"], None, ["localhost"]),
    ],
)
def test_hosts(terms: list[t.Any], limit: str | None, expected: list[str]) -> None:
    assert sorted(look_up(*terms, limit=limit)) == sorted(expected)


def test_a_name_that_is_no_pattern_is_left_out_of_nothing() -> None:
    names = ["hv1", "2001:db8::10", "hv,2", "!hv3", "&hv4", "rack:5", "hv[6]", "~hv7", "hv 8"]
    names += ["hv9\u00e9:", "x@!:,", "hv1,hv2"]
    groups = {"all": [*names, "web1", "hv", "2"], "hypervisors": names}
    found = look_up("hypervisors", groups=groups)
    manager = InventoryManager(DataLoader(), parse=False)
    for group, hosts in groups.items():
        manager.add_group(group)
        for host in hosts:
            manager.add_host(host, group=group)
    assert [str(host.name) for host in manager.get_hosts(pattern=found)] == names
    assert found[:2] == names[:2]
    one = look_up("hypervisors", limit="hv1", groups=groups)
    assert one == ["hv1"]


@pytest.mark.parametrize(
    ("terms", "limit", "message"),
    [
        (["hypervisors2"], None, "'hypervisors2' matches no host of the inventory"),
        (["empty"], None, "'empty' matches no host of the inventory"),
        (["hypervisors"], "web1", "--limit web1 leaves none of 'hypervisors', .* hv1, hv2"),
        (["hypervisors"], "nope", "--limit nope leaves none"),
        ([[]], None, "'' matches no host"),
        ([""], None, "'' matches no host"),
        ([" , "], None, "matches no host"),
    ],
)
def test_none(terms: list[t.Any], limit: str | None, message: str) -> None:
    with pytest.raises(AnsibleError, match=message):
        look_up(*terms, limit=limit)


@pytest.mark.parametrize(
    ("terms", "name"),
    [
        (["hv1,hv9"], "'hv9' of 'hv1,hv9'"),
        (["hypervisors", "hv1,hv9"], "'hv9' of 'hypervisors,hv1,hv9'"),
        ([["hv1", "rack[1:3]"]], "'rack\\[1:3\\]' of"),
        (["hypervisors:!hv9"], "'hv9' of"),
        (["hypervisors:hw*"], "'hw\\*' of"),
        (["all:&hypervisors:!old"], "'old' of"),
    ],
)
def test_part_that_matches_nothing_is_refused(terms: list[t.Any], name: str) -> None:
    with pytest.raises(AnsibleError, match=rf"{name} .*matches no host or group"):
        look_up(*terms)


@pytest.mark.parametrize(
    "terms",
    [
        ["hv1:empty"],  # a group that is there
        ["hypervisors:!hw*"],
        ["hypervisors[0]", "hv2"],
        ["~hv[0-9]", "hv1"],
        ["hypervisors", "hv1"],
    ],
)
def test_part_that_matches_is_used(terms: list[t.Any]) -> None:
    assert look_up(*terms)


def test_default_group_need_not_be_in_the_inventory() -> None:
    groups = {"all": ["hv1"], "rack": ["hv1"]}
    assert look_up("hypervisors", "hv1", groups=groups) == ["hv1"]


def test_no_inventory_at_all() -> None:
    with pytest.raises(AnsibleError, match="-e virt_hosts="):
        look_up("hypervisors", groups={"all": [], "ungrouped": []})


def test_a_limit_from_a_file(tmp_path: Path) -> None:
    retry = tmp_path / "retry"
    retry.write_text("hv2\n")
    assert look_up("hypervisors", limit=f"@{retry}") == ["hv2"]


@pytest.mark.parametrize("option", ["syntax", "listhosts", "listtasks", "listtags"])
def test_what_needs_no_hosts_gets_the_pattern(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "CLIARGS", {option: True})
    assert look_up("hypervisors", groups={}) == ["hypervisors"]


@pytest.mark.parametrize(
    ("playbook", "extra", "message"),
    [
        (None, {"virt_name": "web1"}, None),
        ("query", {"virt_names": "web1"}, None),
        ("query", {"virt_name": "web1"}, "virt_name: .* did you mean virt_names"),
        ("maintenance", {"virt_maintenance": "ture"}, "neither true nor false"),
    ],
)
def test_extra_variables(
    playbook: str | None,
    extra: dict[str, str],
    message: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(virt_hosts, "load_extra_vars", lambda _loader: extra)
    lookup = LookupModule(loader=DataLoader())
    if message is None:
        assert lookup.run(["hypervisors"], {"groups": GROUPS}, playbook=playbook) == ["hv1", "hv2"]
        return
    with pytest.raises(AnsibleError, match=message):  # also where there is no inventory
        lookup.run(["hypervisors"], {"groups": {}}, playbook=playbook)


_STATE_FILE = str(Path(virt_hosts.__file__).parents[2] / "playbooks" / "state.yml")


@pytest.mark.parametrize(
    ("option", "tags", "program", "refused"),
    [
        ("tags", ("now",), "fleet.virt.state", True),
        ("tags", ("always",), "fleet.virt.state", True),
        ("tags", ("now",), _STATE_FILE, True),
        ("tags", ("all",), "fleet.virt.state", False),
        ("tags", ("untagged", "now"), "fleet.virt.state", False),
        ("tags", ("now",), "site.yml", False),  # it may give the tag to what it imports
        ("skip_tags", ("untagged",), "fleet.virt.state", True),
        ("skip_tags", ("now",), "fleet.virt.state", False),
    ],
)
def test_tags_that_leave_no_task_are_refused(
    option: str,
    tags: tuple[str, ...],
    program: str,
    refused: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context, "CLIARGS", {option: tags, "args": (program,)})
    lookup = LookupModule(loader=DataLoader())
    variables = {"groups": GROUPS}
    if not refused:
        assert lookup.run(["hypervisors"], variables, playbook="state") == ["hv1", "hv2"]
        return
    message = rf"^--{option.replace('_', '-')} {tags[0]}: no task of state has .* leave"
    with pytest.raises(AnsibleError, match=message):
        lookup.run(["hypervisors"], variables, playbook="state")
