# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of a move whose source is declared lost, from what its destination has."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    Move,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import lost_source
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.lost_source import (
    ABSENT,
    ALIVE,
    CLEAR,
    COMING,
    DEFINE,
    DEFINED,
    FINISH,
    KEEP,
    LIVE,
    NOTHING,
    OTHER,
    WAIT,
    LostMoveFacts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.options import moves
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.report import report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import LostSource

MARKED = {"marks": True, "phase": True}
CLAIMED = {"claim": True, "same": True}

CASES: dict[str, tuple[LostMoveFacts, str]] = {
    "arrived, before its claim went": (LostMoveFacts(DEFINED, **MARKED, **CLAIMED), FINISH),
    "arrived, only its marks are left": (LostMoveFacts(DEFINED, **MARKED), FINISH),
    "defined by a run that ended before the claim went": (
        LostMoveFacts(DEFINED, **CLAIMED),
        FINISH,
    ),
    "runs, and is not defined": (LostMoveFacts(LIVE, **CLAIMED), DEFINE),
    "runs, with its memory partly at the source": (LostMoveFacts(LIVE, **CLAIMED, job=True), WAIT),
    "arrived, and libvirt is at work on it": (LostMoveFacts(DEFINED, **MARKED, job=True), WAIT),
    "waits for its memory": (LostMoveFacts(COMING, **CLAIMED, job=True), WAIT),
    "waits for its memory, and libvirt has no job": (LostMoveFacts(COMING, **CLAIMED), WAIT),
    "not there, nothing was copied": (LostMoveFacts(claim=True), CLEAR),
    "not there, something was copied": (LostMoveFacts(claim=True, written=True), KEEP),
    "another VM of that name": (LostMoveFacts(DEFINED, claim=True), OTHER),
    "another VM of that name, which waits for its memory": (
        LostMoveFacts(COMING, claim=True),
        OTHER,
    ),
    "the VM, and another run is at work on it": (
        LostMoveFacts(DEFINED, phase=True, **CLAIMED),
        OTHER,
    ),
    "settled": (LostMoveFacts(DEFINED), NOTHING),
    "settled, and in another move": (LostMoveFacts(DEFINED, phase=True), NOTHING),
    "nothing is there": (LostMoveFacts(), NOTHING),
    "arrived, and the source answers": (LostMoveFacts(DEFINED, **MARKED, answers=True), ALIVE),
    "not there, and the source answers": (LostMoveFacts(claim=True, answers=True), ALIVE),
}


@pytest.mark.parametrize(("seen", "expected"), CASES.values(), ids=CASES.keys())
def test_cases(seen: LostMoveFacts, expected: str) -> None:
    assert lost_source.action(seen) == expected


def test_whatever_is_seen() -> None:
    """Of all that can be seen: a copy that holds something is never cleared away, a VM that waits
    for its memory or is not known to be the one is never touched, nor is any while the source
    answers."""
    flags = ("marks", "phase", "claim", "same", "job", "written", "answers")
    for place in (ABSENT, COMING, LIVE, DEFINED):
        for values in itertools.product((False, True), repeat=len(flags)):
            seen = LostMoveFacts(place, **dict(zip(flags, values)))
            what = lost_source.action(seen)
            touched = what in (FINISH, DEFINE, CLEAR)
            assert not (touched and seen.answers)
            assert what not in (CLEAR, KEEP) or place == ABSENT
            assert what != CLEAR or not seen.written
            assert what not in (FINISH, DEFINE) or (
                place in (LIVE, DEFINED) and (seen.marks or seen.same) and not seen.job
            )
            assert what != NOTHING or not (seen.marks or seen.claim)


def test_what_is_said_of_a_vm_that_is_lost() -> None:
    kept = [("/images/web1_system.qcow2", 5 << 20)]
    text = lost_source.gone("web1", "hv1", "hv2", kept, check=False)
    assert text.startswith("it had not arrived on hv2, so it is lost with hv1. ")
    assert "stays on hv2 and is not started" in text
    assert "/images/web1_system.qcow2 (5 MiB)" in text
    assert "Restore it from a backup, or from the disks of hv1" in text
    assert "virsh undefine web1.migration; virsh vol-delete" in text
    for check, word in ((True, "would be removed"), (False, "was removed")):
        text = lost_source.gone("web1", "hv1", "hv2", [], check=check)
        assert f"its claim on hv2 {word}. Restore it" in text
        assert "vol-delete" not in text


def test_what_is_said_of_its_remains() -> None:
    text = lost_source.remains("web1", "hv1", ["/images/a"])
    assert "may still have its old definition and disks (/images/a). It does not start" in text
    assert "if hv1 comes back, do not start it there" in text
    assert "its old definition. It does not start" in lost_source.remains("web1", "hv1", [])


def test_what_is_kept_with_one_that_has_come_to_stay() -> None:
    volumes = tuple(
        OwnVolume("default", f"{name}.qcow2", f"/images/{name}.qcow2", "vda", "disk", "yes")
        for name in ("copied", "shared")
    )
    move = Move("hv1", "hv2", "r", "no", "running")
    kept = Metadata(
        phase="migrating", move=move, volumes=volumes, request="{}", evacuated_from=("hv2", "hv1")
    )
    path = volumes[0].path
    found = metadata.after_move(kept, "hv2", {path: "other"}, {path})
    assert (found.phase, found.move, found.owner, found.request) == (None, None, None, "{}")
    assert [(one.pool, one.made) for one in found.volumes] == [("other", ""), ("default", "yes")]
    assert found.evacuated_from == ()


GIVEN: dict[str, t.Any] = {
    "name": "web1",
    "destination": {"name": "hv2"},
    "lost_source": {"name": "hv1", "addresses": ["192.0.2.1"]},
}


def test_options() -> None:
    ((name, to, lost),) = moves([GIVEN], "hv2", repair=True)
    assert (name, to.name, lost) == ("web1", "hv2", LostSource("hv1", ("192.0.2.1",)))
    ((_name, _to, lost),) = moves([{**GIVEN, "lost_source": None}], "hv1", repair=True)
    assert lost is None


@pytest.mark.parametrize(
    ("here", "repair", "gone", "text"),
    [
        ("hv2", False, "hv1", "only with state: repaired"),
        ("hv1", True, "hv3", "'web1' was to go to hv2, and this is hv1; run it there"),
        ("hv2", True, "hv2", "hv2 runs this; leave lost_source out"),
    ],
)
def test_bad_options(here: str, repair: bool, gone: str, text: str) -> None:
    given = {**GIVEN, "lost_source": {"name": gone, "addresses": []}}
    with pytest.raises(SpecError, match=text):
        moves([given], here, repair=repair)


def entry(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "name": "web1",
        "flow": "finish",
        "changed": True,
        "failed": False,
        "msg": None,
        "bytes": None,
        "bytes_to_copy": 0,
        "seconds": None,
        "downtime_ms": None,
        **changes,
    }


@pytest.mark.parametrize(
    ("said", "check", "word", "failed"),
    [
        (entry(note="hv1 still has"), False, "moved (finish)", False),
        (entry(), True, "would move (finish)", False),
        (entry(flow="lost", failed=True, msg="it is lost with hv1"), False, "lost", True),
        (entry(flow="lost", failed=True, msg="it is lost with hv1"), True, "lost", True),
        (entry(flow=None, changed=False, failed=True, msg="waits"), False, "failed", True),
        (None, False, "failed", True),
    ],
)
def test_every_name_has_an_outcome(
    said: dict[str, t.Any] | None, check: bool, word: str, failed: bool
) -> None:
    shares = {"hv2": [GIVEN]}
    answers = {"hv2": {"vms": [said] if said else []}}
    text, failures = report([], shares, answers, state="repaired", check=check)
    row = next(line.split() for line in text.splitlines() if line.startswith("web1"))
    assert row[:3] == ["web1", "hv1", "hv2"]
    assert " ".join(row[3:]).startswith(word)
    assert bool(failures) == failed
    assert not failures or failures[0].startswith("web1 on hv2: ")
