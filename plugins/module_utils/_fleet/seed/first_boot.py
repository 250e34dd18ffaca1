# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a guest's first boot, which the guest reports on its serial console.

An SSH server answers long before packages are installed and commands have run. So a guest with
either reports that it has started on its seed, and at the end cloud-init's own result. Both are
lines on the console; their content comes from the guest, and concerns only that guest.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..hosts import serial_output as console
from . import restarts

if t.TYPE_CHECKING:
    from .types import Seed  # which imports this file

Command = t.TypeVar("Command")  # a shell line, or another type in a list of them

MARK = "fleet.virt first boot:"
# In the metadata: a medium was given, the disk was written to, or the end cannot be known
PENDING, WRITTEN, UNKNOWN, FAILED = "pending", "written", "unknown", "failed: "
# Of a guest that answers, in the result of virt_wait
ENDED_BADLY, GOES_ON = "failed", "running"
_BEGUN = "begun"
_LOGIN = re.compile(r"(?:^|\s)login:\s*$")
_CLOUD_INIT = re.compile(rf"cloud-init|ci-info:|{re.escape(MARK)}", re.I)
_MOST_CHARACTERS = 300
_MOST = 5  # errors that are shown
_OUTPUT = re.compile(r"(?:\\n|\s)*(?:Stdout|Stderr): .*", re.S)
_COMMAND = re.compile(r"(?:\\n|\s)*Command: (?:(?!\\n|\n|Exit code).)*")
_INSTALLED = re.compile(r"'install', ((?:'[^']*'(?:, )?)+)\]")
# Parts of one shell statement: nothing may be inserted between them
_OPEN = re.compile(r"(<<|(^|[\s;&|])(then|do|else|in|\{|\()\s*$|(&&|\|\||\||\\)\s*$)", re.M)
_CLOSED = re.compile(r"^\s*(then|do|done|else|elif|fi|esac|\}|\)|;;)", re.M)

# /dev/console may be a screen that does not exist
SAY = """\
say() { for place in /dev/console /dev/ttyS0 /dev/ttyAMA0; do \
[ ! -c $place ] || printf '\\n%s\\n' "$1" > $place; done 2>/dev/null; }
"""
# Run by bootcmd, before the SSH server starts. A separate unit waits for the end; it disables
# cloud-init when the guest is shut down: while the marker exists, cloud-init's status is
# "disabled", whatever happened. $1 is the marker.
REPORT = f"""\
umask 077; mkdir -p /run/fleet-virt && cd /run/fleet-virt || exit 0
{SAY}say '{MARK} {_BEGUN}'
cat > end <<'END'
{SAY}result=/run/cloud-init/result.json
until [ -s $result ]; do sleep 1; done
say "{MARK} $(tr -d '\\n' < $result | head -c 8000)"
END
echo "[ ! -s /run/cloud-init/result.json ] || touch $1" > disable
systemd-run --no-block --quiet --unit fleet-virt-first-boot -p RemainAfterExit=yes \
-p 'ExecStop=/bin/sh /run/fleet-virt/disable' /bin/sh /run/fleet-virt/end 2>/dev/null && exit 0
(sh end; sh disable) < /dev/null > /dev/null 2>&1 &
"""


def expected(seed: Seed | None) -> str | None:
    """What is recorded for a VM with this seed; None if it is ready once its SSH server answers."""
    if seed is None or not (seed.commands or seed.packages or seed.user_data):
        return None
    if restarts.restarts(seed):
        return UNKNOWN
    return WRITTEN if seed.method == "offline" else PENDING


def watched(commands: t.Sequence[Command]) -> list[Command | str]:
    """The commands, which form one script, such that it fails if any of them fails.

    Unchanged if one of them is only part of a statement; then the last one counts.
    """
    texts = [command if isinstance(command, str) else "" for command in commands]
    if not commands or any(_OPEN.search(text) or _CLOSED.search(text) for text in texts):
        return list(commands)
    script: list[Command | str] = []
    for number, command in enumerate(commands, 1):
        note = f'echo "fleet.virt: command {number} ended with $fleet_virt"; fleet_virt_failed=1'
        script += [command, f"fleet_virt=$?; [ $fleet_virt = 0 ] || {{ {note}; }}"]
    return [*script, "exit ${fleet_virt_failed:-0}"]


def begun(text: str) -> bool:
    """Whether the guest reports on its console that it has started on its seed."""
    return f"{MARK} {_BEGUN}" in text


def is_ignored(text: str) -> bool:
    """Whether the last line is a login prompt, and nothing before it is from cloud-init."""
    last = console.end(text, 1)
    return bool(last and _LOGIN.search(last[0])) and _CLOUD_INIT.search(text) is None


def errors(text: str) -> list[str] | None:
    """What failed, by the last report in the console ``text``; None before the end is reported.

    The report is written once for each name of the console. Other programs write to it too and may
    tear one, so a whole one of the same boot counts before a torn one that follows.
    """
    shown: list[str] | None = None
    whole = False
    for line in text.split("\n"):
        _before, mark, rest = line.partition(MARK)
        rest = rest.strip()
        if not mark:
            continue
        if rest == _BEGUN:
            whole = False
            continue
        reported = _reported(rest)
        if reported is not None or not whole:
            shown = _shown([rest] if reported is None else reported)
        whole = whole or reported is not None
    return shown


def _reported(text: str) -> list[str] | None:
    """The errors of a report; None if it is torn or truncated (without errors it is short)."""
    try:
        reported = json.loads(text)["v1"]["errors"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return [str(error) for error in reported] if isinstance(reported, list) else [text]


def _shown(reported: list[str]) -> list[str]:
    shown = [_printable(error) for error in reported[:_MOST]]
    return shown + ([f"and {len(reported) - _MOST} more"] if len(reported) > _MOST else [])


def _packages(command: re.Match[str]) -> str:
    """The replacement for a command: the packages it should install, which are not secret."""
    installation = _INSTALLED.search(command[0])
    if installation is None:
        return ""
    names = [name for name in re.findall("'([^']*)'", installation[1]) if not name.startswith("-")]
    return f" Packages: {', '.join(names)}."


def _printable(text: str) -> str:
    """One line, without a command's arguments and output, which may be secret."""
    text = _OUTPUT.sub("", _COMMAND.sub(_packages, text))
    line = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(line.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."
