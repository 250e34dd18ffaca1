# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_restore``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

RESTORE, COPY = "restore", "copy"
ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True},
    "new_name": {"type": "str"},
    "archive": {"type": "str"},
    "restore_as": {"type": "str", "choices": [RESTORE, COPY]},
    "without": {"type": "list", "elements": "str", "default": []},
    "place": {"type": "str", "required": True},
    "passphrase": {"type": "str", "required": True, "no_log": True},
    "ssh_key": {"type": "path", "no_log": False},
    "pool": {"type": "str", "default": "default"},
    "pool_path": {"type": "path", "default": "/var/lib/libvirt/images"},
    "base_pool": {"type": "str", "default": "base"},
    "base_path": {"type": "path", "default": "/var/lib/libvirt/base"},
}


class RestoreOptions(t.TypedDict):
    """What :data:`ARGUMENTS` makes of a task's options."""

    names: list[str]
    new_name: str | None
    archive: str | None
    restore_as: str | None
    without: list[str]
    place: str
    passphrase: str
    ssh_key: str | None
    pool: str
    pool_path: str
    base_pool: str
    base_path: str


def restore_options(params: t.Mapping[str, object]) -> RestoreOptions:
    """The validated options of the module, without those of the connection."""
    return t.cast("RestoreOptions", {name: params[name] for name in ARGUMENTS})


@dataclass(frozen=True)
class SavedVm:
    """A VM to restore: ``name`` and ``uuid`` are those that it gets, ``repository`` and ``archive``
    where it is, ``manifest`` and ``definition`` texts of the archive. ``copy``: it is another VM
    than the one that was saved. ``claimer`` names the run that claims it. ``skipped`` says which
    later archives are not restored unless they are named."""

    name: str = ""
    uuid: str = ""
    repository: str = ""
    archive: str = ""
    copy: bool = False
    manifest: str = ""
    definition: str = ""
    claimer: str = ""
    skipped: str = ""

    @property
    def source(self) -> str:
        """The archive, as the VM's metadata name it."""
        return f"{self.repository}::{self.archive}"


def skipped(vms: t.Iterable[SavedVm]) -> list[str]:
    """Which archives are not restored, though they are the newest by name, for people."""
    return [vm.skipped for vm in vms if vm.skipped]


@dataclass(frozen=True)
class RestoreWork(Work):
    """A stage of restoring VMs; after ``claim`` all hypervisors are asked again, as round 1.

    They note the ``claims`` first: that the VMs are where they are being restored, and tell what
    they noted of machines that are none of ``answering``.
    """

    STAGES = ("all", "find", "look", "decide", "claim", "finish", "withdraw", "report")

    vms: list[SavedVm] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    answering: list[str] = field(default_factory=list)
