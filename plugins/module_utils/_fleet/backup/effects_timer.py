# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The timer that backs up, on this machine: its files, and whether it runs."""

from __future__ import annotations

import os
import stat
import typing as t

from ..base import effects_config_files as config_files
from ..base import effects_systemd as systemd
from . import units

if t.TYPE_CHECKING:
    from .units import TimerSettings

_MODE = 0o755  # of the script, which has no secret


class Returned(t.TypedDict):
    """The module's result."""

    changed: bool
    steps: list[str]
    diff: list[dict[str, str]]


def configure(settings: TimerSettings, *, enabled: bool, check: bool) -> Returned:
    """Write the files, and have the timer run or not; in check mode, say what would be done."""
    texts = units.files(settings)
    before = {path: config_files.read(path) for path in texts}
    changed = {path: text for path, text in texts.items() if before[path] != text}
    steps = [f"write {path}" for path in changed]
    mode = _mode(units.SCRIPT)
    if units.SCRIPT not in changed and mode != _MODE:
        steps.append(f"chmod 755 {units.SCRIPT}")
    running = systemd.is_enabled(units.TIMER) and systemd.is_active(units.TIMER)
    idle = not systemd.is_enabled(units.TIMER) and not systemd.is_active(units.TIMER)
    if enabled and not running:
        steps.append(f"enable and start {units.TIMER}")
    elif not enabled and not idle:
        steps.append(f"disable and stop {units.TIMER}")
    if steps and not check:
        _carry_out(changed, enabled=enabled, switch=not (running if enabled else idle))
    return {
        "changed": bool(steps),
        "steps": steps,
        "diff": [
            {
                "before_header": path,
                "after_header": path,
                "before": before[path] or "",
                "after": text,
            }
            for path, text in changed.items()
        ],
    }


def _mode(path: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None


def _carry_out(changed: t.Mapping[str, str], *, enabled: bool, switch: bool) -> None:
    with config_files.replaced(changed):
        os.chmod(units.SCRIPT, _MODE)
        if any(path.startswith(units.FOLDER) for path in changed):
            systemd.systemctl("daemon-reload")
        if switch:
            systemd.systemctl("enable" if enabled else "disable", "--now", units.TIMER)
        elif enabled and f"{units.FOLDER}/{units.TIMER}" in changed:
            systemd.systemctl("restart", units.TIMER)
