# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which member has its cell manage a VM again, and when none may."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import effects_hold, repairs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import CellView, CellVm

UUID = "5f0c1b8e-8a57-4f43-9a39-3a1f9cbe1c11"
HELD = CellVm(UUID, "/srv/shared", ("hv1",), False, False, None, "Started", "hv1")
ALL = ("hv1", "hv2", "hv3")
VIEW = CellView("rack1", ALL, True, True, frozenset(ALL))
WITHOUT = dataclasses.replace(VIEW, online=frozenset(("hv2", "hv3")))
LOST = dataclasses.replace(WITHOUT, unclean=frozenset(("hv1",)))


@pytest.mark.parametrize(
    ("view", "by", "who"),
    [
        (VIEW, "hv1", ["hv1"]),
        (WITHOUT, "hv1", ["hv1", "hv2", "hv3"]),
        (VIEW, None, []),  # set by hand
    ],
)
def test_vm_is_repaired_where_the_run_was_or_that_is_off(
    view: CellView, by: str | None, who: list[str]
) -> None:
    vm = dataclasses.replace(HELD, by=by)
    assert [host for host in ALL if repairs.may(vm, host, view)] == who
    assert repairs.problem(vm, view) is None


def test_vm_held_by_member_that_is_not_proven_off_is_refused() -> None:
    assert "stonith_admin --confirm hv1" in (repairs.problem(HELD, LOST) or "")


def _entry(uuid: str, by: str | None = "hv1") -> t.Any:
    return {"name": "ha1", "uuid": uuid, "held_by": by, "problem": None, "at_work": False}


def test_each_vm_is_repaired_by_a_single_hypervisor() -> None:
    entries = {"hv2": [_entry("a"), _entry("b", "hv3")], "hv1": [_entry("a")], "hv3": []}
    assert repairs.assigned(entries) == {"hv1": [_entry("a")], "hv2": [_entry("b", "hv3")]}


def test_vm_is_held_as_long_as_its_process_lives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any
) -> None:
    monkeypatch.setattr(effects_locks, "own_folder", lambda: tmp_path)
    assert not effects_hold.is_held(UUID)
    program = (
        f"import fcntl, os, sys; d = os.open({str(tmp_path / f'cell-{UUID}.lock')!r}, os.O_RDWR);"
        " fcntl.flock(d, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert effects_hold.is_held(UUID)
        other.kill()
        other.wait()
    assert not effects_hold.is_held(UUID)
    assert os.listdir(tmp_path) == [f"cell-{UUID}.lock"]
