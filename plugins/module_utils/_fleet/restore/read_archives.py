# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding the archive of each VM at the place of backups. No hypervisor is asked: theirs may be
lost."""

from __future__ import annotations

import typing as t
import uuid as uuids

from ..._errors import PlanRefused
from ..backup import archives, places, read_repositories
from ..backup.archives import ArchiveError, Backup
from ..backup.effects_borg import Access
from ..backup.listing import Repository
from ..backup.places import BackupPlace
from ..base.names import require_named
from .effects_archive import Archive
from .options import COPY, RESTORE, RestoreOptions, SavedVm

_SHOWN = 10


def find(access: Access, options: RestoreOptions, run: str) -> list[SavedVm]:
    """The VMs that ``options`` mean, from the archive that was chosen or the newest.

    Raises PlanRefused with the reason of each that cannot be found.
    """
    names = list(dict.fromkeys(options["names"]))
    if not names:
        raise PlanRefused("no VM is named; give -e vm_name=web1, or virt_names for several")
    require_named(names)
    if len(names) != 1 and (options["new_name"] or options["archive"]):
        raise PlanRefused("vm_new_name and virt_archive are of one VM; name one")
    place, wanted = places.parse(options["place"]), options["archive"]
    by_uuid = all(archives.is_uuid(name) for name in names)
    listed = names if by_uuid else read_repositories.uuids(place, access)
    repositories = read_repositories.repositories(place, listed, access, sizes=False)
    unread = [problem for repository in repositories for problem in repository.problems]
    vms, problems = [], []
    for name in names:
        those = [one for one in repositories if one.all_vms and name in (one.uuid, one.name)]
        problem = _ambiguous(name, those, unread, place)
        if problem:
            problems.append(problem)
            continue
        (repository,) = those
        # What is later than the clock is restored if it is named, and never because it is newest
        if wanted is None and repository.all_ahead:
            last = repository.ahead[-1].archive
            problems.append(f"{repository.all_ahead}, or name it: -e virt_archive={last}")
            continue
        all_backups = [vm.backup for vm in repository.all_vms]
        backups = [vm.backup for vm in repository.vms] if wanted is None else all_backups
        backups = [one for one in backups if wanted in (None, one.archive)]
        if not backups:
            there = ", ".join(one.archive for one in all_backups[-_SHOWN:])
            problems.append(f"{name!r} has no archive {wanted!r}; the newest are: {there}")
            continue
        vms.append(_saved(access, options, backups[-1], run))
    if problems:
        raise PlanRefused("; ".join(problems))
    return vms


def _ambiguous(
    name: str, those: t.Sequence[Repository], unread: t.Sequence[str], place: BackupPlace
) -> str | None:
    if len(those) > 1:
        uuids_of = "; ".join(f"{one.uuid}, last {_last(one)}" for one in those)
        return f"{len(those)} VMs were called {name!r} ({uuids_of}); name the one by its UUID"
    if those:
        return None
    why = f"; what cannot be read: {'; '.join(unread)}" if unread else ""
    return f"{place} has no backup of {name!r}{why}"


def _last(repository: Repository) -> str:
    return (repository.vms or repository.ahead)[-1].backup.at


def _saved(access: Access, options: RestoreOptions, backup: Backup, run: str) -> SavedVm:
    archive = Archive(access, options["place"], backup.uuid, backup.archive)
    manifest = archive.manifest()
    if manifest.backup != backup:
        raise ArchiveError(f"{archive.where}: its manifest is of another archive than its comment")
    definition = manifest.file(archives.DOMAIN)
    if definition is None:
        raise ArchiveError(f"{archive.where}: it has no {archives.DOMAIN}")
    name = options["new_name"] or backup.vm
    chosen = options["restore_as"] or (COPY if options["new_name"] else RESTORE)
    return SavedVm(
        name=name,
        uuid=str(uuids.uuid4()) if chosen == COPY else backup.uuid,
        repository=backup.uuid,
        archive=backup.archive,
        copy=chosen == COPY,
        manifest=archives.manifest(manifest),
        definition=archive.file(definition).decode("utf-8", "replace"),
        claimer=str(uuids.uuid5(uuids.NAMESPACE_OID, f"{run} {name}")),
    )
