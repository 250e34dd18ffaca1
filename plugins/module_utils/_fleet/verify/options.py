# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_verify_backups``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass, field
from ..base.json_values import as_number
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

BOOT, READ = "boot", "read"
NEWEST, ALL = "newest", "all"
FOLDER = "/var/lib/fleet-virt/proofs"
LEAST_MIB = 16
ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "default": []},
    "place": {"type": "str", "default": ""},
    "passphrase": {"type": "str", "default": "", "no_log": True},
    "ssh_key": {"type": "path", "no_log": False},
    "archive": {"type": "str"},
    "backups": {"type": "str", "choices": [NEWEST, ALL], "default": NEWEST},
    "sample": {"type": "int"},
    "depth": {"type": "str", "choices": [BOOT, READ], "default": BOOT},
    "boot_seconds": {"type": "int", "default": 300},
    "folder": {"type": "path", "default": FOLDER},
    "overlay_mib": {"type": "int", "default": 4096},
    "page": {"type": "path"},
    "output": {"type": "str", "choices": ["table", "json", "yaml", "csv"], "default": "table"},
    "output_file": {"type": "path"},
    "base_pool": {"type": "str", "default": "base"},
    "base_path": {"type": "path", "default": "/var/lib/libvirt/base"},
}


class VerifyOptions(t.TypedDict):
    """What :data:`ARGUMENTS` makes of a task's options."""

    names: list[str]
    place: str
    passphrase: str
    ssh_key: str | None
    archive: str | None
    backups: str
    sample: int | None
    depth: str
    boot_seconds: int
    folder: str
    overlay_mib: int
    page: str | None
    output: str
    output_file: str | None
    base_pool: str
    base_path: str


@dataclass(frozen=True)
class SavedArchive:
    """An archive to prove: ``name`` is what it is called here (UUID::ARCHIVE), ``archive_id`` its
    id, ``manifest`` and ``definition`` are texts of it. ``expected``: the VM has answered before.
    ``unbootable`` says why it is only read; ``proof`` is the UUID of the VM that runs from it."""

    name: str = ""
    vm: str = ""
    uuid: str = ""
    archive: str = ""
    archive_id: str = ""
    manifest: str = ""
    definition: str = ""
    expected: bool = False
    unbootable: str = ""
    proof: str = ""


@dataclass(frozen=True)
class VerifyWork(Work):
    """A stage of proving backups; ``clear`` and ``cleared`` are those of repairing."""

    STAGES = ("all", "find", "look", "decide", "boot", "report", "clear", "cleared")

    vms: list[SavedArchive] = field(default_factory=list)


def verify_options(params: t.Mapping[str, object]) -> VerifyOptions:
    """The validated options of the module; raises SpecError for numbers that cannot be."""
    problems = []
    for name, least in (("sample", 1), ("boot_seconds", 1), ("overlay_mib", LEAST_MIB)):
        value = as_number(params[name])
        if params[name] is not None and (value is None or value < least):
            problems.append(Problem(name, f"{params[name]} is too few; give {least} or more"))
    if problems:
        raise SpecError(problems)
    return t.cast("VerifyOptions", {name: params[name] for name in ARGUMENTS})
