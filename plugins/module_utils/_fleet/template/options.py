# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_template``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..engine import envelope
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

IDENTITIES = ("reset", "keep")
QUIESCE = ("auto", "always", "never")
ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "image": {"type": "str"},
    "disk": {"type": "str"},
    "identity": {"type": "str", "choices": list(IDENTITIES), "default": IDENTITIES[0]},
    "quiesce": {"type": "str", "choices": list(QUIESCE), "default": QUIESCE[0]},
    "base_pool": {"type": "str", "default": "base"},
    "base_path": {"type": "path", "default": "/var/lib/libvirt/base"},
}


@dataclass(frozen=True)
class TemplateWork(Work):
    """A stage of copying a VM's disk into a base image; ``every_disk`` for a clone."""

    STAGES = ("all", "look", "decide", "act", "report")

    every_disk: bool = False


@dataclass(frozen=True)
class Options:
    """What the module's options request."""

    name: str
    image: str
    disk: str | None
    reset: bool
    quiesce: str
    base_pool: str
    base_path: str
    every: bool = False


def read_options(params: t.Mapping[str, t.Any]) -> Options:
    """Read the module's options."""
    return Options(
        name=params["name"],
        image=params["image"] or "",
        disk=params["disk"],
        reset=params["identity"] == "reset",
        quiesce=params["quiesce"],
        base_pool=params["base_pool"],
        base_path=params["base_path"],
        every=envelope.read(TemplateWork, params).every_disk,
    )
