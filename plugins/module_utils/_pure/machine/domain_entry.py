# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of a domain's entry that are not in its own XML.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..base.xml_values import first_children, number, read_root, text_of
from . import domain_info

_EMPTY = "<domain><name>unreadable</name></domain>"


def unreadable(name: str, uuid: str) -> dict[str, t.Any]:
    """An entry with every key of :func:`domain_info.parse`, of which only these two are known."""
    entry = domain_info.parse(_EMPTY, f"domain {name}")
    return {**entry, "name": name, "uuid": uuid, "agent": None}


def snapshot(xml: str) -> dict[str, t.Any]:
    """``name``, ``created`` (seconds since 1970) and ``state`` of a ``<domainsnapshot>``."""
    top = first_children(read_root(xml, "domainsnapshot", "snapshot"))
    return {
        "name": text_of(top.get("name")),
        "created": number(text_of(top.get("creationTime"))),
        "state": text_of(top.get("state")),
    }
