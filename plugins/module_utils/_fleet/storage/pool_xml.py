# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A directory pool as libvirt's XML (virStoragePoolDefineXML)."""

from __future__ import annotations

from ... import _lxml


def render(name: str, path: str) -> str:
    """The XML of a pool in the directory ``path``."""
    root = _lxml.new("pool", {"type": "dir"})
    _lxml.add(root, "name", text=name)
    target = _lxml.add(root, "target")
    _lxml.add(target, "path", text=path)
    return _lxml.tostring(root)
