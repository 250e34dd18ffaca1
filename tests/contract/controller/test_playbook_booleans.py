# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``-e x=false`` is text: every truth value of every playbook is read by an argument spec, and
numbers are reckoned with as numbers.

Conditions are Ansible's own to evaluate, so this runs it, on each version that the tests run on.
"""

from __future__ import annotations

import importlib
import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.plugin_utils.base._variables import (
    BOOLEANS_AMONG,
    operations,
)
from ansible_collections.fleet.virt.tests.contract import _tools

BOOLEANS = BOOLEANS_AMONG | operations()
ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "playbooks").rglob("*.yml"))
# Read by Ansible itself, by roles, whose argument specs have them, or by an action, which refuses
# what is no truth value
ELSEWHERE = {"virt_become", "libvirt_keys_renew", "libvirt_keys_replace", "virt_refresh_inventory"}
CHECKS = ("ansible.builtin.validate_argument_spec", "ansible.builtin.assert")
Task = dict[str, t.Any]

_ACTIONS = "ansible_collections.fleet.virt.plugins.action"


def tasks_of(path: Path) -> list[Task]:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [task for one in document for task in _with_those_below(one)]


def _with_those_below(one: Task) -> list[Task]:
    if "hosts" not in one and "block" not in one:
        return [one]
    # what tasks have by default is given to a module as what they say themselves
    defaults = [
        {"name": "module_defaults", module: options}
        for module, options in one.get("module_defaults", {}).items()
        if module.startswith("fleet.virt.")
    ]
    below = [
        task for each in one.get("tasks", one.get("block")) for task in _with_those_below(each)
    ]
    return [*defaults, *below]


TASKS = [(path, task) for path in FILES for task in tasks_of(path)]


def conditions(task: Task) -> list[str]:
    when = task.get("when", [])
    return [str(one) for one in (when if isinstance(when, list) else [when])]


def mentions(text: t.Any) -> set[str]:
    return BOOLEANS & set(re.findall(r"\w+", json.dumps(text)))


def option_type(module: str, option: str, value: t.Any, variable: str) -> str:
    """The type of an option, or of the field of ``_work`` that has the variable."""
    name = module.removeprefix("fleet.virt.")
    if option == envelope.OPTION:
        work = importlib.import_module(f"{_ACTIONS}.{name}").ActionModule.WORK
        (given,) = [field for field in value if variable in mentions(value[field])]
        return str(t.get_type_hints(work)[given].__name__)
    source = (ROOT / "plugins" / "modules" / f"{name}.py").read_text(encoding="utf-8")
    documented = source.split('DOCUMENTATION = r"""')[1].split('"""')[0]
    if option.startswith("_"):  # in no documentation
        action = importlib.import_module(f"{_ACTIONS}.{name}")
        return str(action._INTERNAL[option]["type"])
    return str(yaml.safe_load(documented)["options"][option]["type"])


def test_truth_values_are_options_of_modules_or_checked_before() -> None:
    """Nothing else reads the text that they may be."""
    used: set[str] = set()
    for path, task in TASKS:
        for name in mentions(task) - ELSEWHERE:
            used.add(name)
            where = f"{path.name}: {task.get('name')}: {name}"
            for key, value in task.items():
                if name not in mentions(value) or key in CHECKS:
                    continue
                if key.startswith("fleet.virt.") and "| bool" not in json.dumps(value):
                    given = {**value.pop("<<", {}), **value}
                    (option,) = [one for one in given if name in mentions(given[one])]
                    assert option_type(key, option, given[option], name) == "bool", where
                    continue
                assert re.search(rf"{name} \| default\(\w+\) \| bool", json.dumps(value)), where
                assert any(
                    name in mentions(before)
                    for other, before in TASKS
                    if other == path and set(CHECKS) & set(before)
                ), f"{where} is converted and not checked before: a typing error would be false"
    assert used == BOOLEANS - ELSEWHERE


PRUNE, MAINTENANCE = "virt_images_prune", "virt_maintenance"
CONVERTED = [task for _path, task in TASKS if mentions(conditions(task))]
CHECKED = [task for _path, task in TASKS if set(CHECKS) & set(task) and mentions(task)]


def _run(programs: _tools.Preloaded, play: Path, variables: list[str]) -> tuple[int, str]:
    given = [argument for one in variables for argument in ("-e", one)]
    return programs.ended("ansible-playbook", play, "-i", "localhost,", *given)


@pytest.mark.parametrize("word", ["false", "no", "true", "yes", "ture", ""])
def test_conditions_take_text_for_what_it_says(
    word: str, tmp_path: Path, programs: _tools.Preloaded
) -> None:
    """The playbooks' own checks and conditions, with every truth value given as text."""
    assert CONVERTED
    assert CHECKED
    steps = [{**task, "ignore_errors": True} for task in CHECKED]
    steps += [
        {"ansible.builtin.debug": {"msg": f"condition {number} holds"}, "when": task["when"]}
        for number, task in enumerate(CONVERTED)
    ]
    play = {"hosts": "localhost", "gather_facts": False, "connection": "local", "tasks": steps}
    path = tmp_path / "play.yml"
    path.write_text(json.dumps([play]), encoding="utf-8")
    status, said = _run(programs, path, [f"{name}={word}" for name in sorted(BOOLEANS)])
    held = said.count(" holds")
    refused = word in ("ture", "")
    for name in ("virt_images_prune", "virt_images_verify", "virt_maintenance"):
        # once in the message of the check, which names it
        assert (name in said) is refused, said
    if not refused:
        assert status == 0, said
        assert held == (len(CONVERTED) if word in ("true", "yes") else 0), said


LIMITS = sorted({str(task["timeout"]) for _path, task in TASKS if "timeout" in task})
NUMBERS = sorted(set(re.findall(r"\bvirt_\w*(?:timeout|minutes|follow)\b", " ".join(LIMITS))))


def test_limits_take_text_for_the_number_that_it_is(
    tmp_path: Path, programs: _tools.Preloaded
) -> None:
    """Those of which everything is given: the others are numbers that the playbooks make."""
    known = [one for one in LIMITS if not {*re.findall(r"\bvirt_\w+", one)} - {*NUMBERS, *BOOLEANS}]
    assert len(known) >= 7
    assert "virt_timeout" in NUMBERS
    steps = [{"ansible.builtin.debug": {"msg": "a limit"}, "timeout": one} for one in known]
    play = {"hosts": "localhost", "gather_facts": False, "connection": "local", "tasks": steps}
    path = tmp_path / "play.yml"
    path.write_text(json.dumps([play]), encoding="utf-8")
    status, said = _run(programs, path, [f"{name}=30" for name in NUMBERS])
    assert status == 0, said
    assert said.count("a limit") == len(known), said
