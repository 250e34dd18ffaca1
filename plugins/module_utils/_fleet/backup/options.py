# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of what the controller does with repositories."""

from __future__ import annotations

import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

COLLECTION = "fleet.virt."
_MOST_HOURS = 24 * 366

# Of every action that uses repositories from the controller
REPOSITORIES: Spec = {
    "places": {"type": "list", "elements": "str", "required": True},
    "names": {"type": "list", "elements": "str", "default": []},
    "ssh_key": {"type": "path", "no_log": False},
    "passphrase_variable": {"type": "str", "default": "virt_backup_passphrase", "no_log": False},
}

TIMER: Spec = {
    "project": {"type": "path", "required": True},
    "inventory": {"type": "str", "default": "inventory"},
    "command": {"type": "path", "default": "/usr/bin/ansible-playbook"},
    "arguments": {"type": "list", "elements": "str", "default": []},
    "playbooks": {
        "type": "list",
        "elements": "str",
        "default": [COLLECTION + name for name in ("backup -e virt_names=*", "prune_backups")],
    },
    "vault_password_file": {"type": "path", "no_log": False},
    "user": {"type": "str", "default": "root"},
    "on_calendar": {"type": "str", "default": "*-*-* 02:00:00"},
    "randomized_delay": {"type": "str", "default": "1h"},
    "turn_hours": {"type": "float", "default": 12.0},
    "on_failure": {"type": "str"},
    "enabled": {"type": "bool", "default": True},
}


def hours_problems(name: str, hours: float) -> list[Problem]:
    """Why the option ``name`` is no span of time; a float may be no number at all."""
    if 0 < hours <= _MOST_HOURS:
        return []
    return [Problem(name, f"{hours:g} is not a number of hours; give 1 to {_MOST_HOURS}")]


def require_hours(name: str, hours: float) -> None:
    """Raise SpecError unless the option ``name`` is a span of time."""
    problems = hours_problems(name, hours)
    if problems:
        raise SpecError(problems)


@dataclass(frozen=True)
class RepositoriesWork(Work):
    """A stage on the controller, the only one there is."""

    STAGES = ("all", "report")
