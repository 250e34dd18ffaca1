# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a repository says is read: its own archives, their proofs, and what only looks like one."""

from __future__ import annotations

import json
from datetime import datetime, timezone

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

NOW = datetime(2026, 11, 29, tzinfo=timezone.utc)


def _listed(**comments: str) -> str:
    entries = [{"name": name, "comment": comment} for name, comment in comments.items()]
    return json.dumps({"archives": entries})


def _read(comments: dict[str, str], informed: str | None = None) -> listing.Repository:
    return listing.read("/srv/backup", UUID, _listed(**comments), informed, now=NOW)


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


def _with_ids(comments: dict[str, str], ids: dict[str, str]) -> listing.Repository:
    entries = [{"name": n, "comment": c, "id": ids.get(n)} for n, c in comments.items()]
    text = json.dumps({"archives": entries})
    return listing.read("/srv/backup", UUID, text, now=NOW)


def test_proof_is_of_the_archive_with_its_id_and_an_older_proof_of_the_name() -> None:
    ids = {at(day): f"{day:02}" * 32 for day in (1, 2, 3)}
    comments = {name: archives.comment(of(name)) for name in ids}
    for day, proven in ((1, ids[at(1)]), (2, "ff" * 32), (3, None)):
        proof = ArchiveProof(archives.BOOTED, at(day), at(day, 5), "login:", proven)
        comments[proof.archive] = archives.proof_comment(proof)
    repository = _with_ids(comments, ids)
    assert [vm.state for vm in repository.vms] == ["proven", "listed and complete", "proven"]
    (note,) = repository.notes
    assert f"{at(2)}.proof.{at(2, 5)} is of another archive that had the name" in note
    assert not repository.problems
    # The proof of any archive of that name does not have the last that is proven itself deleted
    kept = keep.plan(repository, keep.Policy({"last": 1})).kept
    assert kept == {at(3): "last 1", at(1): keep.LAST_PROVEN}


def test_earlier_release_reads_a_proof_that_names_an_id() -> None:
    """It took four values of the document, and required its version."""
    proof = ArchiveProof(archives.BOOTED, at(1), at(2), "login:", "ab" * 32)
    document = json.loads(archives.proof_comment(proof))
    taken = [document[key] for key in ("proof", "of", "at", "how")]
    assert (document["fleet.virt"], *taken) == (1, "booted", at(1), at(2), "login:")
    for damaged in ("", 1, "ab", ["ab" * 32], "AB" * 32):
        with pytest.raises(ArchiveError):
            archives.read_proof(json.dumps({**document, "id": damaged}))


def test_backup_later_than_the_clock_counts_as_none_and_is_named() -> None:
    late, near = "2027-01-01T00:00:00Z", "2026-11-29T00:09:00Z"
    comments = {name: archives.comment(of(name)) for name in (at(1), at(2), near, late)}
    future = ArchiveProof(archives.FAILED, at(2), late, "x", None)
    comments[future.archive] = archives.proof_comment(future)
    repository = _read(comments)
    assert [vm.archive for vm in repository.vms] == [at(1), at(2), near]
    assert [vm.archive for vm in repository.ahead] == [late]
    assert repository.vms[1].state == "listed and complete", "its proof is of the future"
    assert len(repository.notes) == 2
    pruning = keep.plan(repository, keep.Policy({"last": 1}))
    assert pruning.kept == {near: "last 1", late: keep.AHEAD}
    data = report.data([repository], (1.0, NOW))
    assert [backup["ahead"] for backup in data[0]["backups"]] == [False, False, False, True]
    assert f"{late} is later than the clock here (2026-11-29T00:00:00Z)" in report.text(data)


def test_nineteen_archives_of_the_future_push_out_no_true_archive() -> None:
    late = [f"2027-{1 + n // 9:02}-{1 + n % 9:02}T00:00:00Z" for n in range(19)]
    true = [at(day) for day in range(1, 29)]
    alone = _read({name: archives.comment(of(name)) for name in true})
    both = _read({name: archives.comment(of(name)) for name in (*true, *late)})
    policy = keep.Policy({"last": 2, "daily": 7, "weekly": 4, "monthly": 6})
    expected = keep.plan(alone, policy)
    pruning = keep.plan(both, policy)
    assert pruning.deleted == expected.deleted
    assert pruning.kept == {**expected.kept, **dict.fromkeys(late, keep.AHEAD)}


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
        listing.read("/srv/backup", UUID, text, now=NOW)


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
