# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Archives of VMs: where they are, what they are called, and what they say of themselves.

Whoever can write to a place can write the names, comments and manifests in it: a hypervisor that
was taken over as well. They are read strictly and within limits, and paths are those of the design
(docs/design/backup.md) and no others.
"""

from __future__ import annotations

import json
import re
import typing as t
from datetime import datetime, timedelta, timezone

from ..._errors import FleetVirtError
from ..._records import dataclass

VERSION = 1
FROZEN, CRASH_CONSISTENT, SHUT_OFF = "frozen", "crash-consistent", "shut off"
CONSISTENCIES = (FROZEN, CRASH_CONSISTENT, SHUT_OFF)
BOOTED, READ_BACK, FAILED = "booted", "read back", "failed"
PROOFS = (BOOTED, READ_BACK, FAILED)
FORMATS = ("qcow2", "raw")

MANIFEST, DOMAIN, NVRAM, TPM, SEED = "manifest.json", "domain.xml", "nvram", "tpm.tar", "seed.json"
REPORT, SCREEN = "report.json", "screen.png"
_FILES = (DOMAIN, NVRAM, TPM, SEED)

MOST_COMMENT = 64 * 1024  # bytes; an argument of a program has at most 128 KiB
MOST_MANIFEST = 1024 * 1024
_MOST_DISKS = 256
_MOST_BYTES = 1 << 63
_MOST_TEXT = 1024  # characters of a name or of how something was proven
_KEY = "fleet.virt"
AHEAD = timedelta(minutes=10)  # by which clocks may differ

_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_MOMENT_SHAPE = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z")
_PROOF = ".proof."
_CHECKPOINT = re.compile(r"(.+)\.checkpoint(?:\.[0-9]{1,9})?")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TARGET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ArchiveError(FleetVirtError):
    """A name or document of an archive that is none of ours, or that could not be read back."""


@dataclass(frozen=True)
class SavedDisk:
    """A disk in an archive: ``size`` is what the guest sees in bytes, ``format`` that of its
    volume."""

    target: str
    size: int
    format: str

    @property
    def path(self) -> str:
        """Its content in the archive."""
        return disk_path(self.target)


@dataclass(frozen=True)
class Backup:
    """What an archive is of: its comment, and the head of its manifest."""

    vm: str
    uuid: str
    host: str
    at: str
    consistency: str
    disks: tuple[SavedDisk, ...]

    @property
    def archive(self) -> str:
        """The archive's name."""
        return self.at


@dataclass(frozen=True)
class SavedFile:
    """A file in an archive."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class LeftOut:
    """A disk that the VM had at that moment, and why it is neither saved nor in the definition."""

    target: str
    why: str

    def __str__(self) -> str:
        return f"{self.target}: {self.why}"


@dataclass(frozen=True)
class OneFile:
    """A disk that had its data in another file, and is one file in the archive."""

    target: str
    data: str

    def __str__(self) -> str:
        return f"{self.target}: its data are in {self.data}"


@dataclass(frozen=True)
class Manifest:
    """All that is in an archive, the manifest itself aside, the disks that are not, and those that
    are in it otherwise."""

    backup: Backup
    files: tuple[SavedFile, ...]
    left_out: tuple[LeftOut, ...] = ()
    one_file: tuple[OneFile, ...] = ()

    def file(self, path: str) -> SavedFile | None:
        """The file of that path."""
        return next((file for file in self.files if file.path == path), None)


@dataclass(frozen=True)
class ArchiveProof:
    """What verifying an archive (``of``) found at a moment.

    ``archive_id`` is borg's id of that archive; None in proofs of releases that named it only.
    """

    proof: str
    of: str
    at: str
    how: str
    archive_id: str | None = None

    @property
    def archive(self) -> str:
        """The name of the archive that holds the proof."""
        return proof_name(self.of, self.at)


def moment(at: datetime) -> str:
    """A moment as archives are named."""
    return at.astimezone(timezone.utc).strftime(_MOMENT)


def parse_moment(text: str) -> datetime | None:
    """The moment that a name says, None if it is none."""
    if not _MOMENT_SHAPE.fullmatch(text):
        return None
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def is_ahead(name: str, now: datetime) -> bool:
    """Whether a moment is later than ``now``, by more than clocks may differ."""
    at = parse_moment(name)
    return at is not None and at > now + AHEAD


def parse_id(value: object) -> str | None:
    """borg's id of an archive, a digest of all that it says and holds; None if it is none."""
    return value if isinstance(value, str) and _SHA256.fullmatch(value) else None


