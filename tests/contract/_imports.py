# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a file of the collection imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.fleet.virt.tests.contract import _tools

COLLECTION = ("ansible_collections", "fleet", "virt")


def parse(path: Path) -> ast.Module:
    """Parse a file, named by its path in the checkout."""
    return ast.parse((_tools.CHECKOUT / path).read_text(), filename=str(path))


def imports(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield line and full name, as a tuple, of everything that a file imports."""
    package = (*COLLECTION, *path.parts[:-1])
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield node.lineno, (*base, *module, alias.name)
