# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives and places: what is written is read, and nothing else is."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives, places
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import (
    ArchiveError,
    ArchiveProof,
    Backup,
    Manifest,
    SavedDisk,
    SavedFile,
)

UUID = "6f0c8a52-2f60-4b1c-9d3e-0d9a6f3f7d10"
AT = "2026-11-28T06:51:18Z"
LATER = "2026-11-28T08:00:00Z"
DISKS = (SavedDisk("vda", 1 << 30, "qcow2"), SavedDisk("vdb", 4096, "raw"))
BACKUP = Backup("web1", UUID, "hv1", AT, archives.FROZEN, DISKS)
FILES = tuple(
    SavedFile(path, size, "0" * 64)
    for path, size in (
        ("domain.xml", 2000),
        ("disks/vda.raw", 1 << 30),
        ("disks/vdb.raw", 4096),
        ("nvram", 131072),
    )
)
MANIFEST = Manifest(BACKUP, FILES)
PROOF = ArchiveProof(archives.BOOTED, AT, LATER, "console: web1 login:")


def test_archive_name_is_the_moment_in_utc() -> None:
    east = datetime(2026, 11, 28, 8, 51, 18, tzinfo=timezone(timedelta(hours=2)))
    assert archives.moment(east) == AT
    assert archives.parse_moment(AT) == east


@pytest.mark.parametrize(
    "name",
    [
        "2026-11-28T06:51:18Z.checkpoint",
        "2026-11-28T06:51:18Z.checkpoint.1",
        "2026-11-28T06:51:18",
        "2026-13-28T06:51:18Z",
        "2026-11-28T06:51:18Z\n",
        "\u0662026-11-28T06:51:18Z",
        "turn.2026-11-28",
        "",
    ],
)
def test_name_of_other_archive_is_no_backup(name: str) -> None:
    assert not archives.is_backup(name)


def test_proof_name_says_of_what_and_when() -> None:
    assert PROOF.archive == f"{AT}.proof.{LATER}"
    assert archives.parse_proof(PROOF.archive) == (AT, LATER)
    assert not archives.is_backup(PROOF.archive)


@pytest.mark.parametrize(
    "name", [AT, f"{AT}.proof.", f"x.proof.{AT}", f"{AT}.proof.{AT}.proof.{AT}"]
)
def test_name_of_other_archive_is_no_proof(name: str) -> None:
    assert archives.parse_proof(name) is None


def test_comment_is_read_as_it_was_written() -> None:
    text = archives.comment(BACKUP)
    assert "\n" not in text
    assert archives.read_comment(text) == BACKUP


def test_comment_as_the_design_shows_it_is_read() -> None:
    text = (
        '{"fleet.virt": 1, "vm": "web1", "uuid": "' + UUID + '", "host": "hv1", "at": "' + AT + '",'
        ' "consistency": "shut off", "disks": [{"target": "vda", "size": 5, "format": "raw"}],'
        ' "later": [1]}'
    )
    assert archives.read_comment(text).consistency == archives.SHUT_OFF


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fleet.virt": 2}, "version 1"),
        ({"vm": ""}, "vm is not text"),
        ({"vm": "x" * 1025}, "vm is not text"),
        ({"uuid": UUID.upper()}, "uuid is"),
        ({"at": "yesterday"}, "not a moment"),
        ({"consistency": "sure"}, "none of frozen"),
        ({"disks": {}}, "not a list"),
        ({"disks": [1]}, "disks[0]: it is not a mapping"),
        ({"disks": [{"target": "../x", "size": 1, "format": "raw"}]}, "target is"),
        ({"disks": [{"target": "vda", "size": -1, "format": "raw"}]}, "number of bytes"),
        ({"disks": [{"target": "vda", "size": True, "format": "raw"}]}, "number of bytes"),
        ({"disks": [{"target": "vda", "size": 1, "format": "vmdk"}]}, "none of qcow2, raw"),
        ({"disks": [{"target": "vda", "size": 1, "format": "raw"}] * 2}, "named twice"),
    ],
)
def test_comment_of_wrong_value_is_refused(change: dict[str, object], words: str) -> None:
    text = json.dumps({**json.loads(archives.comment(BACKUP)), **change})
    with pytest.raises(ArchiveError) as error:
        archives.read_comment(text)
    assert words in str(error.value)


