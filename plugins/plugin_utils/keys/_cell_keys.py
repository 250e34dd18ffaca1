# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keys of cells, in the controller's folder of keys: ``cells/NAME.corosync`` and
``cells/NAME.pacemaker``."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_files as files
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._key_store import (
    KeyStore,
    make_folder,
)

KINDS = ("corosync", "pacemaker")
_BYTES = 256


def read(folder: str, cell: str) -> tuple[bytes, bytes] | None:
    """The keys of a cell, None if this controller does not have both."""
    KeyStore(folder, None).check_folder()
    try:
        first, second = (_path(folder, cell, kind).read_bytes() for kind in KINDS)
    except FileNotFoundError:
        return None
    return first, second


def make(folder: str, cell: str) -> tuple[bytes, bytes]:
    """The keys of a cell; what is missing is made, by one of several runs."""
    with KeyStore(folder, None).lock():
        make_folder(_path(folder, cell, "").parent)
        for kind in KINDS:
            files.publish(_path(folder, cell, kind), os.urandom(_BYTES), mode=0o600)
    keys = read(folder, cell)
    if keys is None:
        raise FleetVirtError(f"{folder}: the keys of the cell {cell!r} were removed meanwhile")
    return keys


def _path(folder: str, cell: str, kind: str) -> Path:
    return Path(folder).expanduser() / "cells" / f"{cell}.{kind}"
