# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""XML compared by structure, and against the schemas that come with libvirt.

The schemas are in Debian's ``libvirt0``, which ``python3-libvirt`` depends on; elsewhere in
``libvirt-libs`` or ``libvirt-common``.
"""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from lxml import etree

SCHEMAS = Path("/usr/share/libvirt/schemas")


def _lines(element: t.Any, indent: int = 0) -> list[str]:
    """One line for each element: attribute order does not count, element order does."""
    attributes = "".join(f" {key}={value!r}" for key, value in sorted(element.attrib.items()))
    text = (element.text or "").strip()
    lines = [f"{'  ' * indent}{element.tag}{attributes}{': ' + text if text else ''}"]
    for child in element:
        if isinstance(child.tag, str):  # comments are for people
            lines.extend(_lines(child, indent + 1))
    return lines


def assert_xml_equal(found: str, expected: str) -> None:
    """Fail with a readable difference unless both are the same document."""
    assert _lines(etree.fromstring(found)) == _lines(etree.fromstring(expected))


@functools.cache
def _schema(name: str) -> t.Any:
    return etree.RelaxNG(etree.parse(str(SCHEMAS / f"{name}.rng")))


def assert_valid(xml: str, schema: str) -> None:
    """Fail unless ``xml`` is what libvirt's schema ``schema`` (``domain``) allows."""
    checker = _schema(schema)
    assert checker.validate(etree.fromstring(xml)), f"{checker.error_log}\n{xml}"
