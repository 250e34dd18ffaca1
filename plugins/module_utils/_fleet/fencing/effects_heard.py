# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeping and reading which addresses have answered this hypervisor."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ..._errors import FleetVirtError
from ..base.effects_connection import Connection
from ..notes import effects as notes
from ..storage.read_shared_pools import NOTES_PATH
from . import heard, read_links
from .read_silence import resolved


def volumes(folder: str = NOTES_PATH) -> list[str]:
    """The names of what this machine keeps. They are files here, whatever libvirt's daemon does."""
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def keep(connection: Connection, addresses: t.Iterable[str]) -> None:
    """Keep that these answered this hypervisor, of those that are on no link of it. That it could
    not be kept hinders nothing: a person has to state more, once."""
    if not connection.local:
        return
    there = volumes()
    for address in addresses:
        for found, interface in resolved(address):
            name = heard.volume(found)
            if name not in there and read_links.link_to(found, interface) is None:
                with contextlib.suppress(FleetVirtError):
                    notes.keep(connection, name)
