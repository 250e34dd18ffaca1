# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the collection are compiled once, by Python's own rules; what is not ours is left."""

from __future__ import annotations

import types
import typing as t
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from ansible.utils.collection_loader import _collection_finder
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _compiled

OURS = "ansible_collections.fleet.virt.plugins.sample"
OTHER = "ansible_collections.other.virt.plugins.sample"
Load = Callable[..., object]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """What Ansible's loader makes of ``sample.py``; nothing is replaced for other tests."""
    base = _collection_finder._AnsibleCollectionPkgLoaderBase
    own: t.Any = type(
        "Own", (base,), {"get_code": getattr(base.get_code, "__wrapped__", base.get_code)}
    )
    _compiled.keep(own)

    def value(name: str = OURS) -> object:
        loader = own(name, [str(tmp_path)])
        loader._source_code_path = str(tmp_path / "sample.py")
        module = types.ModuleType(name)
        loader.exec_module(module)
        return module.value

    return value


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that Python's loader compiles from now on, and keeps as it usually does."""
    names: list[str] = []
    real = SourceFileLoader.source_to_code

    def noted(self: t.Any, data: t.Any, path: t.Any, **options: t.Any) -> t.Any:
        names.append(Path(path).name)
        return real(self, data, path, **options)

    monkeypatch.setattr(SourceFileLoader, "source_to_code", noted)
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    monkeypatch.setattr("sys.pycache_prefix", None)
    return names


def test_file_of_the_collection_is_compiled_once(
    load: Load, compiled: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sample.py").write_text("value = 1\n")
    assert [load(), load()] == [1, 1]
    assert compiled == ["sample.py"]
    assert len(list((tmp_path / "__pycache__").iterdir())) == 1


def test_file_that_changed_is_compiled_again(load: Load, tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text("value = 1\n")
    before = load()
    (tmp_path / "sample.py").write_text("value = 22\n")
    assert (before, load()) == (1, 22)


def test_file_of_another_collection_is_compiled_by_ansible(
    load: Load, compiled: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sample.py").write_text("value = 1\n")
    assert [load(OTHER), load(OTHER)] == [1, 1]
    assert compiled == []
    assert not (tmp_path / "__pycache__").exists()


def test_bytecode_that_python_may_not_write_is_not_written(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    (tmp_path / "sample.py").write_text("value = 1\n")
    assert load() == 1
    assert not (tmp_path / "__pycache__").exists()


def test_loader_without_what_is_replaced_is_left() -> None:
    nothing = type("Nothing", (), {})
    _compiled.keep(nothing)
    assert not hasattr(nothing, "get_code")
    _compiled.keep(None)


def test_loader_that_keeps_its_source_elsewhere_goes_on() -> None:
    code = compile("value = 3", "sample.py", "exec")

    class Other:
        def get_code(self, _fullname: str) -> types.CodeType:
            return code

    _compiled.keep(Other)
    replaced = Other.get_code
    _compiled.keep(Other)
    assert Other.get_code is replaced
    assert Other().get_code(OURS) is code
