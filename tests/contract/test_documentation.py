# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation is complete, says the truth, and its examples run as they are written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.fleet.virt.tests.contract import _tools, documentation

EXAMPLES_HOST = f"test://{Path(__file__).with_name('examples.xml')}"
HOST = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}

# Modules that change nothing and need no guest: libvirt's test driver is enough for their examples.
HERE = [
    "virt_capacity",
    "virt_host_info",
    "virt_place",
    "virt_plan",
    "virt_query",
    "virt_rolling",
    "virt_screenshot",
    "virt_show",
]


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """Return what ansible-doc makes of every plugin, fragments included."""
    names = [f"fleet.virt.{name}" for name in documentation.modules()]
    shown = json.loads(_tools.run(["ansible-doc", "--json", *names], _tools.CHECKOUT, os.environ))
    inventory = ["ansible-doc", "--json", "-t", "inventory", "fleet.virt.virt"]
    shown.update(json.loads(_tools.run(inventory, _tools.CHECKOUT, os.environ)))
    return shown


def test_files_named_in_documentation_exist() -> None:
    """Python files, by the names that searching for them takes."""
    pages = [*_tools.CHECKOUT.glob("*.md"), *(_tools.CHECKOUT / "docs").rglob("*.md")]
    there = {
        path.name
        for folder in ("plugins", "tests", "docs", "roles", "extensions")
        for path in (_tools.CHECKOUT / folder).rglob("*.py")
    }
    named = {
        (str(page.relative_to(_tools.CHECKOUT)), name.rpartition("/")[2])
        for page in pages
        for name in re.findall(r"`([\w/.]+\.py)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert [each for each in sorted(named) if each[1] not in there] == []


def undescribed(options: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, option in options.items():
        text = option.get("description")
        if not text or not all(
            part.strip() for part in ([text] if isinstance(text, str) else text)
        ):
            yield f"{path}{name} has no description"
        if "type" not in option:
            yield f"{path}{name} has no type"
        if option.get("type") == "list" and "elements" not in option:
            yield f"{path}{name} does not say what its elements are"
        for part in ("suboptions", "contains"):
            yield from undescribed(option.get(part) or {}, f"{path}{name}.")


def test_every_option_and_return_value_is_described(documented: dict[str, Any]) -> None:
    faults = []
    for name, entry in documented.items():
        faults += undescribed(entry["doc"].get("options", {}), f"{name}: option ")
        faults += undescribed(entry.get("return") or {}, f"{name}: return value ")
    assert not faults, "\n".join(faults)


def play(
    programs: _tools.Preloaded, folder: Path, tasks: list[dict[str, Any]], uri: str
) -> list[tuple[str, dict[str, Any]]]:
    """Run tasks on a hypervisor of libvirt's test driver; return each task's name and result."""
    hosts = {"hypervisors": {"hosts": {"hv1": HOST}}}
    (folder / "hosts.yml").write_text(json.dumps(hosts))
    kept = [{"register": f"result_{index}", **task} for index, task in enumerate(tasks)]
    names = ", ".join(task["register"] for task in kept)
    keep = {
        "name": "Keep the results",
        "ansible.builtin.copy": {
            "dest": str(folder / "results.json"),
            "mode": "0600",
            "content": f"{{{{ [{names}] | ansible.builtin.to_json }}}}",
        },
    }
    whole = {
        "hosts": "hypervisors",
        "gather_facts": False,
        "module_defaults": {"group/fleet.virt.virt": {"uri": uri}},
        "tasks": [*kept, keep],
    }
    (folder / "play.yml").write_text(json.dumps([whole]))
    programs.run("ansible-playbook", "-i", folder / "hosts.yml", folder / "play.yml")
    results = json.loads((folder / "results.json").read_text())
    return [(task["name"], result) for task, result in zip(tasks, results, strict=True)]


@pytest.fixture(scope="module")
def example_results(
    programs: _tools.Preloaded, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[str, dict[str, Any]]]:
    """The results of the examples of all these modules, of one play."""
    tasks = [example.task for module in HERE for example in documentation.examples(module)]
    return play(programs, tmp_path_factory.mktemp("examples"), tasks, EXAMPLES_HOST)


@pytest.mark.parametrize("module", HERE)
def test_examples_run_as_written(
    module: str, example_results: list[tuple[str, dict[str, Any]]]
) -> None:
    shown = documentation.examples(module)
    assert any(f"fleet.virt.{module}" in example.task for example in shown)
    first = sum(len(documentation.examples(name)) for name in HERE[: HERE.index(module)])
    results = example_results[first : first + len(shown)]
    assert [name for name, _result in results] == [example.name for example in shown]
    for name, result in results:
        assert not result.get("failed"), f"{name}: {result}"


@pytest.mark.parametrize("module", sorted(set(documentation.modules()) - set(HERE)))
def test_examples_are_run_on_the_laboratory(module: str) -> None:
    """Examples that change something are taken from the documentation by a test that runs them."""
    call, stage = f'examples("{module}")', f'"{module}": _'
    folder = _tools.CHECKOUT / "tests" / "integration"
    named = stage in (folder / "test_examples.py").read_text()
    on_controller = folder.parent / "contract" / "controller"
    tests = sorted([*folder.rglob("test_*.py"), *on_controller.glob("test_*.py")])
    assert named or any(call in test.read_text() for test in tests), f"no test there runs {call}"


_READ: list[tuple[str, dict[str, Any]]] = [
    ("virt_host_info", {}),
    ("virt_query", {}),
    ("virt_query", {"addresses": True, "stats": True}),
]


@pytest.mark.parametrize("uri", ["test:///default", EXAMPLES_HOST], ids=["default", "examples"])
def test_returns_what_is_documented(uri: str, programs: _tools.Preloaded, tmp_path: Path) -> None:
    tasks = [{"name": "Read", f"fleet.virt.{module}": options} for module, options in _READ]
    results = play(programs, tmp_path, tasks, uri)
    for (module, options), (_name, result) in zip(_READ, results, strict=True):
        assert documentation.undocumented(module, result) == [], options
        assert documentation.missing(module, result) == [], options


def test_the_comparison_finds_faults() -> None:
    result = {"changed": False, "host": {"name": 3, "colour": "red", "pools": [{"type": []}]}}
    assert documentation.undocumented("virt_host_info", result) == [
        "host.colour",
        "host.name is int, documented as str",
        "host.pools[0].type is list, documented as str",
    ]
    faults = documentation.missing("virt_host_info", result)
    assert {"host.uri", "host.pools[0].name"} <= set(faults)


def _shown_inventories() -> list[dict[str, Any]]:
    """The plugin's own examples, and those of the guide."""
    plugin = documentation.PLUGINS / "inventory" / "virt.py"
    found = list(yaml.safe_load_all(documentation.texts(plugin)["EXAMPLES"]))
    guide = _tools.CHECKOUT / "docs" / "docsite" / "rst" / "inventory.rst"
    blocks = re.findall(
        r"^\.\. code-block:: yaml\n\n((?:    .*\n)+)", guide.read_text(), re.MULTILINE
    )
    assert blocks
    return found + [yaml.safe_load(block) for block in blocks]


INVENTORIES = _shown_inventories()


@pytest.mark.parametrize("number", range(len(INVENTORIES)))
def test_inventory_examples_run_as_written(number: int, tmp_path: Path) -> None:
    example = INVENTORIES[number]
    hosts = {"hv1": {**HOST, "virt_inventory_uri": EXAMPLES_HOST}}
    folder = tmp_path / "inventory"
    folder.mkdir()
    (folder / "10-hypervisors.yml").write_text(json.dumps({"hypervisors": {"hosts": hosts}}))
    (folder / "20-guests.virt.yml").write_text(yaml.safe_dump(example))
    done = subprocess.run(
        ["ansible-inventory", "-i", folder, "--list"],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
            "HOME": str(tmp_path),  # where an example keeps a cache
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    guests = json.loads(done.stdout)["_meta"]["hostvars"]
    assert {"test" if "uris" in example else "web1"} <= set(guests), done.stderr
