# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers of hypervisors that would be more than data."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _answers, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._answers import cleaned, require_own

TOP = Path(__file__).resolve().parents[3]
PYTHON = {"discovered_interpreter_python": "/usr/bin/python3"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"ansible_facts": {"virt_output_file": "/x"}}, {}),
        ({"ansible_facts": {**PYTHON, "virt_image": "x"}}, {"ansible_facts": PYTHON}),
        ({"ansible_facts": "text"}, {}),
        ({"ansible_facts": None}, {}),
        ({"ansible_stats": {"data": "no mapping"}}, {}),
        (
            {"add_host": {"host_name": "x"}, "add_group": "x", "parent_groups": 1},
            {"parent_groups": 1},
        ),
        ({"results": [{"failed": True}], "unreachable": True, "vms": []}, {"vms": []}),
        ({"_ansible_notify": ["x"], "_ansible_parsed": True}, {"_ansible_parsed": True}),
        ({"warnings": "text", "deprecations": {}}, {}),
        ({"warnings": ["a"] * 99}, {"warnings": ["a"] * 20}),
        ({"changed": "yes", "failed": 0}, {"changed": True, "failed": False}),
        ({"diff": "text", "changed": True}, {"changed": True}),
        ({"diff": [{"before": "a"}]}, {"diff": [{"before": "a"}]}),
        ({"diff": {"before": "a"}}, {"diff": {"before": "a"}}),
        ({"diff": None, "msg": 3}, {"diff": None, "msg": 3}),
    ],
)
def test_cleaned(answer: dict[str, t.Any], expected: dict[str, t.Any]) -> None:
    assert cleaned(answer) == expected


def test_long_texts_are_cut() -> None:
    found = cleaned({"msg": "x" * 10**6, "warnings": ["y" * 10**6]})
    assert len(found["msg"]) < 21_000
    assert found["msg"].endswith("... (1000000 characters)")
    assert len(found["warnings"][0]) < 21_000


def test_a_flood_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_answers, "MOST_SAID", 10)
    _answers.require_small("x" * 10)
    with pytest.raises(FleetVirtError, match=r"^its response of 11 characters was rejected"):
        _answers.require_small("x" * 11)


@pytest.mark.parametrize(
    ("facts", "variables", "imposed"),
    [
        ({"virt_output_file": "/x"}, {"virt_output_file": "/x"}, "virt_output_file"),
        ({"vm_image": "/x"}, {"vm_image": "/x"}, "vm_image"),
        ({"libvirt_keys_revoke": ["hv1"]}, {"libvirt_keys_revoke": ["hv1"]}, "libvirt_keys_revoke"),
        ({"images_dir": "/"}, {"images_dir": "/"}, "images_dir"),
        # extra variables and those of the play go before
        ({"virt_output_file": "/x"}, {"virt_output_file": "/mine"}, None),
        # not injected, and an interface of that name
        ({"virt_output_file": "/x"}, {}, None),
        ({"vm_net0": {"mtu": 1500}}, {"ansible_vm_net0": {"mtu": 1500}}, None),
        ({"distribution": "Debian"}, {"distribution": "Debian"}, None),
        ("text", {}, None),
        (None, {"virt_output_file": "/x"}, None),
    ],
)
def test_facts_that_are_variables_of_ours(
    facts: t.Any, variables: dict[str, t.Any], imposed: str | None
) -> None:
    values = {**variables, "ansible_facts": facts}
    if imposed is None:
        require_own("hv2", values)
        return
    with pytest.raises(FleetVirtError, match=rf"hv2: its facts set {imposed}\. Only the play"):
        require_own("hv2", values)


def test_another_hosts_facts_do_not_count_as_its_variables() -> None:
    liar = {"virt_migration_address": "x", "ansible_facts": {"virt_migration_address": "x"}}
    variables = {"hostvars": {"hv1": {"virt_migration_address": "hv1.example"}, "hv2": liar}}
    assert _peers.address("hv1", variables) == "hv1.example"
    with pytest.raises(FleetVirtError, match="hv2: its facts set virt_migration_address"):
        _peers.address("hv2", variables)


def test_every_module_has_an_action() -> None:
    modules = {path.stem for path in (TOP / "plugins" / "modules").glob("virt_*.py")}
    actions = {path.stem for path in (TOP / "plugins" / "action").glob("virt_*.py")}
    assert actions == modules
    runtime = yaml.safe_load((TOP / "meta" / "runtime.yml").read_text())
    routing = runtime.get("plugin_routing", {})
    assert routing.get("action") == routing.get("modules")  # else another name has no action
    for path in (TOP / "plugins" / "action").glob("virt_*.py"):
        text = path.read_text()
        assert re.search(
            r"^class ActionModule\((Fleet|(Staged|Verb)Action\[|\w+\.RepositoriesAction\))",
            text,
            re.MULTILINE,
        )
