# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding the backups to prove at their place, from the controller."""

from __future__ import annotations

import typing as t
import uuid as uuids

from ... import _lxml
from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass, field
from ..backup import archives, effects_borg, read_repositories
from ..backup import definition as archived
from ..backup import report as listed
from ..backup.archives import ArchiveError
from ..restore.effects_archive import Archive
from . import decide
from .options import SavedArchive, VerifyOptions

if t.TYPE_CHECKING:
    from ..backup.archives import Manifest
    from ..backup.effects_borg import Access
    from ..backup.places import BackupPlace


@dataclass
class FoundArchives:
    """The backups to prove, why others are damaged, by name, what could not be read at all, and
    what people have to know."""

    vms: list[SavedArchive] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find(place: BackupPlace, access: Access, options: VerifyOptions) -> FoundArchives:
    """The backups that ``options`` mean; raises FleetVirtError."""
    present, wanted = read_repositories.uuids(place, access), options["names"]
    if wanted and all(name.lower() in present for name in wanted):
        present = [name.lower() for name in wanted]
    repositories = read_repositories.repositories(place, present, access, sizes=False)
    repositories = listed.select(repositories, wanted)
    if not any(each.all_vms or each.problem for each in repositories):
        raise PlanRefused(f"{place} has no backup of a VM; check virt_backup_to")
    archives_there = FoundArchives(
        problems=[problem for repository in repositories for problem in repository.problems],
        notes=[note for repository in repositories for note in repository.notes],
    )
    if options["archive"] is None:
        archives_there.problems += [why for each in repositories if (why := each.all_ahead)]
    chosen = decide.choose(repositories, options["archive"], options["backups"], options["sample"])
    for repository, saved in chosen:
        backup = saved.backup
        name = f"{backup.uuid}::{backup.archive}"
        archive = Archive(access, str(place), backup.uuid, backup.archive, waits=False)
        manifest = definition = ""
        try:
            content = archive.manifest()
            if content.backup != backup:
                raise ArchiveError(f"its {archives.MANIFEST} is of another archive")
            domain = content.file(archives.DOMAIN)
            if domain is not None:
                definition = archive.file(domain).decode("utf-8", "replace")
            manifest = archives.manifest(content)
            require_restorable(definition, content)
        except (ArchiveError, effects_borg.Damaged) as error:
            archives_there.damaged[name] = str(error)
        archives_there.vms.append(
            SavedArchive(
                name=name,
                vm=backup.vm,
                uuid=backup.uuid,
                archive=backup.archive,
                archive_id=repository.ids.get(backup.archive, ""),
                manifest=manifest,
                definition=definition,
                expected=decide.is_expected(repository, saved),
                proof=str(uuids.uuid4()),
            )
        )
    return archives_there


def require_restorable(text: str, content: Manifest) -> None:
    """Raise ArchiveError if restoring would refuse the archive on every hypervisor."""
    try:
        root = _lxml.parse(text, archives.DOMAIN)
    except FleetVirtError as error:
        raise ArchiveError(f"restoring would refuse it: {error}") from None
    problems = archived.unrestorable(root, [disk.target for disk in content.backup.disks])
    if problems:
        raise ArchiveError(f"restoring would refuse it: {'; '.join(problems)}")
