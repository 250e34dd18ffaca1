# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The timer that backs up: its units, and the script that they run.

Secrets are in none of them: the script names the files that hold them.
"""

from __future__ import annotations

import re
import shlex

from ..._errors import Problem, SpecError
from ..._records import dataclass
from ..base.options import show
from .options import COLLECTION, hours_problems

NAME = "fleet-virt-backup"
SERVICE, TIMER = f"{NAME}.service", f"{NAME}.timer"
FOLDER = "/etc/systemd/system"
SCRIPT = f"/usr/local/sbin/{NAME}"
_HEAD = "# Written by fleet.virt.virt_backup_timer; changes here are lost\n"
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_UNIT = re.compile(r"[A-Za-z0-9:_.@%-]+\.(?:service|target)")
_LINE = re.compile(r"[^\x00-\x1f\x7f]+")
_SPAN = re.compile(r"[0-9]+ ?[a-z]*(?: [0-9]+ ?[a-z]+)*")


@dataclass(frozen=True)
class TimerSettings:
    """The module's options."""

    project: str
    inventory: str
    command: str
    arguments: tuple[str, ...]
    playbooks: tuple[str, ...]
    vault_password_file: str | None
    user: str
    on_calendar: str
    randomized_delay: str
    turn_hours: float
    on_failure: str | None


def problems(settings: TimerSettings) -> list[Problem]:
    """Why units cannot be written from these settings."""
    rules: list[tuple[str, str | None, re.Pattern[str], str]] = [
        ("project", settings.project, _LINE, "the path of a folder"),
        ("inventory", settings.inventory, _LINE, "the path of an inventory"),
        ("command", settings.command, _LINE, "the path of ansible-playbook"),
        ("vault_password_file", settings.vault_password_file, _LINE, "the path of a file"),
        ("user", settings.user, _USER, "the name of a user"),
        ("on_calendar", settings.on_calendar, _LINE, "a time as in systemd.time(7)"),
        ("randomized_delay", settings.randomized_delay, _SPAN, "a time span such as 1h"),
        ("on_failure", settings.on_failure, _UNIT, "the name of a service or target"),
        *(("arguments", word, _LINE, "a line of text") for word in settings.arguments),
        *(("playbooks", word, _LINE, "the name of a playbook") for word in settings.playbooks),
    ]
    faults = [
        Problem(name, f"{show(value)} is not {what}")
        for name, value, shape, what in rules
        if value is not None and not shape.fullmatch(value)
    ]
    if not settings.project.startswith("/") or not settings.command.startswith("/"):
        faults.append(Problem("project", "project and command are absolute paths"))
    if not settings.playbooks:
        faults.append(Problem("playbooks", "name at least one"))
    for words in settings.playbooks:
        try:
            shlex.split(words)
        except ValueError as error:
            faults.append(Problem("playbooks", f"{show(words)}: {error}"))
    return faults + hours_problems("turn_hours", settings.turn_hours)


def files(settings: TimerSettings) -> dict[str, str]:
    """The text of each file by path; raises SpecError with every problem."""
    faults = problems(settings)
    if faults:
        raise SpecError(faults)
    return {
        f"{FOLDER}/{SERVICE}": _service(settings),
        f"{FOLDER}/{TIMER}": _timer(settings),
        SCRIPT: _script(settings),
    }


def _service(settings: TimerSettings) -> str:
    failure = [f"OnFailure={settings.on_failure}"] if settings.on_failure else []
    return _HEAD + "\n".join(
        [
            "[Unit]",
            "Description=Back up the VMs of the fleet, and prune their backups",
            "Wants=network-online.target",
            "After=network-online.target",
            *failure,
            "",
            "[Service]",
            "Type=oneshot",
            f"User={settings.user}",
            f"ExecStart={SCRIPT}",
            "Nice=10",
            "UMask=0077",
            "PrivateTmp=yes",
            "",
        ]
    )


def _timer(settings: TimerSettings) -> str:
    return _HEAD + "\n".join(
        [
            "[Unit]",
            "Description=Back up the VMs of the fleet regularly",
            "",
            "[Timer]",
            f"OnCalendar={_escaped(settings.on_calendar)}",
            f"RandomizedDelaySec={settings.randomized_delay}",
            "Persistent=yes",
            "",
            "[Install]",
            "WantedBy=timers.target",
            "",
        ]
    )


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _script(settings: TimerSettings) -> str:
    words = [settings.command, "-i", settings.inventory]
    if settings.vault_password_file:
        words += ["--vault-password-file", settings.vault_password_file]
    words += settings.arguments
    runs = [shlex.join(shlex.split(playbook)) for playbook in settings.playbooks]
    playbooks = "\n".join(f"play {words}" for words in runs)
    return f"""#!/bin/sh
{_HEAD}#
# Exit status: 0 if everything was done or another controller has this turn, else that of the first
# playbook that failed.
set -u
cd {shlex.quote(settings.project)} || exit 1
turn=$(mktemp) || exit 1
trap 'rm -f "$turn"' EXIT
ansible() {{
    {shlex.join(words)} "$@" </dev/null
}}
status=0
play() {{
    ansible "$@" || {{
        failed=$?
        [ "$status" -ne 0 ] || status=$failed
    }}
}}
ansible {COLLECTION}backup_turn -e virt_turn_hours={settings.turn_hours:g} \\
    -e virt_output_file="$turn" || exit
if [ "$(head -n 1 "$turn")" != taken ]; then
    cat "$turn"
    exit 0
fi
{playbooks}
exit "$status"
"""
