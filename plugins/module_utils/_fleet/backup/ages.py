# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs whose newest backup is older than wished, or that have none."""

from __future__ import annotations

import typing as t
from datetime import datetime, timedelta

from . import archives

if t.TYPE_CHECKING:
    from .listing import Repository


class OverdueVm(t.TypedDict):
    """A VM whose backup is overdue; ``at`` is its newest one, null without any."""

    name: str
    uuid: str
    at: str | None


def newest(moments: t.Iterable[str], now: datetime) -> str | None:
    """The newest moment that is past: whoever can write to a place can name any moment."""
    past = [
        text for text in moments if archives.is_backup(text) and not archives.is_ahead(text, now)
    ]
    return max(past, default=None)


def is_overdue(at: str | None, hours: float, now: datetime) -> bool:
    """Whether the moment of a backup is more than ``hours`` ago, or there is none."""
    moment = None if at is None else archives.parse_moment(at)
    return moment is None or now - moment > timedelta(hours=hours)


def overdue(
    vms: t.Iterable[tuple[str, str]],
    repositories: t.Iterable[Repository],
    hours: float,
    now: datetime,
) -> list[OverdueVm]:
    """Those of ``vms``, names with UUIDs, by name; a VM has the backups of all its repositories.

    What could not be read is not known to be overdue.
    """
    moments: dict[str, list[str]] = {}
    unread = set()
    for repository in repositories:
        moments.setdefault(repository.uuid, []).extend(vm.backup.at for vm in repository.vms)
        if repository.problem is not None:
            unread.add(repository.uuid)
    overdue: list[OverdueVm] = []
    for name, uuid in sorted(vms):
        at = newest(moments.get(uuid, ()), now)
        if is_overdue(at, hours, now) and uuid not in unread:
            overdue.append({"name": name, "uuid": uuid, "at": at})
    return overdue


def lines(vms: t.Sequence[OverdueVm], hours: float) -> list[str]:
    """What is shown of them."""
    if not vms:
        return []
    each = [f"{vm['name']} ({'none' if vm['at'] is None else vm['at']})" for vm in vms]
    return [f"no backup of the last {hours:g} h: {', '.join(each)}"]
