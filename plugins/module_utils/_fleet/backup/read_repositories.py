# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asking repositories what they have: which there are at a place, and the archives of each."""

from __future__ import annotations

import os
import shlex
import typing as t
from datetime import datetime, timezone

from ..._errors import FleetVirtError
from ..base import effects_deadline
from ..base import effects_programs as programs
from . import effects_borg, listing
from .archives import is_uuid
from .effects_borg import Access
from .listing import Repository

if t.TYPE_CHECKING:
    from .places import BackupPlace

PARALLEL = 8  # repositories; each is a process of borg, and for a server a connection
_SECONDS = 60.0
_SSH_FAILED = 255  # itself, and no command there
_LIST = ["list", "--json", "--consider-checkpoints", "--format", "{comment}"]


def uuids(place: BackupPlace, access: Access) -> list[str]:
    """The VMs that have a repository at a place; raises FleetVirtError if it cannot be read."""
    if place.is_folder:
        try:
            with os.scandir(place.folder) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            raise FleetVirtError(
                f"{place}: {error.strerror}; mount the place here, or set virt_backup_read_from to"
                " where this controller reaches it"
            ) from None
    else:
        names = _on_server(place, access)
    return sorted(filter(is_uuid, names))


def _on_server(place: BackupPlace, access: Access) -> list[str]:
    """The names in a folder of a server. borg cannot list them, so this user's key needs a shell
    there, which the keys of hypervisors do not have."""
    argv = [
        *shlex.split(effects_borg.environment(access)["BORG_RSH"]),
        *place.ssh,
        f"ls -1 -- {shlex.quote(place.folder)}",
    ]
    ended = programs.execute(argv, seconds=_SECONDS)
    said = " ".join(ended.error_text.split())[:500].rstrip(".;")
    if ended.status == _SSH_FAILED:
        raise effects_borg.Disconnected(
            f"{place}: {said}; check the server, its key in this user's known_hosts, and that the"
            " controller's key (virt_backup_ssh_key) may log in there"
        )
    if ended.status != 0:
        raise effects_borg.Disconnected(
            f"{place}: {said}; to list a place, the controller's key needs a shell on the server,"
            " 'borg serve' alone does not show what there is"
        )
    return ended.out.split("\n")


def repositories(
    place: BackupPlace,
    names: t.Sequence[str],
    access: Access,
    *,
    sizes: bool,
    parallel: int = PARALLEL,
    seconds: float = effects_borg.SECONDS,
) -> list[Repository]:
    """The repositories of these VMs, each with the reason if it could not be read."""
    outcomes = effects_deadline.each(
        lambda uuid: _read(place, uuid, access, sizes=sizes, seconds=seconds),
        names,
        seconds=seconds * 3,
        what=lambda uuid: f"the repository of {uuid}",
        parallel=parallel,
    )
    return [
        outcome.value
        if isinstance(outcome, effects_deadline.Ok)
        else listing.unread(str(place), uuid, str(outcome.error))
        for uuid, outcome in zip(names, outcomes)
    ]


def repository(place: BackupPlace, uuid: str, access: Access) -> Repository:
    """One repository as it is now; raises FleetVirtError."""
    return _read(place, uuid, access, sizes=False, seconds=effects_borg.SECONDS)


def _read(
    place: BackupPlace, uuid: str, access: Access, *, sizes: bool, seconds: float
) -> Repository:
    address = place.repository(uuid)
    listed = _listed(access, address, seconds)
    informed = None
    if sizes:
        # Waits for nobody: without the sizes the list is still right
        words = ["info", "--json", "--bypass-lock", "--glob-archives", "*", address]
        informed = effects_borg.run(access, words, seconds=seconds).out
    now = datetime.now(timezone.utc)
    return listing.read(str(place), uuid, listed, informed, now=now)


def _listed(access: Access, address: str, seconds: float) -> str:
    try:
        return effects_borg.run(access, [*_LIST, address], seconds=seconds, lock_wait=1).out
    except effects_borg.Locked:
        # A backup that runs, or the lock of a machine that is lost: what was committed can be read
        words = [*_LIST, "--bypass-lock", address]
        return effects_borg.run(access, words, seconds=seconds).out
