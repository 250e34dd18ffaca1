# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recording a proof as an archive beside its backup, and nowhere else."""

from __future__ import annotations

import json
import os
import tempfile
import typing as t
from datetime import datetime, timezone

from ..backup import archives, effects_borg, read_repositories
from ..backup.archives import ArchiveError, ArchiveProof

if t.TYPE_CHECKING:
    from ..backup.effects_borg import Access
    from ..backup.places import BackupPlace

_SECONDS = 600.0
_LOCK_WAIT = 300  # a backup of the VM may be at work


def record(
    place: BackupPlace,
    access: Access,
    uuid: str,
    known: tuple[str, str | None, str, str],
    report: t.Mapping[str, object],
    screen: bytes | None,
) -> ArchiveProof:
    """Save what is ``known`` of an archive: its name and id, the verdict, and how it is known.

    Raises ArchiveError if the backup is gone, or another has its name: then nothing is said of it.
    """
    of, archive_id, verdict, how = known
    repository = read_repositories.repository(place, uuid, access)
    if of not in repository.names:
        raise ArchiveError(f"{uuid}::{of} was deleted meanwhile, so nothing is recorded of it")
    if archive_id is not None and repository.ids.get(of) != archive_id:
        raise ArchiveError(
            f"{uuid}::{of} was replaced by another of its name meanwhile, so nothing is recorded"
            " of it; verify it again"
        )
    now = archives.moment(datetime.now(timezone.utc))
    proof = ArchiveProof(verdict, of, now, how, archive_id)
    comment = effects_borg.placeholders_escaped(archives.proof_comment(proof))
    with tempfile.TemporaryDirectory(prefix="fleet-virt-proof-") as folder:
        files = {archives.REPORT: json.dumps({**report, "at": proof.at}, indent=1).encode()}
        if screen is not None:
            files[archives.SCREEN] = screen
        for name, content in files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        where = f"{place.repository(uuid)}::{proof.archive}"
        words = ["create", "--numeric-ids", "--files-cache=disabled", "--comment", comment, where]
        effects_borg.run(
            access, [*words, *files], seconds=_SECONDS, folder=folder, lock_wait=_LOCK_WAIT
        )
    return proof
