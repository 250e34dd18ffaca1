# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a definition is like in an archive."""

from __future__ import annotations

import dataclasses

from ... import _lxml
from ..base import metadata


def saved(text: str, name: str) -> str:
    """The inactive definition of the VM ``name`` without the marks of a run at work."""
    root = _lxml.parse(text, f"domain {name}")
    stored = metadata.parse(root)
    if stored is not None and not stored.broken:
        metadata.put(root, dataclasses.replace(stored, phase=None, owner=None, move=None))
    return _lxml.tostring(root)
