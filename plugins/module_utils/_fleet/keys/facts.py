# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers about its keys."""

from __future__ import annotations

import typing as t

from ..base import answers


class KeyFiles(t.TypedDict):
    """Public files of one kind, in PEM, and the id of its key; missing ones are empty."""

    ca: str
    crl: str
    certificate: str
    key_id: str | None


class KeyKinds(t.TypedDict):
    """The files of each kind."""

    control: KeyFiles
    data: KeyFiles


class KeysLook(answers.Result, total=False):
    """The current state."""

    kinds: KeyKinds | None
    faults: list[str] | None
    daemons: list[str] | None
