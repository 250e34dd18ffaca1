# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken for left by a proof, and what is another hypervisor's."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import (
    definition,
    read,
    read_saved,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.options import (
    ARGUMENTS,
    VerifyOptions,
)

UUID = "0e4a6c1e-6a0f-4c55-9b5c-0d1f6a2b3c4d"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with what a proof has there."""
    (tmp_path / definition.name_of(UUID)).mkdir()
    return tmp_path


def _options(folder: Path) -> VerifyOptions:
    options: dict[str, t.Any] = {name: row.get("default") for name, row in ARGUMENTS.items()}
    return t.cast("VerifyOptions", {**options, "folder": str(folder)})


def test_folder_of_a_proof_that_is_over_is_left(place: Path) -> None:
    with connect("test:///default", 10) as connection:
        assert read.left(connection, str(place)) == [UUID]


def test_proof_in_folder_that_others_have_is_no_remains(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read.file_systems, "is_shared", lambda folder: folder == str(place))
    with connect("test:///default", 10) as connection:
        assert read.left(connection, str(place)) == []


def test_nothing_is_proven_in_folder_that_others_have(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read.file_systems, "is_shared", lambda folder: folder == str(place))
    with (
        connect("test:///default", 10) as connection,
        pytest.raises(PlanRefused, match=r"virt_proof_folder.* on storage that other"),
    ):
        read.look(connection, _options(place), [])


@pytest.mark.parametrize(
    ("definition_text", "said"),
    [
        ("<domain/>", "no disk vda; no name; no uuid"),
        ("<domain", "restoring would refuse it"),
    ],
)
def test_archive_that_restoring_refuses_has_failed(definition_text: str, said: str) -> None:
    disks = (archives.SavedDisk("vda", 1, "raw"),)
    backup = archives.Backup("web1", "u", "hv1", "x", archives.SHUT_OFF, disks)
    with pytest.raises(archives.ArchiveError, match=said):
        read_saved.require_restorable(definition_text, archives.Manifest(backup, ()))