def is_backup(name: str) -> bool:
    """Whether an archive of that name is a VM's, and neither a proof nor a checkpoint of borg."""
    return parse_moment(name) is not None


def proof_name(of: str, at: str) -> str:
    """The name of the archive with a proof of the archive ``of``."""
    return f"{of}{_PROOF}{at}"


def parse_proof(name: str) -> tuple[str, str] | None:
    """Of which archive and moment an archive of that name is the proof, None if it is none."""
    of, _dot, at = name.partition(_PROOF)
    return (of, at) if is_backup(of) and is_backup(at) else None


def parse_checkpoint(name: str) -> str | None:
    """The moment of the backup or proof whose unfinished archive has that name, None if none has.

    borg makes them while it saves, and removes them unless it is killed.
    """
    match = _CHECKPOINT.fullmatch(name)
    if match is None:
        return None
    proof = parse_proof(match[1])
    return proof[1] if proof else match[1] if is_backup(match[1]) else None


def is_uuid(text: str) -> bool:
    """Whether a repository may have that name."""
    return _UUID.fullmatch(text) is not None


def disk_path(target: str) -> str:
    """Where the content of a disk is in an archive."""
    return f"disks/{target}.raw"


def comment(backup: Backup) -> str:
    """The comment of a VM's archive; raises ArchiveError for one that would not be read back."""
    text = _one_line(_head(backup))
    if read_comment(text) != backup:
        raise ArchiveError(f"the comment of {backup.at} would not be read back as it is written")
    return text


def read_comment(text: str) -> Backup:
    """The comment of a VM's archive; raises ArchiveError for anything else."""
    return _Document(text, "the comment", MOST_COMMENT).backup()


def proof_comment(proof: ArchiveProof) -> str:
    """The comment of a proof; raises ArchiveError for one that would not be read back."""
    document = {_KEY: VERSION, "proof": proof.proof, "of": proof.of, "at": proof.at}
    bound = {} if proof.archive_id is None else {"id": proof.archive_id}
    text = _one_line({**document, "how": proof.how, **bound})
    if read_proof(text) != proof:
        raise ArchiveError(f"the proof of {proof.of} would not be read back as it is written")
    return text


def read_proof(text: str) -> ArchiveProof:
    """The comment of a proof; raises ArchiveError for anything else."""
    document = _Document(text, "the proof", MOST_COMMENT)
    return ArchiveProof(
        document.choice("proof", PROOFS),
        document.moment("of"),
        document.moment("at"),
        document.text("how"),
        None if document.value("id") is None else document.matching("id", _SHA256),
    )


def manifest(content: Manifest) -> str:
    """The text of a manifest; raises ArchiveError for one that would not be read back."""
    files = [{"path": f.path, "size": f.size, "sha256": f.sha256} for f in content.files]
    document = {**_head(content.backup), "files": files}
    if content.left_out:
        document["left_out"] = [{"target": one.target, "why": one.why} for one in content.left_out]
    if content.one_file:
        joined = content.one_file
        document["one_file"] = [{"target": one.target, "data": one.data} for one in joined]
    text = json.dumps(document, indent=1) + "\n"
    if read_manifest(text) != content:
        raise ArchiveError(f"the manifest of {content.backup.at} would not be read back")
    return text


def read_manifest(text: str) -> Manifest:
    """A manifest; raises ArchiveError unless it names a definition, every disk once and nothing
    that no archive has."""
    document = _Document(text, MANIFEST, MOST_MANIFEST)
    backup = document.backup()
    files = tuple(
        SavedFile(entry.text("path"), entry.size("size"), entry.matching("sha256", _SHA256))
        for entry in document.entries("files", _MOST_DISKS + len(_FILES))
    )
    paths = [file.path for file in files]
    disks = {disk.path for disk in backup.disks}
    for path in paths:
        if path not in disks and path not in _FILES:
            raise ArchiveError(f"{MANIFEST}: {path[:64]!r} is no file of an archive")
    missing = ({DOMAIN} | disks) - set(paths)
    if missing or len(set(paths)) != len(paths):
        what = f"{min(missing)} is missing" if missing else "a file is named twice"
        raise ArchiveError(f"{MANIFEST}: {what}")
    for disk in backup.disks:
        if any(file.path == disk.path and file.size != disk.size for file in files):
            raise ArchiveError(f"{MANIFEST}: {disk.path} has another size than the disk")
    left_out = tuple(
        LeftOut(entry.matching("target", _TARGET), entry.text("why"))
        for entry in document.entries("left_out", 2 * _MOST_DISKS)
    )
    one_file = tuple(
        OneFile(entry.matching("target", _TARGET), entry.text("data"))
        for entry in document.entries("one_file", _MOST_DISKS)
    )
    return Manifest(backup, files, left_out, one_file)


