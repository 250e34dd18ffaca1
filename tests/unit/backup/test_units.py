# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The timer's units and script: systemd accepts them, and the exit status says what failed."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    effects_timer,
    units,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.units import TimerSettings
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_systemd as systemd,
)

SETTINGS = TimerSettings(
    "/srv/my fleet",
    "hosts.yml",
    "/usr/bin/ansible-playbook",
    ("-e", "@backup's.yml"),
    ("fleet.virt.backup -e 'virt_names=*'", "fleet.virt.prune_backups"),
    "/root/.vault",
    "root",
    "*-*-* 02:00:00",
    "1h",
    12,
    "alert@backup.service",
)


def test_units_are_accepted_by_systemd(tmp_path: Path) -> None:
    texts = units.files(SETTINGS)
    script = tmp_path / "script"
    script.write_text(texts[units.SCRIPT])
    script.chmod(0o755)
    for name in (units.SERVICE, units.TIMER):
        text = texts[f"{units.FOLDER}/{name}"].replace(units.SCRIPT, str(script))
        (tmp_path / name).write_text(text)
    (tmp_path / "alert@.service").write_text("[Service]\nExecStart=/bin/true\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / units.TIMER), str(tmp_path / units.SERVICE)],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if units.NAME in line]
    assert (done.returncode, ours) == (0, []), done.stderr
    calendar = ["systemd-analyze", "calendar", SETTINGS.on_calendar]
    assert subprocess.run(calendar, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"project": "fleet"}, "absolute paths"),
        ({"inventory": "a\nb"}, "inventory: "),
        ({"arguments": ("a", "b\nExecStart=/bin/sh")}, "arguments: "),
        ({"user": "root\nUser=x"}, "user: "),
        ({"on_calendar": "daily\n[Service]"}, "on_calendar: "),
        ({"randomized_delay": "an hour"}, "randomized_delay: "),
        ({"on_failure": "alert"}, "on_failure: "),
        ({"playbooks": ()}, "name at least one"),
        ({"playbooks": ("backup 'x",)}, "No closing quotation"),
        ({"turn_hours": 0.0}, "turn_hours: "),
    ],
)
def test_setting_that_would_break_a_unit_is_refused(change: dict[str, str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        units.files(dataclasses.replace(SETTINGS, **change))


@pytest.mark.parametrize(
    ("turn", "fails", "status", "ran"),
    [
        ("taken", "", 0, ["backup_turn", "backup", "prune_backups"]),
        ("taken", "fleet.virt.backup", 2, ["backup_turn", "backup", "prune_backups"]),
        ("taken", "fleet.virt.prune_backups", 2, ["backup_turn", "backup", "prune_backups"]),
        ("control2 has the turn", "", 0, ["backup_turn"]),
        ("", "fleet.virt.backup_turn", 2, ["backup_turn"]),
    ],
)
def test_status_of_script_is_that_of_what_failed(
    tmp_path: Path, turn: str, fails: str, status: int, ran: list[str]
) -> None:
    command = tmp_path / "ansible-playbook"
    command.write_text(
        "#!/bin/sh\nfor word; do case $word in virt_output_file=*) file=${word#*=};; "
        'fleet.virt.*) echo "$word" >>ran; name=$word;; esac; done\n'
        f'printf \'{turn}\\n\' >"${{file:-/dev/null}}"\necho "$*" >>words\n'
        f'[ "$name" != "{fails}" ] || exit 2\n'
    )
    command.chmod(0o755)
    project = tmp_path / "my fleet"
    project.mkdir()
    settings = dataclasses.replace(SETTINGS, project=str(project), command=str(command))
    script = tmp_path / "script"
    script.write_text(units.files(settings)[units.SCRIPT])
    done = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    names = [line.removeprefix("fleet.virt.") for line in (project / "ran").read_text().split()]
    assert names == ran
    words = "-i hosts.yml --vault-password-file /root/.vault -e @backup's.yml fleet.virt."
    assert all(line.startswith(words) for line in (project / "words").read_text().splitlines())
    if len(ran) > 1:
        assert "fleet.virt.backup -e virt_names=*\n" in (project / "words").read_text()
    if turn.startswith("control2"):
        assert "control2 has the turn" in done.stdout


class Systemd:
    """systemd, as far as it is asked about the timer here, where it may not run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.called: list[str] = []
        self.on = False
        monkeypatch.setattr(systemd, "is_enabled", lambda _unit: self.on)
        monkeypatch.setattr(systemd, "is_active", lambda _unit: self.on)
        monkeypatch.setattr(systemd, "systemctl", self._systemctl)

    def _systemctl(self, *words: str) -> str:
        self.called.append(" ".join(words))
        if words[0] in ("enable", "disable"):
            self.on = words[0] == "enable"
        return ""


def test_second_run_changes_nothing_and_check_mode_predicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "FOLDER", str(tmp_path / "system"))
    monkeypatch.setattr(units, "SCRIPT", str(tmp_path / "script"))
    host = Systemd(monkeypatch)
    foreseen = effects_timer.configure(SETTINGS, enabled=True, check=True)
    assert not list(tmp_path.iterdir())
    done = effects_timer.configure(SETTINGS, enabled=True, check=False)
    assert done == foreseen
    assert host.called == ["daemon-reload", f"enable --now {units.TIMER}"]
    assert (tmp_path / "script").stat().st_mode & 0o777 == 0o755
    assert not effects_timer.configure(SETTINGS, enabled=True, check=False)["changed"]
    (tmp_path / "script").chmod(0o644)
    assert effects_timer.configure(SETTINGS, enabled=True, check=False)["changed"]

    later = dataclasses.replace(SETTINGS, on_calendar="*-*-* 04:00:00")
    assert len(effects_timer.configure(later, enabled=True, check=False)["steps"]) == 1
    assert host.called[-2:] == ["daemon-reload", f"restart {units.TIMER}"]

    assert effects_timer.configure(later, enabled=False, check=False)["changed"]
    assert host.called[-1] == f"disable --now {units.TIMER}"
    assert not effects_timer.configure(later, enabled=False, check=False)["changed"]
