# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a repository says of its archives: which are of VMs, and what is proven of them."""

from __future__ import annotations

import json
import typing as t
from datetime import datetime

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

    @property
    def is_bound(self) -> bool:
        """Whether a proof is of this very archive, and not only of one with its name."""
        return any(proof.archive_id is not None for proof in self.proofs)


@dataclass(frozen=True)
class Repository:
    """The archives of a VM, oldest first; ``names`` are all that the repository has.

    ``ahead`` are backups that are later than the clock of who read it, ``read_at``: they count as
    none. ``ids`` is borg's id of each archive by name, ``notes`` what people have to know.
    ``unreadable`` says by archive why it is not one of ours, though its name is; ``problem`` why
    nothing is known of the repository.
    """

    place: str
    uuid: str
    vms: tuple[SavedVm, ...] = ()
    names: tuple[str, ...] = ()
    unreadable: t.Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    ahead: tuple[SavedVm, ...] = ()
    ids: t.Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    read_at: datetime | None = None

    @property
    def all_vms(self) -> tuple[SavedVm, ...]:
        """All backups, with those that count as none."""
        return (*self.vms, *self.ahead)

    @property
    def name(self) -> str | None:
        """The VM's name, as its newest archive has it."""
        vms = self.vms or self.ahead
        return vms[-1].backup.vm if vms else None

    @property
    def clock(self) -> str:
        """The clock of who read it, as archives are named."""
        return "unknown" if self.read_at is None else archives.moment(self.read_at)

    @property
    def all_ahead(self) -> str | None:
        """Why none of its backups counts, where all that it has are later than the clock."""
        now = self.read_at
        if self.vms or not (now and any(archives.is_ahead(vm.archive, now) for vm in self.ahead)):
            return None
        return (
            f"{self.name or self.uuid}: all of its backups are later than the clock here, which"
            f" says {self.clock}; the newest is {self.ahead[-1].archive}, made on"
            f" {self.ahead[-1].backup.host}. Set the clock that is wrong: look with date -u"
        )

    @property
    def problems(self) -> list[str]:
        """Why something in it is not as it has to be."""
        if self.problem is not None:
            return [f"{self.uuid}: {self.problem}"]
        return [f"{self.uuid}: {archive}: {why}" for archive, why in self.unreadable.items()]


def read(
    place: str, uuid: str, listed: str, informed: str | None = None, *, now: datetime
) -> Repository:
    """The repository of which ``borg list --json`` with the comments said ``listed``, and
    ``borg info --json`` of all archives ``informed``. Raises ArchiveError if that is no such text.

    Who can write to a place can name any moment, and so can a clock that is ahead: what is later
    than ``now`` would be the newest for as long.
    """
    entries = _entries(listed, "list")
    comments = {name: as_text(entry.get("comment")) or "" for name, entry in entries.items()}
    ids = {
        name: archive_id
        for name, entry in entries.items()
        if (archive_id := archives.parse_id(entry.get("id"))) is not None
    }
    added = {} if informed is None else _added(informed)
    unreadable: dict[str, str] = {}
    notes: list[str] = []
    proofs: dict[str, list[ArchiveProof]] = {}
    for proof in _proofs(comments, unreadable):
        why = _void(proof, ids, now)
        if why is None:
            proofs.setdefault(proof.of, []).append(proof)
        elif proof.of in comments:
            notes.append(f"{uuid}::{proof.archive} {why}")
    vms: list[SavedVm] = []
    ahead: list[SavedVm] = []
    for name in sorted(filter(archives.is_backup, comments)):
        try:
            backup = archives.read_comment(comments[name])
            _require_own(backup, uuid, name)
        except ArchiveError as error:
            unreadable[name] = str(error)
        else:
            saved = SavedVm(backup, tuple(proofs.get(name, ())), added.get(name))
            (ahead if archives.is_ahead(name, now) else vms).append(saved)
    notes += [
        f"{vm.backup.vm}: {uuid}::{vm.archive} is later than the clock here"
        f" ({archives.moment(now)}), so it counts as no backup and is not deleted"
        for vm in ahead
    ]
    return Repository(
        place,
        uuid,
        tuple(vms),
        tuple(sorted(comments)),
        unreadable,
        ahead=tuple(ahead),
        ids=ids,
        notes=tuple(notes),
        read_at=now,
    )


def _void(proof: ArchiveProof, ids: t.Mapping[str, str], now: datetime) -> str | None:
    """Why a proof says nothing of the archive whose name it has; None if it does."""
    if proof.archive_id is not None and proof.archive_id != ids.get(proof.of):
        return (
            f"is of another archive that had the name {proof.of} (id {proof.archive_id}), so it"
            " proves nothing of that one; verify it"
        )
    if archives.is_ahead(proof.at, now):
        return f"is later than the clock here ({archives.moment(now)}), so it proves nothing"
    return None


def unread(place: str, uuid: str, problem: str) -> Repository:
    """A repository of which nothing is known."""
    return Repository(place, uuid, problem=problem)


def _require_own(backup: Backup, uuid: str, name: str) -> None:
    if backup.uuid != uuid or backup.archive != name:
        raise ArchiveError(f"its comment is that of {backup.archive} of the VM {backup.uuid}")


def _proofs(comments: t.Mapping[str, str], unreadable: dict[str, str]) -> list[ArchiveProof]:
    proofs: list[ArchiveProof] = []
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
            proofs.append(proof)
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
