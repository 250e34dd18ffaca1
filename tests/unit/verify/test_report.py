# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was found is recorded beside its backup by borg, and shown without a guest's scripts."""

from __future__ import annotations

import base64
import json
import re
import typing as t
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    effects_borg,
    effects_prune,
    keep,
    places,
    read_repositories,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import ArchiveError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import png
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import effects_record
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.options import SavedArchive
from ansible_collections.fleet.virt.plugins.plugin_utils.verify import _page
from ansible_collections.fleet.virt.plugins.plugin_utils.verify._report import Reporter
from ansible_collections.fleet.virt.tests.unit.backup import _made
from ansible_collections.fleet.virt.tests.unit.backup._made import UUID, at

_EVIL = "<script>alert(1)</script>\" onerror='x' {{ lookup('pipe', 'id') }}"
_PPM = b"P6\n2 1\n255\n" + bytes(6)


def _reporter(place: Path, *, check: bool = False, **more: t.Any) -> Reporter:
    vms = {
        f"{UUID}::{at(day)}": SavedArchive(f"{UUID}::{at(day)}", "web1", UUID, at(day))
        for day in (1, 2, 3)
    }
    given = {"shares": {"hv2": list(vms)}, "unbootable": {}, "damaged": {}, "notes": (), **more}
    return Reporter(
        place=places.parse(str(place)),
        access=_made.hypervisor(place.parent),
        vms=vms,
        check=check,
        **given,
    )


def _proven(day: int, proof: str | None, how: str = "agent: web1 after 9 s") -> dict[str, t.Any]:
    screen = base64.b64encode(png.from_screen(_PPM).content).decode()
    return {
        "name": f"{UUID}::{at(day)}",
        "changed": True,
        "failed": proof is None,
        "msg": "cut off" if proof is None else None,
        "steps": [],
        "proof": proof,
        "how": how,
        "seconds": 9,
        "screen": screen if proof else None,
    }


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    _made.make(folder, _made.hypervisor(tmp_path), [at(1), at(2), at(3)])
    return folder


def test_recorded_proof_is_kept_by_pruning(place: Path) -> None:
    reporter = _reporter(place)
    answers: t.Any = {
        "hv2": {
            "vms": [
                _proven(1, archives.BOOTED),
                _proven(2, archives.FAILED, f"does not boot: {_EVIL}"),
                _proven(3, None),
            ]
        }
    }
    verified = reporter.verified(answers)
    assert [entry["state"] for entry in verified] == ["proven", "failed", "listed and complete"]
    assert [entry["failed"] for entry in verified] == [False, True, True]
    assert [bool(entry["recorded"]) for entry in verified] == [True, True, False]
    first, second = reporter.failures(verified)
    assert "does not boot" in first
    assert "cut off" in second
    backups = read_repositories.repository(reporter.place, UUID, reporter.access)
    assert [vm.state for vm in backups.vms] == ["proven", "failed", "listed and complete"]
    assert backups.vms[0].proof is not None
    assert backups.vms[0].proof.how == "agent: web1 after 9 s, on hv2"
    recorded = f"{reporter.place.repository(UUID)}::{verified[0]['recorded']}"
    listed = effects_borg.run(reporter.access, ["list", "--short", recorded]).out.split()
    assert listed == [archives.REPORT, archives.SCREEN]
    report = effects_borg.run(reporter.access, ["extract", "--stdout", recorded, archives.REPORT])
    assert json.loads(report.out)["how"] == "agent: web1 after 9 s"
    # pruning keeps it, with its proof, though no rule does
    pruning = keep.plan(backups, keep.Policy({"last": 1}))
    assert pruning.kept[at(1)] == keep.LAST_PROVEN
    after = effects_prune.prune(reporter.place, backups, pruning, reporter.access)
    assert {vm.archive for vm in after.vms} == {at(1), at(3)}
    assert after.vms[0].is_proven
    assert not [name for name in after.names if name.startswith(at(2))]


def test_backup_that_was_deleted_meanwhile_has_no_proof(place: Path) -> None:
    access, where = _made.hypervisor(place.parent), places.parse(str(place))
    with pytest.raises(ArchiveError, match="was deleted meanwhile"):
        effects_record.record(where, access, UUID, (at(9), None, archives.FAILED, "x"), {}, None)
    known = (at(1), "ab" * 32, archives.FAILED, "x")
    with pytest.raises(ArchiveError, match="was replaced by another"):
        effects_record.record(where, access, UUID, known, {}, None)
    assert _made.listed(where.repository(UUID), access) == [at(1), at(2), at(3)]


def test_check_mode_says_where_and_records_nothing(place: Path) -> None:
    name = f"{UUID}::{at(2)}"
    reporter = _reporter(place, check=True, unbootable={name: "no memory"})
    verified = reporter.verified({})
    assert [entry["state"] for entry in verified] == [
        "would be proven",
        "would be read back",
        "would be proven",
    ]
    assert {entry["hypervisor"] for entry in verified} == {"hv2"}
    assert _made.listed(f"{place}/{UUID}", reporter.access) == [at(1), at(2), at(3)]


def test_damaged_backup_is_recorded_as_failed_with_its_name(place: Path) -> None:
    name = f"{UUID}::{at(2)}"
    reporter = _reporter(place, shares={}, damaged={name: "Data integrity error"})
    (entry,) = reporter.verified({})
    assert (entry["state"], entry["archive"]) == ("failed", at(2))
    assert reporter.failures([entry]) == [f"web1: {at(2)}: Data integrity error"]


class _Tags(HTMLParser):
    """The elements of a page with the names of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _value in attrs)))


def test_page_has_no_script_of_a_guest(place: Path) -> None:
    reporter = _reporter(place, check=True)
    entry = reporter.proven(f"{UUID}::{at(1)}", "hv2", _proven(1, archives.BOOTED, _EVIL), None)  # type: ignore[arg-type]
    entry = {**entry, "name": _EVIL, "hypervisor": _EVIL}
    page = _page.page([entry], reporter.screens)
    tags = _Tags()
    tags.feed(page)
    assert not {name for name, _attributes in tags.seen} & {"script", "a", "iframe", "link"}
    assert not {key for _name, keys in tags.seen for key in keys if key.startswith("on")}
    assert ("img", ("src", "alt")) in tags.seen
    assert page.count("data:image/png;base64,") == 1
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)


def test_picture_that_is_none_is_not_shown(place: Path) -> None:
    reporter = _reporter(place, check=True)
    given = {**_proven(1, archives.BOOTED), "screen": base64.b64encode(b"<svg/>").decode()}
    entry = reporter.proven(f"{UUID}::{at(1)}", "hv2", given, None)  # type: ignore[arg-type]
    assert not entry["screenshot"]
    assert not reporter.screens
    assert "was not saved" in str(entry["msg"])
