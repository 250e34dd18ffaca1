# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_restart``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

ARGUMENTS: Spec = {
    "host": {"type": "list", "elements": "str", "required": True},
    "names": {"type": "list", "elements": "str", "default": []},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "ports": {"type": "list", "elements": "int", "default": []},
    "base_pool": {"type": "str", "default": "base"},
    "base_path": {"type": "path", "default": "/var/lib/libvirt/base"},
}


class RestartOptions(t.TypedDict):
    """What :data:`ARGUMENTS` makes of a task's options."""

    host: list[str]
    names: list[str]
    addresses: list[str]
    ports: list[int]
    base_pool: str
    base_path: str


def restart_options(params: t.Mapping[str, object]) -> RestartOptions:
    """The validated options of the module, without those of the connection."""
    return t.cast("RestartOptions", {name: params[name] for name in ARGUMENTS})


@dataclass(frozen=True)
class SeenCard:
    """The card of a VM as this hypervisor saw it when it looked: its file and the VM's UUID."""

    name: str = ""
    path: str = ""
    identity: str = ""
    uuid: str = ""


@dataclass(frozen=True)
class RestartWork(Work):
    """A stage of restarting VMs elsewhere.

    ``prove`` ends the run unless the other hypervisor is off; ``starts`` decides which of those
    that were taken over are started; ``finish`` makes their cards name the new hypervisor alone.
    ``note`` keeps ``claims``, which say where the VMs go. ``unlocking``: in check mode the other
    hypervisor would be switched off first, which ends what locks disks. ``seen`` are the cards that
    the VMs were chosen by, and no others are acted on; a module that is used alone has none.
    ``ignored`` are addresses at which something else answers, by the word of a person and once
    devices have proven that the hypervisor is off.
    """

    STAGES = ("all", "look", "decide", "prove", "note", "act", "starts", "finish", "report")

    unlocking: bool = False
    claims: list[str] = field(default_factory=list)
    seen: list[SeenCard] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
