# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's binding in a process that also holds lxml."""

from __future__ import annotations

import ast
import ctypes
from pathlib import Path

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _libvirt
from lxml import etree


def test_a_test_document_is_read_without_lxmls_entity_loader(tmp_path: Path) -> None:
    """lxml 4 takes libvirt's parser for one of its own, and crashes by chance: see _libvirt."""
    etree.fromstring("<a/>")
    libxml2 = ctypes.CDLL("libxml2.so.2")
    libxml2.xmlGetExternalEntityLoader.restype = ctypes.c_void_p
    path = tmp_path / "node.xml"
    path.write_text("<node/>")
    _libvirt.open_connection(f"test://{path}").close()
    own = ctypes.cast(libxml2.xmlNoNetExternalEntityLoader, ctypes.c_void_p)
    assert libxml2.xmlGetExternalEntityLoader() == own.value


NUMBERS = {
    name: value
    for name, value in vars(_libvirt).items()
    if name.isupper() and isinstance(value, int) and name != "NO_CODE"
}


def test_there_are_numbers_to_compare() -> None:
    assert len(NUMBERS) > 50


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_the_one_that_libvirt_has_by_that_name(name: str) -> None:
    assert NUMBERS[name] == getattr(libvirt, f"VIR_{name}")


def test_what_is_called_of_libvirts_objects_is_there() -> None:
    """The protocols are seen by the type checker alone, so they are read as text."""
    tree = ast.parse(Path(_libvirt.__file__).read_text(encoding="utf-8"))
    protocols = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef) and one.name.startswith("Vir") and one.name != "VirError"
    ]
    called = {
        (one.name, method.name)
        for one in protocols
        for method in one.body
        if isinstance(method, ast.FunctionDef)
    }
    assert ("VirDomain", "XMLDesc") in called
    missing = [
        f"{name}.{method}"
        for name, method in sorted(called)
        if not hasattr(getattr(libvirt, name.replace("Vir", "vir", 1)), method)
    ]
    assert not missing
