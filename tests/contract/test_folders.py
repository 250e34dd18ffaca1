# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of ``module_utils`` and ``plugin_utils``, their order and size; no import cycle."""

from __future__ import annotations

import ast
import graphlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.fleet.virt.tests.contract import _tools

ROOT = _tools.CHECKOUT / "plugins"
PREFIX = "ansible_collections.fleet.virt.plugins."
# A folder imports from itself and from those that stand before it.
LAYERS = {
    "_fleet": "base storage cards cell engine notes hosts firewall bridge daemon pools seed images"
    " spec preflight keys placement console fencing ha snapshots seeding state rename purge"
    " migration provision adoption template clone importing restart disk_move backup restore verify"
    " foresight rolling doctor",
    "plugin_utils": "ansible_core base ssh images keys console reading provision backup verify",
}
ORDER = [(layer, folder) for layer, folders in LAYERS.items() for folder in folders.split()]
MOST_FILES = 40


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in sorted(ROOT.rglob("*.py"))
        if path.name != "__init__.py"
    }


def imported(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Files of ours that a file imports: at its top, late, or for its types alone."""
    package = name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            below = (node.module or "").removeprefix(PREFIX)
            if node.level:
                parents = package[: len(package) - node.level + 1]
                below = ".".join([*parents, *([node.module] if node.module else [])])
            found = {below, *(f"{below}.{alias.name}" for alias in node.names)}
            yield from sorted(found & known.keys() - {name})


def graph() -> dict[str, list[str]]:
    known = modules()
    return {name: list(imported(name, path, known)) for name, path in known.items()}


def place(layer: str) -> Path:
    """Where a layer's folders are."""
    return ROOT / layer if layer == "plugin_utils" else ROOT / "module_utils" / layer


def folder(name: str) -> tuple[str, str] | None:
    parts = name.removeprefix("module_utils.").split(".")
    return (parts[0], parts[1]) if parts[0] in LAYERS and len(parts) == 3 else None


def test_every_folder_has_its_place() -> None:
    found = {
        (layer, path.name)
        for layer in LAYERS
        for path in place(layer).iterdir()
        if path.is_dir() and path.name != "__pycache__"
    }
    assert found == set(ORDER)
    loose = [path for layer in LAYERS for path in place(layer).glob("*.py")]
    assert {path.name for path in loose} == {"__init__.py"}, "every file is in a feature's folder"


def test_folders_import_downwards() -> None:
    wrong = [
        f"{name} imports {below}"
        for name, lower in graph().items()
        for below in lower
        if (upper := folder(name)) and (other := folder(below))
        if ORDER.index(other) > ORDER.index(upper)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_imports_itself_by_way_of_others() -> None:
    edges = graph()
    assert sum(len(below) for below in edges.values()) > 500
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_folders_can_be_taken_in_at_a_glance() -> None:
    sizes = Counter(found for name in modules() if (found := folder(name)))
    assert max(sizes.values()) <= MOST_FILES, sizes.most_common(3)
