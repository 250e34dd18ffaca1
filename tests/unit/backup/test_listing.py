# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a repository says is read: its own archives, their proofs, and what only looks like one."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    keep,
    listing,
    report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import (
    ArchiveError,
    ArchiveProof,
)
from ansible_collections.fleet.virt.tests.unit.backup._made import OTHER, UUID, at, of


def _listed(**comments: str) -> str:
    entries = [{"name": name, "comment": comment} for name, comment in comments.items()]
    return json.dumps({"archives": entries})


def _read(comments: dict[str, str], informed: str | None = None) -> listing.Repository:
    return listing.read("/srv/backup", UUID, _listed(**comments), informed)


def _proof(day: int, proof: str, hour: int) -> tuple[str, str]:
    found = ArchiveProof(proof, at(day), at(day, hour), "login:")
    return found.archive, archives.proof_comment(found)


def test_newest_proof_says_what_is_known() -> None:
    comments = {at(day): archives.comment(of(at(day))) for day in (1, 2, 3, 4)}
    comments.update(
        [
            _proof(2, archives.READ_BACK, 5),
            _proof(3, archives.FAILED, 5),
            _proof(3, archives.BOOTED, 6),
            _proof(4, archives.BOOTED, 5),
            _proof(4, archives.FAILED, 6),
        ]
    )
    repository = _read(comments)
    states = [vm.state for vm in repository.vms]
    assert states == ["listed and complete", "read back", "proven", "failed"]
    assert [vm.is_proven for vm in repository.vms] == [False, False, True, False]
    assert not repository.problems


def test_proven_backup_that_is_read_back_later_stays_proven_and_kept() -> None:
    results = {
        1: [archives.BOOTED, archives.READ_BACK],
        2: [archives.BOOTED, archives.FAILED, archives.READ_BACK],
        3: [archives.READ_BACK],
    }
    comments = {at(day): archives.comment(of(at(day))) for day in results}
    for day, proofs in results.items():
        comments.update([_proof(day, proof, 5 + hour) for hour, proof in enumerate(proofs)])
    repository = _read(comments)
    assert [vm.state for vm in repository.vms] == ["proven", "read back", "read back"]
    pruning = keep.plan(repository, keep.Policy({"last": 1}))
    assert pruning.kept == {at(3): "last 1", at(1): keep.LAST_PROVEN}
    assert set(pruning.deleted) == {name for name in comments if name.startswith(at(2))}


def test_archive_that_is_not_what_its_name_says_is_named_and_no_backup() -> None:
    comments = {
        at(1): archives.comment(of(at(2))),
        at(2): archives.comment(of(at(2), uuid=OTHER)),
        at(3): "",
        f"{at(4)}.proof.{at(5)}": archives.comment(of(at(4))),
        at(6): archives.comment(of(at(6))),
        "home": "",
        f"{at(7)}.checkpoint": "",
    }
    repository = _read(comments)
    assert [vm.archive for vm in repository.vms] == [at(6)]
    assert list(repository.unreadable) == [f"{at(4)}.proof.{at(5)}", at(1), at(2), at(3)]
    assert set(repository.names) == set(comments)


def test_added_bytes_are_those_of_borg() -> None:
    comments = {at(1): archives.comment(of(at(1))), at(2): archives.comment(of(at(2)))}
    stats = {"name": at(1), "stats": {"deduplicated_size": 5_000_000}}
    repository = _read(comments, json.dumps({"archives": [stats, {"name": at(2)}]}))
    assert [vm.added for vm in repository.vms] == [5_000_000, None]
    row = report.text(report.data([repository])).splitlines()[1].split()
    assert row[:4] == ["web1", at(1), "1.0G", "5.0M"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"archives": 1}', "[" * 100_000])
def test_text_that_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ArchiveError):
        listing.read("/srv/backup", UUID, text)


def test_vm_is_selected_by_any_of_its_names() -> None:
    comments = {
        at(1): archives.comment(of(at(1), vm="old1")),
        at(2): archives.comment(of(at(2), vm="web1")),
    }
    repository = _read(comments)
    unread = listing.unread("/srv/backup", OTHER, "locked")
    for name in ("old1", "web1", "web*", UUID, UUID.upper()):
        assert report.select([repository], [name]) == [repository], name
    assert report.select([repository, unread], ["web1"]) == [repository, unread]
    with pytest.raises(FleetVirtError, match=f"no backup of db1 .*{OTHER}"):
        report.select([repository, unread], ["db1", "web1"])


def test_csv_has_a_line_for_what_could_not_be_read() -> None:
    unread = listing.unread("/srv/backup", OTHER, "locked")
    comments = {at(1): archives.comment(of(at(1)))}
    comments.update([_proof(1, archives.BOOTED, 5)])
    lines = report.records(report.data([_read(comments), unread])).splitlines()
    assert lines[0].startswith("place,uuid,vm,archive,at,hypervisor,")
    assert lines[1].endswith(f"proven,booted,{at(1, 5)},login:,")
    assert lines[2] == f"/srv/backup,{OTHER}" + "," * 12 + "locked"
