# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each setting of a VM has one class, which is true, and stands in the documentation.

``FLEET_VIRT_WRITE=1 .venv/bin/python -m pytest tests/contract/test_setting_classes.py`` writes it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.settings import Group, Setting
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import many
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.settings import VM
from ansible_collections.fleet.virt.tests import setting_classes
from ansible_collections.fleet.virt.tests.contract import _tools
from ansible_collections.fleet.virt.tests.setting_classes import PROVEN, SCHEMA_ONLY, VMS

GUIDE = _tools.CHECKOUT / "docs" / "docsite" / "rst" / "settings.rst"
_LATER = "\n.. the table is written by tests/contract/test_setting_classes.py\n\n"


def _settings() -> Iterator[tuple[str, Setting[object]]]:
    """Everything that libvirt is told of a VM."""
    for row in VM:
        if isinstance(row, Group):
            inner = row.settings if row.xml else ()
            yield from ((f"{row.name}.{one.name}", one) for one in inner if one.xml)
        elif row.xml:
            yield row.name, row
    yield from ((row.name, row) for row in VM if row.name == "boot")


PATHS = [
    *dict(_settings()),
    "disks.image",
    "xml",
]


def _written(vm: Mapping[str, Any]) -> Iterator[str]:
    for key, value in vm.items():
        if isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from (f"{key}.{inner}" for one in value for inner in one)
        else:
            yield key


ACCEPTED = {path for vm in VMS for path in _written(vm)}


def _class(path: str) -> tuple[str, str]:
    if path in PROVEN:
        return "proven", ""
    return ("schema only", SCHEMA_ONLY[path]) if path in SCHEMA_ONLY else ("accepted", "")


@pytest.mark.parametrize("path", PATHS)
def test_each_setting_has_one_class(path: str) -> None:
    found = [path in PROVEN, path in SCHEMA_ONLY, path in ACCEPTED]
    assert any(found), f"try {path} in tests/setting_classes.py"
    assert not (path in SCHEMA_ONLY and any(found[::2])), f"{path} is tried: it is no schema only"


def test_nothing_else_is_classified() -> None:
    assert set(PROVEN) <= set(PATHS)
    assert set(SCHEMA_ONLY) <= set(PATHS)


def test_what_is_proven_is_in_the_test_that_is_named() -> None:
    for path, name in PROVEN.items():
        file, _dummy, function = name.partition("::")
        text = (_tools.CHECKOUT / "tests" / "integration" / file).read_text("utf-8")
        word = path.rpartition(".")[2] if path != "tpm.model" else "tpm"
        assert f"def {function}" in text, name
        assert re.search(rf"\b{word}\b", text), f"{name} has no {word}"


def test_what_is_accepted_is_a_specification() -> None:
    domains, problems = many(VMS)
    assert problems == []
    assert len(domains) == len(VMS)


def _table() -> str:
    rows = [("setting", "class", "why no more")]
    rows += [(f"``{path}``", *_class(path)) for path in PATHS]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    rule = " ".join("=" * width for width in widths)
    lines = [" ".join(word.ljust(width) for word, width in zip(row, widths)) for row in rows]
    table = "\n".join(line.rstrip() for line in (rule, lines[0], rule, *lines[1:], rule))
    counted = Counter(kind for _path, kind, _why in rows[1:]).most_common()
    return f"{table}\n\nOf these, {', '.join(f'{n} are {kind}' for kind, n in counted)}.\n"


def test_the_guide_has_the_table() -> None:
    text = GUIDE.read_text("utf-8")
    wanted = text[: text.index(_LATER)] + _LATER + _table()
    if os.environ.get("FLEET_VIRT_WRITE"):
        GUIDE.write_text(wanted, encoding="utf-8")
    assert GUIDE.read_text("utf-8") == wanted, (
        "run FLEET_VIRT_WRITE=1 .venv/bin/python -m pytest tests/contract/test_setting_classes.py"
    )
    assert setting_classes.__doc__
