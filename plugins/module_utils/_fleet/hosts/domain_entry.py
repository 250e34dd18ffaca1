# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain's entry while only its own XML is known, and its snapshots."""

from __future__ import annotations

import typing as t

from ..base.xml_values import first_children, number, read_root, text_of
from . import domain_info

if t.TYPE_CHECKING:
    from ..base.snapshot import DomainEntry, DomainInfo, SnapshotInfo

_EMPTY = "<domain><name>unreadable</name></domain>"


def from_info(info: DomainInfo, name: str, uuid: str) -> DomainEntry:
    """The entry of the domain that ``info`` describes, for the caller to complete."""
    return {
        **info,
        "name": name,
        "uuid": uuid,
        "state": None,
        "reason": None,
        "autostart": None,
        "persistent": None,
        "managed_save": None,
        "snapshots": [],
        "stats": None,
        "cell": None,
        "error": None,
    }


def unreadable(name: str, uuid: str, error: str) -> DomainEntry:
    """An entry with every key, of which only these values are known."""
    entry = from_info(domain_info.parse(_EMPTY, f"domain {name}"), name, uuid)
    return {**entry, "agent": None, "error": error}


def snapshot(xml: str) -> SnapshotInfo:
    """``name``, ``created`` (seconds since 1970) and ``state`` of a ``<domainsnapshot>``."""
    top = first_children(read_root(xml, "domainsnapshot", "snapshot"))
    return {
        "name": text_of(top.get("name")),
        "created": number(text_of(top.get("creationTime"))),
        "state": text_of(top.get("state")),
    }
