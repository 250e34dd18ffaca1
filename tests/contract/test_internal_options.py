# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What playbooks hand on between their steps is in no documentation, no error and no output."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils import _argspec
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.tests.contract import _tools, documentation
from ansible_collections.fleet.virt.tests.contract.test_rules import tasks_of

_PLUGINS = "ansible_collections.fleet.virt.plugins"
_FORMER = {"stage", "fleet_seen", "earlier", "seeds", "passwords", "run", "withdraw", "only"}
_NAMED = re.compile(rf"\b(O|RV)\(_|\bO\(({'|'.join(_FORMER)})[)=:]|`_?stage[`:=]|\bstage=")


class _Created(Exception):
    """A module has said what it takes."""


def _create(options: Mapping[str, Any], internal: Mapping[str, Any] | None = None, **_: Any) -> Any:
    raise _Created({**options, **_argspec.CONNECTION}, internal or {})


def spec_of(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a module, and those of the collection's own tasks."""
    module = importlib.import_module(f"{_PLUGINS}.modules.{name}")
    with mock.patch.object(module, "create_module", _create), pytest.raises(_Created) as created:
        module.main()
    options, internal = created.value.args
    return options, dict(internal)


def _with_main() -> list[str]:
    return [
        name for name, path in documentation.modules().items() if "def main" in path.read_text()
    ]


@pytest.fixture(scope="module")
def documented() -> dict[str, set[str]]:
    """Return the names of each module's documented options, fragments included."""
    names = [f"fleet.virt.{name}" for name in documentation.modules()]
    shown = json.loads(_tools.run(["ansible-doc", "--json", *names], _tools.CHECKOUT, os.environ))
    return {
        name.rpartition(".")[2]: set(entry["doc"].get("options") or {})
        for name, entry in shown.items()
    }


def test_no_documentation_has_them(documented: dict[str, set[str]]) -> None:
    assert len(documented) > 15
    for name, options in documented.items():
        assert not {one for one in options if one.startswith("_")}, name
        assert not options & _FORMER, name


@pytest.mark.parametrize("name", _with_main())
def test_a_module_takes_what_is_documented(name: str, documented: dict[str, set[str]]) -> None:
    """Beside that only options whose names begin with an underscore."""
    options, internal = spec_of(name)
    assert set(options) == documented[name]
    assert all(one.startswith("_") and not one.startswith("_ansible") for one in internal)


def _texts() -> list[tuple[str, str]]:
    found = [
        (f"{path.stem} {kind}", text)
        for path in documentation.modules().values()
        for kind, text in documentation.texts(path).items()
    ]
    docs = [_tools.CHECKOUT / "README.md", *(_tools.CHECKOUT / "docs").rglob("*.rst")]
    docs += [*(_tools.CHECKOUT / "docs").rglob("*.md"), *_tools.CHECKOUT.glob("roles/*/README.md")]
    return found + [(str(path), path.read_text()) for path in docs]


def test_no_text_tells_of_them() -> None:
    told = [f"{where}: {hit[0]}" for where, text in _texts() for hit in _NAMED.finditer(text)]
    assert not told, "\n".join(told)
    assert _NAMED.search("with O(stage=look)")


def _internal(name: str) -> set[str]:
    """What the collection's own tasks may give a module or its action plugin."""
    found: set[str] = set()
    for kind in ("modules", "action"):
        plugin = importlib.import_module(f"{_PLUGINS}.{kind}.{name}")
        for constant in ("INTERNAL", "_INTERNAL"):
            found |= set(getattr(plugin, constant, ()))
    if name in _with_main():
        found |= set(spec_of(name)[1])
    if _stages(name):
        found.add("_work")
    return found


def _stages(name: str) -> tuple[str, ...]:
    """The stages that a module's action plugin has; none if it has no envelope."""
    action = importlib.import_module(f"{_PLUGINS}.action.{name}").ActionModule
    work = getattr(action, "WORK", None)
    return () if work is None else work.STAGES


def test_stages_of_tasks_exist() -> None:
    """And each says which it is: of a module that is used alone, no task waits for an answer."""
    stages = [
        (path, module.rpartition(".")[2], str(options["_work"]["stage"]))
        for path in [
            *(_tools.CHECKOUT / "playbooks").rglob("*.yml"),
            *(_tools.CHECKOUT / "roles").glob("*/tasks/*.yml"),
        ]
        for task in tasks_of(yaml.safe_load(path.read_text()))
        for module, options in task.items()
        if isinstance(options, dict) and "_work" in options
    ]
    assert len(stages) > 40
    wrong = [
        f"{path}: {module} {stage}"
        for path, module, stage in stages
        if "{{" not in stage and stage not in (*_stages(module), envelope.END)
    ]
    assert not wrong, "\n".join(wrong)


def test_tasks_give_what_exists() -> None:
    """A misspelt option of this kind would be in no error's list."""
    given = [
        (path, module.rpartition(".")[2], option)
        for folder in ("playbooks", "roles")
        for path in (_tools.CHECKOUT / folder).rglob("*.yml")
        if folder == "playbooks" or path.parent.name == "tasks"
        for task in tasks_of(yaml.safe_load(path.read_text()))
        for module, options in task.items()
        if module.startswith("fleet.virt.virt_") and isinstance(options, dict)
        for option in options
        if option.startswith("_")
    ]
    assert len(given) > 50
    known = {module: _internal(module) for _path, module, _option in given}
    wrong = [f"{path}: {one} {option}" for path, one, option in given if option not in known[one]]
    assert not wrong, "\n".join(wrong)


def _shown(programs: _tools.Preloaded, folder: Path, options: dict[str, Any]) -> str:
    hosts = {
        "hypervisors": {
            "hosts": {
                "hv1": {
                    "ansible_connection": "local",
                    "ansible_python_interpreter": sys.executable,
                }
            }
        }
    }
    (folder / "hosts.yml").write_text(json.dumps(hosts))
    task = {"fleet.virt.virt_init": options, "register": "done", "ignore_errors": True}
    show = {"ansible.builtin.debug": {"var": "done"}}
    tasks = [{"name": "Read", **task}, {"name": "Show", **show}]
    play = {"hosts": "hypervisors", "gather_facts": False, "tasks": tasks}
    (folder / "play.yml").write_text(json.dumps([play]))
    words = ["-vvv", "-i", folder / "hosts.yml", folder / "play.yml"]
    return programs.run("ansible-playbook", *words)


def test_no_output_has_them(programs: _tools.Preloaded, tmp_path: Path) -> None:
    secrets = {"_passwords": {"web1": "xyzzy-plugh"}, "_seeds": "frotz-gnusto"}
    options = {"_work": {"stage": "read"}, "uri": "test:///default", **secrets}
    shown = _shown(programs, tmp_path, options)
    assert '"uri": "test:///default"' in shown  # the invocation
    assert "capabilities" in shown or '"host"' in shown
    for hidden in ("xyzzy", "frotz", "_passwords", "_seeds", "_asked"):
        assert hidden not in shown, hidden


def test_no_error_lists_them(programs: _tools.Preloaded, tmp_path: Path) -> None:
    options = {"_work": {"stage": "read"}, "uri": "test:///default", "nonsense": 1}
    shown = _shown(programs, tmp_path, options)
    assert "Unsupported parameters" in shown
    assert "nonsense" in shown
    assert "_seeds" not in shown


def test_what_is_secret_in_them_is_not_in_results(
    programs: _tools.Preloaded, tmp_path: Path
) -> None:
    """Also where the result would have it from elsewhere."""
    work = {"stage": "read"}
    options = {"_work": work, "uri": "test:///xyzzy", "_passwords": {"web1": "xyzzy"}}
    assert "'xyzzy'" not in _shown(programs, tmp_path, options)


def test_a_wrong_value_of_theirs_fails(programs: _tools.Preloaded, tmp_path: Path) -> None:
    work = {"stage": "read", "withdraw": {"a": 1}}
    shown = _shown(programs, tmp_path, {"_work": work, "uri": "test:///default"})
    assert "_work.withdraw" in shown
    assert "has another type" in shown
