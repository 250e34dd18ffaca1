# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_backup``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass
from ..base.arguments import Spec
from ..base.json_values import as_text
from ..engine.envelope import SelectingWork
from ..snapshots.facts import ALWAYS, AUTO, NEVER
from . import places
from .facts import BackupRequest

SCRATCH = "/var/lib/fleet-virt/scratch"
LEAST_SCRATCH = 16  # MiB
ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
    "to": {"type": "str"},
    "passphrase": {"type": "str", "no_log": True},
    "ssh_key": {"type": "path", "no_log": False},
    "quiesce": {"type": "str", "choices": [AUTO, ALWAYS, NEVER], "default": AUTO},
    "scratch": {"type": "path", "default": SCRATCH},
    "scratch_mib": {"type": "int"},
}


@dataclass(frozen=True)
class BackupWork(SelectingWork):
    """A stage of backing VMs up."""

    STAGES = ("all", "look", "decide", "act", "settle", "report")


def wanted_of(options: t.Mapping[str, object], *, secret: bool = True) -> BackupRequest:
    """The options as a request, with the passphrase if ``secret``; raises SpecError for invalid
    ones."""
    problems = []
    place = as_text(options["to"]) or ""
    if not place:
        rule = "no place is given; give one (in a playbook virt_backup_to=/mnt/backup)"
        problems.append(Problem("to", rule))
    else:
        try:
            place = str(places.parse(place))
        except places.PlaceError as error:
            problems.append(Problem("to", str(error)))
    passphrase = as_text(options["passphrase"]) or ""
    if secret and not passphrase:
        rule = "none is given, and backups are always encrypted; set virt_backup_passphrase"
        problems.append(Problem("passphrase", f"{rule}, vaulted"))
    most = options["scratch_mib"]
    if most is not None and (not isinstance(most, int) or most < LEAST_SCRATCH):
        rule = f"give {LEAST_SCRATCH} or more, or leave it out"
        problems.append(Problem("scratch_mib", f"{most} MiB is no room for what is saved; {rule}"))
    if problems:
        raise SpecError(problems)
    return BackupRequest(
        to=place,
        passphrase=passphrase,
        ssh_key=as_text(options["ssh_key"]),
        quiesce=str(options["quiesce"]),
        scratch=str(options["scratch"]),
        scratch_mib=most if isinstance(most, int) else None,
    )
