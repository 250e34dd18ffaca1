# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keys of repositories, as files beside which the passphrase opens what a place lost.

A key is in its repository as well. It is encrypted with the passphrase, and is shown nowhere.
"""

from __future__ import annotations

import stat
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    effects_borg,
    places,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.listing import Repository
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_files
from ansible_collections.fleet.virt.plugins.plugin_utils.base._files import make_private_folder

_MODE = 0o600


class ExportedKey(t.TypedDict):
    """The file with the key of a VM's repository."""

    place: str
    uuid: str
    name: str | None
    path: str
    changed: bool
    failed: bool
    msg: str | None


def export(
    repositories: t.Sequence[Repository], access: Access, dest: str, *, check: bool
) -> list[ExportedKey]:
    """Write the key of each repository to ``UUID.key`` in the folder; raises FleetVirtError."""
    folder = Path(dest).expanduser()
    if not check:
        make_private_folder(folder, "dest")
    return [_exported(repository, access, folder, check) for repository in repositories]


def _exported(repository: Repository, access: Access, folder: Path, check: bool) -> ExportedKey:
    path = folder / f"{repository.uuid}.key"
    address = places.parse(repository.place).repository(repository.uuid)
    changed, why = False, None
    try:
        key = effects_borg.run(access, ["key", "export", address]).stdout
        changed = _differs(path, key)
        if changed and not check:
            effects_files.write(path, key, mode=_MODE)
    except FleetVirtError as error:
        why = f"{repository.uuid}: {error}"
    except OSError as error:
        why = f"{path}: {error.strerror}"
    return {
        "place": repository.place,
        "uuid": repository.uuid,
        "name": repository.name,
        "path": str(path),
        "changed": changed and why is None,
        "failed": why is not None,
        "msg": why,
    }


def _differs(path: Path, key: bytes) -> bool:
    """Whether the file has another content, or others may read it."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(status.st_mode):
        raise FleetVirtError(f"{path}: is no file; remove it, or name another folder")
    return stat.S_IMODE(status.st_mode) != _MODE or path.read_bytes() != key


def text(keys: t.Sequence[ExportedKey], *, check: bool) -> str:
    """Where the keys are."""
    lines = [
        f"{key['name'] or key['uuid']}: {key['path']}"
        + (" (would be written)" if check and key["changed"] else "")
        for key in keys
        if not key["failed"]
    ]
    return "\n".join(lines or ["no key"])
