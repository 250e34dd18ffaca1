# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_restore_file``, for the module and its action plugin."""

from __future__ import annotations

import posixpath
import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass, field
from ..base.options import show
from ..engine.envelope import Work
from .options import SavedVm

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

MOST_MIB = 64
ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "path": {"type": "str", "required": True},
    "dest": {"type": "path", "required": True},
    "archive": {"type": "str"},
    "place": {"type": "str", "required": True},
    "passphrase": {"type": "str", "required": True, "no_log": True},
    "ssh_key": {"type": "path", "no_log": False},
    "max_mib": {"type": "int", "default": 16},
}


class RestoreFileOptions(t.TypedDict):
    """What :data:`ARGUMENTS` makes of a task's options."""

    name: str
    path: str
    dest: str
    archive: str | None
    place: str
    passphrase: str
    ssh_key: str | None
    max_mib: int


def file_options(params: t.Mapping[str, object]) -> RestoreFileOptions:
    """The validated options of the module, without those of the connection; raises SpecError."""
    options = t.cast("RestoreFileOptions", {name: params[name] for name in ARGUMENTS})
    require_sound(options)
    return options


def require_sound(options: RestoreFileOptions) -> None:
    """Raise SpecError with every option that is none."""
    problems = []
    path, most = options["path"], options["max_mib"]
    if not path.startswith("/") or path != posixpath.normpath(path) or not path.isprintable():
        rule = "give the absolute path of a file of the guest, such as /etc/fstab, without '..'"
        problems.append(Problem("path", f"{show(path)} is no such path; {rule}"))
    if not options["name"]:
        problems.append(Problem("name", "no VM is named; give -e vm_name=web1"))
    if not options["dest"]:
        rule = "say where the file is to be on the controller: -e virt_restore_to=fstab"
        problems.append(Problem("dest", rule))
    if not 0 < most <= MOST_MIB:
        rule = f"give 1 to {MOST_MIB}; what is larger is on a disk beside the VM"
        problems.append(Problem("max_mib", f"{most} MiB is not possible; {rule} (restore_disk)"))
    if problems:
        raise SpecError(problems)


@dataclass(frozen=True)
class RestoreFileWork(Work):
    """A stage of restoring a file of a guest."""

    STAGES = ("all", "find", "look", "decide", "act", "report")

    vms: list[SavedVm] = field(default_factory=list)