def _head(backup: Backup) -> dict[str, object]:
    disks = [{"target": d.target, "size": d.size, "format": d.format} for d in backup.disks]
    return {
        _KEY: VERSION,
        "vm": backup.vm,
        "uuid": backup.uuid,
        "host": backup.host,
        "at": backup.at,
        "consistency": backup.consistency,
        "disks": disks,
    }


def _one_line(document: t.Mapping[str, object]) -> str:
    return json.dumps(document, separators=(",", ":"))


class _Document:
    """A JSON object whose values are read one by one; ArchiveError names what is wrong."""

    def __init__(self, text: str, what: str, most: int) -> None:
        self._what = what
        if len(text.encode("utf-8", "replace")) > most:
            self.refuse(f"it has more than {most} bytes")
        try:
            self._values: object = json.loads(text, parse_constant=lambda name: name)
        except (ValueError, RecursionError):
            self.refuse("it is not JSON")
        if not isinstance(self._values, dict) or self._values.get(_KEY) != VERSION:
            self.refuse(f"it is not one of fleet.virt in version {VERSION}")

    def refuse(self, why: str) -> t.NoReturn:
        raise ArchiveError(f"{self._what}: {why}")

    def value(self, key: str) -> object:
        return self._values.get(key) if isinstance(self._values, dict) else None

    def text(self, key: str) -> str:
        value = self.value(key)
        if not isinstance(value, str) or not value.strip() or len(value) > _MOST_TEXT:
            self.refuse(f"{key} is not text of 1 to {_MOST_TEXT} characters")
        return value

    def matching(self, key: str, shape: re.Pattern[str]) -> str:
        value = self.text(key)
        if not shape.fullmatch(value):
            self.refuse(f"{key} is {value[:64]!r}, which none is")
        return value

    def moment(self, key: str) -> str:
        value = self.text(key)
        if parse_moment(value) is None:
            self.refuse(f"{key} is {value[:64]!r}, and not a moment as 2026-11-28T06:51:18Z")
        return value

    def choice(self, key: str, choices: t.Sequence[str]) -> str:
        value = self.text(key)
        if value not in choices:
            self.refuse(f"{key} is {value[:64]!r}, and none of {', '.join(choices)}")
        return value

    def size(self, key: str) -> int:
        value = self.value(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST_BYTES:
            self.refuse(f"{key} is not a number of bytes")
        return value

    def entries(self, key: str, most: int) -> list[_Document]:
        values = self.value(key)
        # most have none of these, and those of 0.1.0 no such list
        if key in ("left_out", "one_file") and values is None:
            return []
        if not isinstance(values, list) or len(values) > most:
            self.refuse(f"{key} is not a list of at most {most}")
        return [_Entry(value, f"{self._what}: {key}[{i}]") for i, value in enumerate(values)]

    def backup(self) -> Backup:
        disks = tuple(
            SavedDisk(
                entry.matching("target", _TARGET),
                entry.size("size"),
                entry.choice("format", FORMATS),
            )
            for entry in self.entries("disks", _MOST_DISKS)
        )
        if len({disk.target for disk in disks}) != len(disks):
            self.refuse("a disk is named twice")
        return Backup(
            self.text("vm"),
            self.matching("uuid", _UUID),
            self.text("host"),
            self.moment("at"),
            self.choice("consistency", CONSISTENCIES),
            disks,
        )


class _Entry(_Document):
    """A member of a list in a document."""

    def __init__(self, value: object, what: str) -> None:
        self._what = what
        if not isinstance(value, dict):
            self.refuse("it is not a mapping")
        self._values = value