@pytest.mark.parametrize("text", ["", "null", "[]", "{", "[" * 100_000, "{}", "x" * 70_000])
def test_text_that_is_no_comment_is_refused(text: str) -> None:
    with pytest.raises(ArchiveError):
        archives.read_comment(text)


def test_comment_that_would_not_be_read_back_is_not_written() -> None:
    with pytest.raises(ArchiveError):
        archives.comment(dataclasses.replace(BACKUP, disks=(SavedDisk("a/b", 1, "raw"),)))


def test_manifest_is_read_as_it_was_written() -> None:
    read = archives.read_manifest(archives.manifest(MANIFEST))
    assert read == MANIFEST
    assert read.file("nvram") == FILES[3]
    assert read.file("tpm.tar") is None


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (FILES[1:], "domain.xml is missing"),
        (FILES[:2], "disks/vdb.raw is missing"),
        ((*FILES, FILES[0]), "named twice"),
        ((*FILES, SavedFile("disks/../../etc/passwd", 1, "0" * 64)), "no file of an archive"),
        ((*FILES, SavedFile("/etc/passwd", 1, "0" * 64)), "no file of an archive"),
        ((*FILES[:2], SavedFile("disks/vdb.raw", 1, "0" * 64)), "another size"),
        ((*FILES[:3], SavedFile("nvram", 1, "0")), "sha256 is"),
    ],
)
def test_manifest_of_other_files_is_refused(files: tuple[SavedFile, ...], words: str) -> None:
    with pytest.raises(ArchiveError) as error:
        archives.manifest(Manifest(BACKUP, files))
    assert words in str(error.value)


def test_proof_is_read_as_it_was_written() -> None:
    assert archives.read_proof(archives.proof_comment(PROOF)) == PROOF


def test_proof_of_unknown_word_is_refused() -> None:
    with pytest.raises(ArchiveError):
        archives.proof_comment(dataclasses.replace(PROOF, proof="certain"))


@pytest.mark.parametrize(
    ("text", "repository"),
    [
        ("/srv/backup", f"/srv/backup/{UUID}"),
        ("/srv/backup/", f"/srv/backup/{UUID}"),
        ("/srv/back up", f"/srv/back up/{UUID}"),
        ("ssh://safe/srv/b", f"ssh://safe/srv/b/{UUID}"),
        ("ssh://borg@safe.example:2222/srv/b/", f"ssh://borg@safe.example:2222/srv/b/{UUID}"),
        ("ssh://borg@[fd00::1]:22/srv/b", f"ssh://borg@[fd00::1]:22/srv/b/{UUID}"),
    ],
)
def test_repository_is_below_the_place(text: str, repository: str) -> None:
    place = places.parse(text)
    assert place.repository(UUID.upper()) == repository
    assert place.is_folder is text.startswith("/")


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "/",
        "backup",
        "~/backup",
        "host:/srv/b",
        "/srv/../b",
        "/srv//b",
        "/srv/{hostname}",
        "/srv/a::b",
        "/srv/a\nb",
        "ssh://safe",
        "ssh://-oProxyCommand=x/srv/b",
        "ssh://safe:0/srv/b",
        "ssh://safe:99999/srv/b",
        "ssh://a@b@c/srv/b",
        "rest://safe/srv/b",
    ],
)
def test_other_place_is_refused(text: str | None) -> None:
    with pytest.raises(places.PlaceError) as error:
        places.parse(text)
    assert "ssh://backup@server/srv/backup" in str(error.value)
    unset = "no place of backups is known; set virt_backup_to" in str(error.value)
    assert unset is (not text), "a setting that is missing is told from one that is wrong"


def test_repository_of_no_uuid_is_refused() -> None:
    with pytest.raises(places.PlaceError):
        places.parse("/srv/backup").repository("../../etc")
