# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The switch to a bridge, killed at each step: the former configuration comes back or stays.

The scripts are run as they are; of systemd only what it was asked to start is noted.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import (
    effects_journal as journal,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import scripts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.types import (
    BridgePlan,
    FileChange,
    Switch,
)
from ansible_collections.fleet.virt.tests.unit._crash import Effects, Killed, counted

_BEFORE, _AFTER = "iface eth0 inet dhcp\n", "iface br0 inet dhcp\n"
_ID = "0123456789abcdef"


class Machine:
    """A machine with one file of network configuration, and no systemd of its own."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.config, self.added = root / "etc" / "interfaces", root / "etc" / "br0.network"
        self.folder = root / "journal"
        self.started: list[str] = []
        self.effects = Effects(root)
        for path in (root / "etc", root / "bin", self.folder.parent, root / "units"):
            path.mkdir(parents=True, exist_ok=True)
        self.config.write_text(_BEFORE)
        (root / "bin" / "systemctl").write_text("#!/bin/sh\n")
        (root / "bin" / "systemctl").chmod(0o755)
        for module in (journal, scripts):
            patch.setattr(module, "FOLDER", str(self.folder))
        patch.setattr(scripts, "BOOT_FILE", f"{root}/units/boot.service")
        patch.setattr(scripts, "BOOT_LINK", f"{root}/units/wants/boot.service")
        patch.setattr(journal, "run", self._run)
        patch.setenv("PATH", f"{root}/bin:/usr/bin:/bin")
        patch.setattr(os, "fsync", lambda _descriptor: None)
        patch.setattr(os, "sync", lambda: None)
        real = os.path.isdir
        patch.setattr(os.path, "isdir", lambda path: path == "/run/systemd/system" or real(path))

    def _run(self, words: t.Sequence[str], *, check: bool = False) -> str:
        if words[0] == "cp":
            self.effects.next(f"cp {words[-1]}")
            subprocess.run(words, check=check)
        elif words[0] == "systemd-run":
            self.effects.next(f"start {words[-1]}")
            assert "--property=KillMode=process" in words  # the DHCP client it starts stays
            self.started += [word for word in words if word.startswith(str(self.folder))]
        return ""

    def arm(self, kill_at: int = 0) -> Effects:
        """A call that switches, killed before an effect."""
        files = (
            FileChange(str(self.config), _BEFORE, _AFTER, 0o644),
            FileChange(str(self.added), None, "[Network]\n", 0o644),
        )
        return self.call(
            lambda: journal.arm(BridgePlan((), Switch(files)), Switch(files), _ID, 60), kill_at
        )

    def call(self, work: t.Callable[[], object], kill_at: int = 0) -> Effects:
        self.effects = Effects(self.root, kill_at)
        with contextlib.suppress(Killed), counted(self.effects):
            work()
        return self.effects

    def script(self, *words: str) -> None:
        """What a timer of systemd's, or the boot, runs."""
        path = f"{self.root}/bin:/usr/bin:/bin"
        script = [f"{self.folder}/{words[0]}", *words[1:]]
        subprocess.run(["sh", *script], env={"PATH": path}, check=True, stdin=subprocess.DEVNULL)

    @property
    def configured(self) -> tuple[str, bool]:
        return self.config.read_text(), self.added.exists()

    def has_started(self, what: str) -> bool:
        return f"{self.folder}/{what}" in self.started


_OLD, _NEW = (_BEFORE, False), (_AFTER, True)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[], Machine]:
    """Makes machines."""
    count = iter(range(1000))
    return lambda: Machine(tmp_path / str(next(count)), monkeypatch)


def test_a_switch_is_applied_only_when_it_can_be_undone(
    machine: t.Callable[[], Machine],
) -> None:
    effects = len(machine().arm().done)
    assert effects > 20
    for number in range(1, effects + 1):
        one = machine()
        step = one.arm(number).done[-1]
        where = f"killed before {step!r} ({number})"
        assert one.configured == _OLD, where
        assert not one.has_started("apply"), where
        # the power fails, or the timer comes, if it was started: it is as it was
        if (one.root / "units" / "wants" / "boot.service").exists():
            one.script("rollback", "boot")
            assert one.configured == _OLD, where
        elif one.has_started("rollback"):
            one.script("rollback", "timer", _ID)
            assert one.configured == _OLD, where
        # the next call does it all again
        one.started.clear()
        one.arm()
        assert one.has_started("rollback"), where
        assert one.has_started("apply"), where
        assert journal.state() == "armed", where
        one.script("apply")
        assert one.configured == _NEW, where
        one.script("rollback", "timer", _ID)
        assert one.configured == _OLD, where
        assert journal.state() == "rolled-back", where


def test_a_state_is_never_without_what_is_said_of_it(machine: t.Callable[[], Machine]) -> None:
    """A run after one that was killed ended in a traceback, and so did every one after it."""

    def rolled_back() -> Machine:
        one = machine()
        one.arm()
        one.script("rollback", "timer", _ID)
        assert journal.state() == "rolled-back"
        return one

    effects = len(rolled_back().arm().done)
    for number in range(1, effects + 1):
        step = rolled_back().arm(number).done[-1]
        assert not journal.state() or journal.record(), f"{step!r} ({number})"


@pytest.mark.parametrize("who", [("timer", _ID), ("boot",)])
def test_once_applied_it_is_kept_or_taken_back_never_both(
    machine: t.Callable[[], Machine], who: tuple[str, ...]
) -> None:
    one = machine()
    one.arm()
    effects = len(one.call(journal.confirm).done)
    assert effects >= 3
    for number in range(1, effects + 1):
        one = machine()
        one.arm()
        one.script("apply")
        one.call(journal.confirm, number)
        one.script("rollback", *who)
        if number == 1:  # killed before it was confirmed
            assert one.configured == _OLD
            assert not one.call(journal.confirm).done[1:]
            assert journal.state() == "rolled-back"
        else:
            assert one.configured == _NEW
            assert journal.state() == "confirmed"
            assert journal.confirm()
        assert journal.state() in ("confirmed", "rolled-back")


def test_a_rollback_that_was_interrupted_goes_on_at_boot(
    machine: t.Callable[[], Machine],
) -> None:
    one = machine()
    one.arm()
    one.script("apply")
    os.rename(f"{one.folder}/armed", f"{one.folder}/rolling-back")
    one.script("rollback", "boot")
    assert one.configured == _OLD
    assert not journal.confirm()
    assert not (one.root / "units" / "boot.service").exists()


def test_a_timer_of_another_switch_does_nothing(machine: t.Callable[[], Machine]) -> None:
    one = machine()
    one.arm()
    one.script("apply")
    one.script("rollback", "timer", "another")
    assert one.configured == _NEW
    assert journal.confirm()
