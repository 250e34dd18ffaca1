# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding the archive of each VM at the place of backups. No hypervisor is asked: theirs may be
lost."""

from __future__ import annotations

import dataclasses
import typing as t
import uuid as uuids

from ... import _lxml
from ..._errors import PlanRefused
from ..backup import archives, places, read_repositories
from ..backup import definition as archived
from ..backup.archives import ArchiveError, Backup
from ..backup.effects_borg import Access
from ..backup.listing import Repository
from ..backup.places import BackupPlace
from ..base.names import require_named
from . import definition
from .effects_archive import Archive
from .options import COPY, RESTORE, RestoreOptions, SavedVm

_SHOWN = 10


def find(access: Access, options: RestoreOptions, run: str, *, whole: bool = True) -> list[SavedVm]:
    """The VMs that ``options`` mean, from the archive that was chosen or the newest. ``whole``:
    they are to be restored, and not a part of them.

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
    vms, problems, unknown = [], [], list(dict.fromkeys(options["without"]))
    incomplete, lacked = False, []
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
            problems.append(f"{repository.all_ahead}, or name it: {_naming(name, last)}")
            continue
        all_backups = [vm.backup for vm in repository.all_vms]
        backups = [vm.backup for vm in repository.vms] if wanted is None else all_backups
        backups = [one for one in backups if wanted in (None, one.archive)]
        if not backups:
            there = ", ".join(one.archive for one in all_backups[-_SHOWN:])
            problems.append(f"{name!r} has no archive {wanted!r}; the newest are: {there}")
            continue
        saved = _saved(access, options, backups[-1], run)
        if wanted is None:
            saved = dataclasses.replace(saved, skipped=_skipped(name, repository))
        if whole:
            saved, lacks, problem = complete(saved, options["without"])
            unknown = [one for one in unknown if one not in lacks]
            problems += [problem] if problem else []
            missing = [one for one in lacks if one != definition.HOSTDEV]
            incomplete = incomplete or bool(problem and missing)
            lacked += lacks
        vms.append(saved)
    if incomplete:  # one command for all VMs, and for what hypervisors refuse later
        given = ",".join(dict.fromkeys(lacked))
        problems.append(f"restore without what is lacking: -e virt_restore_without={given}")
    if unknown and not problems:
        problems.append(
            f"virt_restore_without={','.join(unknown)}: none of these archives lacks that; remove"
            " it from virt_restore_without"
        )
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


def _naming(name: str, archive: str) -> str:
    return f"-e vm_name={name} -e virt_archive={archive}"


def _skipped(name: str, repository: Repository) -> str:
    """Which archives do not count as the newest, and what is taken instead; empty without any."""
    if not repository.ahead:
        return ""
    ahead = [vm.archive for vm in repository.ahead]
    return (
        f"{repository.name}: not restored, since later than the clock here ({repository.clock}):"
        f" {', '.join(ahead[-_SHOWN:])}; the newest before is {repository.vms[-1].archive}. If one"
        f" is right, name it: {_naming(name, ahead[-1])}"
    )


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


def complete(vm: SavedVm, without: t.Collection[str]) -> tuple[SavedVm, list[str], str]:
    """The VM without what ``without`` names and its archive lacks: targets of disks, and the
    devices of its hypervisor. Also all that it lacks, and why it cannot be restored."""
    root = _lxml.parse(vm.definition, f"{archives.DOMAIN} of {vm.source}")
    content = archives.read_manifest(vm.manifest)
    missing, unknown = archived.unmatched(root, [one.target for one in content.backup.disks])
    devices, hosts = root.find("devices"), definition.host_devices(root)
    lacks = [*missing, *unknown, *([definition.HOSTDEV] if hosts else [])]
    archived.remove_disks(root, [target for target in missing if target in without])
    if definition.HOSTDEV in without and devices is not None:
        for device in hosts:
            devices.remove(device)
    left = [target for target in unknown if target in without]
    kept = tuple(disk for disk in content.backup.disks if disk.target not in left)
    gone = {archives.disk_path(target) for target in left}
    content = dataclasses.replace(
        content,
        backup=dataclasses.replace(content.backup, disks=kept),
        files=tuple(file for file in content.files if file.path not in gone),
    )
    problem = "; ".join(archived.unrestorable(root, [disk.target for disk in kept]))
    if problem:
        problem = f"{vm.name}: {vm.source}: {problem}"
    if any(name in without for name in lacks):
        text = _lxml.tostring(root)
        vm = dataclasses.replace(vm, definition=text, manifest=archives.manifest(content))
    return vm, lacks, problem
