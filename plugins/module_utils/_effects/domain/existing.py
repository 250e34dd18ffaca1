# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM that exists, read to be compared with what is asked for.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..._libvirt import DOMAIN_XML_INACTIVE
from ..._pure.base.metadata import Metadata
from ..._pure.domain import difference, request
from ..._pure.domain.domain import Domain
from ..base.connection import Connection
from ..base.lookup import find_domain, kept_metadata

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain


def compare(connection: Connection, domains: t.Sequence[Domain]) -> list[dict[str, object]]:
    """How each of ``domains`` that is defined here differs from what is asked for.

    ``differences`` is None for one that this collection did not make, or has not finished.
    ``drift`` is whether it was made as it is asked for, so that somebody else has changed it.
    """
    found: list[dict[str, object]] = []
    for domain in domains:
        raw = find_domain(connection, domain.name)
        if raw is None:
            continue
        kept = kept_metadata(connection, raw)
        entry: dict[str, object] = {"name": domain.name, "differences": None, "drift": False}
        if kept is not None and kept.request is not None and kept.phase is None:
            entry["differences"] = lines = differences(connection, raw, kept, domain)
            entry["drift"] = bool(lines) and not request.differences(kept.request, domain)
        found.append(entry)
    return found


def differences(
    connection: Connection,
    raw: VirDomain,
    kept: Metadata,
    domain: Domain,
    bases: t.Mapping[str, str] | None = None,
) -> list[str]:
    """How it differs from ``domain``, as far as that was written; empty if it does not.

    ``bases`` are the paths of base images by image as it was written, as far as they are known.
    """
    name = domain.name
    text = connection.call(f"read domain {name}", raw.XMLDesc, DOMAIN_XML_INACTIVE)
    sizes = {}
    for target, path in difference.sized_disks(domain, text, kept).items():
        capacity, _allocation, _physical = connection.call(
            f"read disk {target} of {name}", raw.blockInfo, path, 0
        )
        sizes[path] = int(capacity)
    autostart = bool(connection.call(f"read autostart of {name}", raw.autostart))
    known = difference.Existing(text, kept, autostart, sizes, bases or {})
    return difference.differences(domain, known)
