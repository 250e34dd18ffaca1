# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encrypted disks and volumes (LUKS), and the UUID or usage of their libvirt secret."""

from __future__ import annotations

import re
import typing as t

from ... import _lxml

if t.TYPE_CHECKING:
    from ..._lxml import Element

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)


def add(parent: Element, secret: str) -> None:
    """``<encryption>`` of a disk or volume; ``secret`` is a UUID or a usage."""
    element = _lxml.add(parent, "encryption", {"format": "luks"})
    known_by = "uuid" if _UUID.fullmatch(secret) else "usage"
    value = secret.lower() if known_by == "uuid" else secret
    _lxml.add(element, "secret", {"type": "passphrase", known_by: value})


def secret_of(disk: Element) -> str | None:
    """The UUID or usage of the secret of a ``<disk>``; None if it is not encrypted."""
    for place in ("source/encryption/secret", "encryption/secret"):
        secret = disk.find(place)
        if secret is not None:
            return secret.get("uuid") or secret.get("usage")
    return None


def secrets_of(xml: str) -> dict[str, str]:
    """The UUID or usage of the secret of each encrypted disk of a domain, by target."""
    secrets = {}
    for disk in _lxml.parse(xml, "domain").iterfind("devices/disk"):
        target, secret = disk.find("target"), secret_of(disk)
        if target is not None and secret is not None:
            secrets[str(target.get("dev"))] = secret
    return secrets
