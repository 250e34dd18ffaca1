# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role's files read is what its argument specs declare, and a role needs no playbook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible_collections.fleet.virt.tests.contract import _tools
from jinja2 import nodes

ROLES = sorted(path for path in (_tools.CHECKOUT / "roles").iterdir() if path.is_dir())
# Expressions without braces
CONDITIONS = {"changed_when", "failed_when", "that", "until", "when"}
# Keys whose value is the name of a variable that the task sets
NAMING = {"index_var", "loop_var", "register"}
INCLUDES = {
    f"ansible.builtin.{verb}_{what}"
    for verb in ("import", "include")
    for what in ("playbook", "tasks", "vars")
}
# What Ansible itself provides
PROVIDED = {"groups", "hostvars", "inventory_hostname", "item", "lookup", "omit", "query"}
PROVIDED |= {"role_path"}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def entries_of(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key with its value, at any depth; an entry of a list has the list's key."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield str(key), value
            yield from entries_of(value)
    elif isinstance(node, list):
        for value in node:
            yield from entries_of(value)


def names_in(text: str) -> set[str]:
    # not jinja2.meta, which knows no filters of Ansible
    names = list(jinja2.Environment().parse(text).find_all(nodes.Name))  # noqa: S701
    return {name.name for name in names if name.ctx == "load"} - {
        name.name for name in names if name.ctx != "load"
    }


def texts_of(node: Any) -> Iterator[str]:
    """Yield the texts that Ansible resolves; conditions as it would have them in braces."""
    if isinstance(node, str):
        yield node
    for key, value in entries_of(node):
        values = value if isinstance(value, list) else [value]
        for text in (value for value in values if isinstance(value, str)):
            yield f"{{{{ {text} }}}}" if key in CONDITIONS else text
            if key.endswith("_variable"):
                yield f"{{{{ {text} }}}}"


def reads(node: Any) -> set[str]:
    return {name for text in texts_of(node) for name in names_in(text)}


def sets(node: Any) -> set[str]:
    """Return the variables that tasks set themselves."""
    names: set[str] = set()
    for key, value in entries_of(node):
        if key in NAMING:
            names.add(value)
        elif key in ("ansible.builtin.set_fact", "vars"):
            names |= set(value)
    return names


def undeclared(role: Path) -> tuple[set[str], set[str]]:
    """Return what no entry point declares of what the role reads, and the reverse."""
    tasks = [load(path) for path in role.glob("tasks/*.yml")]
    variables = [load(path) for path in [*role.glob("defaults/*.yml"), *role.glob("vars/*.yml")]]
    files = [file for file in [*tasks, *variables] if file]
    internal = {name for path in role.glob("vars/*.yml") for name in load(path) or ()}
    read = {name for file in files for name in reads(file)} - internal - PROVIDED
    read -= {name for file in tasks for name in sets(file)}
    read = {name for name in read if not name.startswith("ansible_")}
    specs = load(role / "meta" / "argument_specs.yml")["argument_specs"]
    declared = [set(entry.get("options", {})) for entry in specs.values()]
    return read - set.intersection(*declared), set.union(*declared) - read


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_role_variables_read_are_declared(role: Path) -> None:
    missing, unused = undeclared(role)
    assert not missing, "not in meta/argument_specs.yml"
    assert not unused, "declared, and read by no file of the role"


def test_role_variable_without_declaration_is_reported(tmp_path: Path) -> None:
    task = {
        "ansible.builtin.debug": {"msg": "{{ shown | default(omit) }}", "key_variable": "named"},
        "when": ["asked | bool", "done is defined"],
        "loop": "{{ listed }}",
        "loop_control": {"loop_var": "entry"},
        "vars": {"own": "{{ entry }}"},
        "register": "done",
    }
    options = {"asked": {"type": "bool"}, "never": {"type": "str"}}
    files = {
        "tasks/main.yml": [{"name": "Several", "block": [task]}],
        "defaults/main.yml": {"shown": "{{ preset }}"},
        "meta/argument_specs.yml": {"argument_specs": {"main": {"options": options}}},
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(yaml.safe_dump(content))
    assert undeclared(tmp_path) == ({"shown", "named", "listed", "preset"}, {"never"})


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_role_includes_only_its_own_files(role: Path) -> None:
    for path in [*role.rglob("*.yml"), *role.rglob("*.yaml")]:
        for key, value in entries_of(load(path)):
            where = f"{path.name}: {value}"
            if key in INCLUDES - {"ansible.builtin.include_vars"}:
                file = value if isinstance(value, str) else value["file"]
                assert (role / "tasks" / file).resolve().parent == role / "tasks", where
                assert (role / "tasks" / file).is_file(), where
            assert not (isinstance(value, str) and ".." in Path(value).parts), where


def test_playbook_tasks_of_a_role_are_included_by_role() -> None:
    for path in (_tools.CHECKOUT / "playbooks").rglob("*.yml"):
        for key, value in entries_of(load(path)):
            if key in INCLUDES:
                assert "roles/" not in str(value), f"{path.name}: {value}"
