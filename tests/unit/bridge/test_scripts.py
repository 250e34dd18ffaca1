# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scripts are run here, in a folder, with systemctl and the network's commands noted only."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import (
    scripts as bridge_scripts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.types import (
    FileChange,
    Switch,
)

ID = "0c8bb2f0-6a6b-4a2b-8d3e-0d4b4a6b3f10"


class Machine:
    """A folder in place of the machine's root; commands in ``bin`` note that they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal"
        self.called = folder / "called"
        self.called.touch()
        (folder / "bin").mkdir()
        for name in ("up", "down", "back", "early", "systemctl"):
            command = folder / "bin" / name
            command.write_text(f'#!/bin/sh\necho {name} "$@" >> {self.called}\n')
            command.chmod(0o755)
        self.file = folder / "etc" / "a file"
        self.file.parent.mkdir()
        self.file.write_text("former\n")
        self.file.chmod(0o640)
        os.utime(self.file, (1000, 1000))
        self.added = folder / "etc" / "new.d" / "new"
        self.switch = Switch(
            (
                FileChange(str(self.file), "former\n", "now\n"),
                FileChange(str(self.added), None, "added\n"),
            ),
            leave=("down", "false"),
            enter=("up",),
            undo=("down", "false"),
            restore=("back",),
            boot=("early",),
        )
        for name in ("saved", "new"):
            (self.journal / name).mkdir(parents=True)
        subprocess.run(["cp", "-a", self.file, self.journal / "saved" / "0"], check=True)
        (self.journal / "new" / "0").write_text("now\n")
        (self.journal / "new" / "1").write_text("added\n")
        self.armed = self.journal / "armed"
        self.armed.touch()

    def run(self, text: str, *words: str) -> None:
        script = self.folder / "script"
        text = text.replace(bridge_scripts.FOLDER, str(self.journal))
        script.write_text(text.replace(bridge_scripts.UNITS, str(self.folder / "units")))
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        subprocess.run(["/bin/sh", script, *words], env={"PATH": path}, check=False)

    def apply(self) -> None:
        self.run(bridge_scripts.apply(self.switch, ID))

    def rollback(self, word: str = "timer", identifier: str = ID) -> None:
        self.run(bridge_scripts.rollback(self.switch, ID), word, identifier)

    @property
    def calls(self) -> list[str]:
        lines = self.called.read_text().splitlines()
        return [line.strip() for line in lines if not line.startswith("systemctl ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_apply(machine: Machine) -> None:
    machine.apply()
    assert machine.file.read_text() == "now\n"
    assert machine.added.read_text() == "added\n"
    assert machine.calls == ["down", "up"]
    assert (machine.journal / "applied").read_text().split()[1].startswith("(cat")


def test_apply_after_the_rollback_does_nothing(machine: Machine) -> None:
    machine.rollback()
    machine.called.write_text("")
    machine.apply()
    assert machine.file.read_text() == "former\n"
    assert machine.calls == []


def test_what_does_not_come_up_is_rolled_back_at_once(machine: Machine) -> None:
    (machine.folder / "bin" / "up").write_text("#!/bin/sh\necho no such device\nexit 1\n")
    machine.apply()
    assert (
        "start --no-block fleet-virt-bridge-rollback-0c8bb2f0.service" in machine.called.read_text()
    )
    assert (machine.journal / "failed").read_text() == "up\n"
    assert "no such device" in (machine.journal / "apply.log").read_text()
    assert not (machine.journal / "applied").exists()


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize(("word", "calls"), [("timer", ["down", "back"]), ("boot", ["early"])])
def test_rollback(machine: Machine, applied: bool, word: str, calls: list[str]) -> None:
    before = machine.file.stat()
    if applied:
        machine.apply()
        machine.called.write_text("")
    machine.rollback(word)
    after = machine.file.stat()
    assert machine.file.read_text() == "former\n"
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert not machine.added.parent.exists()
    assert sorted(path.name for path in machine.file.parent.iterdir()) == ["a file"]
    assert machine.calls == calls
    assert (machine.journal / "rolled-back").exists()
    assert not machine.armed.exists()
    assert (machine.journal / "reason").read_text() == f"{word}\n"


def test_a_rollback_that_was_cut_off_is_finished_at_boot(machine: Machine) -> None:
    machine.apply()
    machine.armed.rename(machine.journal / "rolling-back")
    machine.rollback("boot")
    assert machine.file.read_text() == "former\n"
    assert (machine.journal / "rolled-back").exists()


def test_the_timer_of_another_switch_has_nothing_to_say(machine: Machine) -> None:
    machine.apply()
    machine.rollback("timer", "another")
    assert machine.file.read_text() == "now\n"
    assert machine.armed.exists()


@pytest.mark.parametrize("word", ["timer", "boot"])
def test_no_rollback_of_what_is_confirmed(machine: Machine, word: str) -> None:
    machine.apply()
    machine.armed.rename(machine.journal / "confirmed")
    machine.rollback(word)
    assert machine.file.read_text() == "now\n"
    assert machine.calls == ["down", "up"]


def test_boot_unit_comes_before_the_network() -> None:
    text = bridge_scripts.boot_unit()
    for unit in ("networking", "systemd-networkd", "NetworkManager"):
        assert f"{unit}.service" in text
    assert "\nBefore=network-pre.target " in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("timer", "ifup br0: no", 8, ["x"]), "could not be brought up (ifup br0: no)"),
        (("boot", "", 8, ["x"]), "was restarted before the switch was confirmed"),
        (("timer", "", 8, ["br0 has no address"]), "not as required: br0 has no address"),
        (("timer", "", 8, []), "over a new connection within 8 seconds"),
    ],
)
def test_reasons(arguments: tuple[str, str, int, list[str]], text: str) -> None:
    assert text in bridge_scripts.reason(*arguments)
