# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The place of backups: a folder, or one on a server by SSH, with one repository a VM below it."""

from __future__ import annotations

import re

from ..._errors import FleetVirtError
from ..._records import dataclass
from ..base.options import show
from .archives import is_uuid

_SSH = "ssh://"
_SERVER = re.compile(
    r"(?:(?P<user>[A-Za-z_][A-Za-z0-9_.-]{0,31})@)?"
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<folder>/.*)"
)
# borg reads {...} as its placeholders, and :: as the end of the repository
_FOLDER = re.compile(r"(?:/(?!\.\.?(?:/|$))[^/\x00-\x1f\x7f{}]+)+")
_RULE = (
    "give the absolute path of a folder, such as /srv/backup, or ssh://backup@server/srv/backup,"
    " without '::', braces, '.' and '..' in it"
)


class PlaceError(FleetVirtError):
    """What cannot be a place of backups."""


@dataclass(frozen=True)
class BackupPlace:
    """A folder of repositories; ``server`` is ``user@host:port`` where SSH leads to it."""

    folder: str
    server: str | None = None

    def __str__(self) -> str:
        return self.folder if self.server is None else f"{_SSH}{self.server}{self.folder}"

    @property
    def is_folder(self) -> bool:
        """Whether it is a path on the machine that uses it."""
        return self.server is None

    @property
    def ssh(self) -> tuple[str, ...]:
        """Where the server is, as words of ssh."""
        match = _SERVER.fullmatch(f"{self.server}{self.folder}")
        if match is None:
            return ()
        port = ("-p", match["port"]) if match["port"] else ()
        host = match["host"].strip("[]")
        return (*port, f"{match['user']}@{host}" if match["user"] else host)

    def repository(self, uuid: str) -> str:
        """The repository of a VM, as borg is told it."""
        uuid = uuid.lower()
        if not is_uuid(uuid):
            raise PlaceError(f"{show(uuid)} is not the UUID of a VM")
        return f"{self}/{uuid}"


NO_PLACE = (
    "no place of backups is known; set virt_backup_to, for example in"
    f" inventory/group_vars/all.yml: {_RULE}"
)


def parse(value: object) -> BackupPlace:
    """The place that an option says; raises PlaceError."""
    text = value.strip() if isinstance(value, str) else ""
    if not text and (value is None or isinstance(value, str)):
        raise PlaceError(NO_PLACE)
    server = None
    folder = text.rstrip("/")
    if text.startswith(_SSH):
        match = _SERVER.fullmatch(text[len(_SSH) :])
        if match is None or (match["port"] and not 0 < int(match["port"]) < 65536):
            raise PlaceError(f"{show(value)} is no place for backups: {_RULE}")
        folder = match["folder"].rstrip("/")
        server = text[len(_SSH) : len(text) - len(match["folder"])]
    if not _FOLDER.fullmatch(folder) or "::" in folder:
        raise PlaceError(f"{show(value)} is no place for backups: {_RULE}")
    return BackupPlace(folder, server)
