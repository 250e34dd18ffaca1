# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories of backups as hypervisors make them, by borg, with next to nothing in them."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import typing as t
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    effects_borg,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import (
    ArchiveProof,
    Backup,
    Manifest,
    SavedDisk,
    SavedFile,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access

PASSPHRASE = "long enough, and 'quoted'"  # noqa: S105
UUID = "6f0c8a52-2f60-4b1c-9d3e-0d9a6f3f7d10"
OTHER = "0a1b2c3d-2f60-4b1c-9d3e-0d9a6f3f7d10"
DISKS = (SavedDisk("vda", 1 << 30, "qcow2"),)


def at(day: int, hour: int = 2) -> str:
    """The moment of a backup on a day of November 2026."""
    return f"2026-11-{day:02}T{hour:02}:00:00Z"


@contextlib.contextmanager
def lasting() -> Iterator[Path]:
    """A folder that is not in memory, as the temporary one of a test may be."""
    with tempfile.TemporaryDirectory(prefix="fleet-virt-", dir="/var/tmp") as folder:
        yield Path(folder)


def of(moment: str, vm: str = "web1", uuid: str = UUID) -> Backup:
    return Backup(vm, uuid, "hv1", moment, archives.FROZEN, DISKS)


def hypervisor(folder: Path) -> Access:
    """How a hypervisor whose files are below ``folder`` opens repositories."""
    return Access(PASSPHRASE, str(folder / "borg-of-hypervisor"))


def make(
    place: Path,
    access: Access,
    moments: Sequence[str],
    vm: str = "web1",
    uuid: str = UUID,
    proven: Sequence[str] = (),
) -> str:
    """A repository with a backup at each moment, and proofs that some of them booted."""
    repository = f"{place}/{uuid}"
    if not Path(repository).exists():
        place.mkdir(exist_ok=True)
        effects_borg.run(access, ["init", "--encryption", "repokey-blake2", repository])
    for moment in moments:
        save(repository, access, moment, archives.comment(of(moment, vm, uuid)))
    for moment in proven:
        proof = ArchiveProof(
            archives.BOOTED, moment, moment.replace(":00:00Z", ":30:00Z"), "login:"
        )
        save(repository, access, proof.archive, archives.proof_comment(proof))
    return repository


def save(repository: str, access: Access, name: str, comment: str) -> None:
    """An archive of that name and comment; its content is as long as its name, and its name."""
    escaped = effects_borg.placeholders_escaped(comment)
    folder = Path(access.base)
    (folder / "manifest.json").write_text(name)
    words = ["create", "--comment", escaped, f"{repository}::{name}", "manifest.json"]
    effects_borg.run(access, words, folder=str(folder))


def save_whole(
    repository: str, access: Access, backup: Backup, files: t.Mapping[str, bytes]
) -> None:
    """An archive with these files and its manifest, as docs/design/backup.md has it."""
    saved = tuple(
        SavedFile(path, len(content), hashlib.sha256(content).hexdigest())
        for path, content in files.items()
    )
    whole = {**files, archives.MANIFEST: archives.manifest(Manifest(backup, saved)).encode()}
    with tempfile.TemporaryDirectory() as folder:
        for path, content in whole.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_bytes(content)
        comment = effects_borg.placeholders_escaped(archives.comment(backup))
        words = ["create", "--comment", comment, f"{repository}::{backup.archive}", *whole]
        effects_borg.run(access, words, folder=folder)


def listed(repository: str, access: Access) -> list[str]:
    """The names of all archives."""
    ended = effects_borg.run(access, ["list", "--short", repository])
    return ended.out.split("\n")[:-1]
