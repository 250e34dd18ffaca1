# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base images in results."""

from __future__ import annotations

import typing as t

from ..base import answers


class BaseEntry(t.TypedDict):
    """A base image, or a predicted one."""

    name: str
    digest: str
    format: str
    pool: str
    volume: str
    path: str
    size_mib: int | None


class UsedEntry(BaseEntry):
    """The same, with its disk usage and the VMs that use it."""

    allocated_mib: int | None
    users: list[str]


class ListedEntry(UsedEntry):
    """The same, and whether its content matches its name; None if not checked."""

    intact: bool | None


class Images(answers.Result, total=False):
    """The images of a hypervisor."""

    images: list[ListedEntry] | None


class Diff(t.TypedDict):
    """The images before and after."""

    before: str
    after: str
