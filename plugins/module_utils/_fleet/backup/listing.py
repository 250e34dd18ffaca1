# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a repository says of its archives: which are of VMs, and what is proven of them."""

from __future__ import annotations

import json
import typing as t

from ..._records import dataclass, field
from ..base.json_values import as_list, as_mapping, as_mappings, as_number, as_text
from . import archives
from .archives import ArchiveError, ArchiveProof, Backup

# What may be said of an archive; failed is what its newest proof says
COMPLETE, READ_BACK, PROVEN, FAILED = "listed and complete", "read back", "proven", "failed"
_STATES = {archives.BOOTED: PROVEN, archives.READ_BACK: READ_BACK, archives.FAILED: FAILED}


@dataclass(frozen=True)
class SavedVm:
    """A VM's archive with its proofs, oldest first.

    ``added`` are the bytes that only this archive needs; None where that was not asked.
    """

    backup: Backup
    proofs: tuple[ArchiveProof, ...] = ()
    added: int | None = None

    @property
    def archive(self) -> str:
        """The archive's name."""
        return self.backup.archive

    @property
    def size(self) -> int:
        """Bytes of its disks, as the guest sees them."""
        return sum(disk.size for disk in self.backup.disks)

    @property
    def proof(self) -> ArchiveProof | None:
        """The newest proof."""
        return self.proofs[-1] if self.proofs else None

    @property
    def state(self) -> str:
        """What is known of it. One that was proven is so after it was only read, too, as where no
        hypervisor can boot it any more; a failure counts whatever there was before."""
        if self.proof is None:
            return COMPLETE
        results = [proof.proof for proof in self.proofs]
        since = results[::-1].index(archives.FAILED) if archives.FAILED in results else len(results)
        if archives.BOOTED in results[len(results) - since :]:
            return PROVEN
        return _STATES[self.proof.proof]

    @property
    def is_proven(self) -> bool:
        """Whether it booted when it was last verified."""
        return self.state == PROVEN


@dataclass(frozen=True)
class Repository:
    """The archives of a VM, oldest first; ``names`` are all that the repository has.

    ``unreadable`` says by archive why it is not one of ours, though its name is; ``problem`` why
    nothing is known of the repository.
    """

    place: str
    uuid: str
    vms: tuple[SavedVm, ...] = ()
    names: tuple[str, ...] = ()
    unreadable: t.Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def name(self) -> str | None:
        """The VM's name, as its newest archive has it."""
        return self.vms[-1].backup.vm if self.vms else None

    @property
    def problems(self) -> list[str]:
        """Why something in it is not as it has to be."""
        if self.problem is not None:
            return [f"{self.uuid}: {self.problem}"]
        return [f"{self.uuid}: {archive}: {why}" for archive, why in self.unreadable.items()]


def read(place: str, uuid: str, listed: str, informed: str | None = None) -> Repository:
    """The repository of which ``borg list --json`` with the comments said ``listed``, and
    ``borg info --json`` of all archives ``informed``. Raises ArchiveError if that is no such text.
    """
    entries = _entries(listed, "list")
    comments = {name: as_text(entry.get("comment")) or "" for name, entry in entries.items()}
    added = {} if informed is None else _added(informed)
    unreadable: dict[str, str] = {}
    proofs = _proofs(comments, unreadable)
    vms: list[SavedVm] = []
    for name in sorted(filter(archives.is_backup, comments)):
        try:
            backup = archives.read_comment(comments[name])
            _require_own(backup, uuid, name)
        except ArchiveError as error:
            unreadable[name] = str(error)
        else:
            vms.append(SavedVm(backup, tuple(proofs.get(name, ())), added.get(name)))
    return Repository(place, uuid, tuple(vms), tuple(sorted(comments)), unreadable)


def unread(place: str, uuid: str, problem: str) -> Repository:
    """A repository of which nothing is known."""
    return Repository(place, uuid, problem=problem)


def _require_own(backup: Backup, uuid: str, name: str) -> None:
    if backup.uuid != uuid or backup.archive != name:
        raise ArchiveError(f"its comment is that of {backup.archive} of the VM {backup.uuid}")


def _proofs(
    comments: t.Mapping[str, str], unreadable: dict[str, str]
) -> dict[str, list[ArchiveProof]]:
    proofs: dict[str, list[ArchiveProof]] = {}
    for name in sorted(comments):
        if archives.parse_proof(name) is None:
            continue
        try:
            proof = archives.read_proof(comments[name])
            if proof.archive != name:
                raise ArchiveError(f"its comment is that of {proof.archive}")
        except ArchiveError as error:
            unreadable[name] = str(error)
        else:
            proofs.setdefault(proof.of, []).append(proof)
    return proofs


def _added(informed: str) -> dict[str, int]:
    sizes = {}
    for name, entry in _entries(informed, "info").items():
        size = as_number(as_mapping(entry.get("stats")).get("deduplicated_size"))
        if size is not None and size >= 0:
            sizes[name] = size
    return sizes


def _entries(text: str, command: str) -> dict[str, t.Mapping[str, object]]:
    try:
        document = as_mapping(json.loads(text))
    except (ValueError, RecursionError):
        document = {}
    if not isinstance(document.get("archives"), list):
        raise ArchiveError(f"what borg {command} said is not its list of archives")
    entries = as_mappings(as_list(document.get("archives")))
    return {name: entry for entry in entries if (name := as_text(entry.get("name")))}
