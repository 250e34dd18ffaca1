# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Single values out of libvirt's XML."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import xml_values
from ansible_collections.fleet.virt.plugins.module_utils._lxml import new


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        (" 7\n", 7),
        ("007", 7),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", None),
        ("1" + "0" * 400, None),
        ("9" * 5_000_000, None),
        ("-1", None),
        ("+1", 1),
        ("++1", None),
        ("+ 1", None),
        ("+", None),
        ("1.5", None),
        ("1e3", None),
        ("0x10", None),
        ("1_000", None),
        ("١٢", None),
        ("²", None),
        ("", None),
        (None, None),
    ],
    ids=lambda value: str(value)[:24],
)
def test_number(text: str | None, expected: int | None) -> None:
    assert xml_values.number(text) == expected


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (None, 3 * 1024),
        ("", 3 * 1024),
        ("b", 3),
        ("B", 3),
        ("byte", 3),
        ("bytes", 3),
        ("k", 3 * 1024),
        ("KiB", 3 * 1024),
        ("kib", 3 * 1024),
        ("KB", 3000),
        ("kb", 3000),
        ("M", 3 * 1024**2),
        ("MiB", 3 * 1024**2),
        ("MB", 3 * 1000**2),
        ("GiB", 3 * 1024**3),
        ("GB", 3 * 1000**3),
        ("TiB", 3 * 1024**4),
        ("PB", 3 * 1000**5),
        ("EiB", 3 * 1024**6),
        ("parsec", None),
        ("KiBs", None),
        ("i", None),
        ("ib", None),
    ],
)
def test_bytes_of(unit: str | None, expected: int | None) -> None:
    element = new("memory", None if unit is None else {"unit": unit}, "3")
    assert xml_values.bytes_of(element, "KiB") == expected


def test_rounding_never_promises_more_than_there_is() -> None:
    mib = 1024 * 1024
    assert [xml_values.mib_up(size) for size in (None, 0, 1, mib, mib + 1)] == [None, 0, 1, 1, 2]
    assert [xml_values.mib_down(size) for size in (None, 0, 1, mib, 2 * mib - 1)] == [
        None,
        0,
        0,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"domain": "0x0000", "bus": "0x3b", "slot": "0x1f", "function": "0x7"}, "0000:3b:1f.7"),
        ({"bus": "6", "slot": "18", "function": "5"}, "0000:06:12.5"),
        ({"bus": "0x01"}, None),
        ({"bus": "one", "slot": "0x00"}, None),
        ({"bus": "-1", "slot": "0x00"}, None),
        ({"bus": "0x" + "f" * 400, "slot": "0x00"}, None),
        ({}, None),
    ],
)
def test_pci_address(attributes: dict[str, str], expected: str | None) -> None:
    assert xml_values.pci_address(new("address", attributes)) == expected


def test_the_first_of_several_children_counts() -> None:
    root = xml_values.read_root("<a><b>1</b><c/><b>2</b></a>", "a", "document")
    assert xml_values.text_of(xml_values.first_children(root)["b"]) == "1"


def test_another_document_is_named() -> None:
    with pytest.raises(XmlError, match="pool x: the document is a <network>, expected <pool>"):
        xml_values.read_root("<network/>", "pool", "pool x")
