# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers about its cell."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base import answers

PREFIX = "fence-"
# Of all else that belongs to the fence devices of a host, whose name is the end: names of hosts may
# have all characters that ids may have, so what is told apart by its end may be another host's
OTHER_PREFIX = "fence."
VM_PREFIX = "fleet-"  # of the resources that are VMs, before their UUIDs
HELD_BY = "fleet-by"  # the meta attribute that names the hypervisor of the run that holds a VM


def fence_id(host: str, number: int | None = None) -> str:
    """The resource of a host's only fence device, or of one of several."""
    return f"{PREFIX}{host}" if number is None else f"{OTHER_PREFIX}{number}-{host}"


class CellLook(answers.Result, total=False):
    """The current state.

    ``cell`` is ours that it is a member of, ``foreign`` the name of a cluster that others made,
    ``numbers`` the nodes of its corosync.conf. What Pacemaker says is there only if it runs:
    ``online`` and ``unclean`` nodes, whether it is ``quorate``, all ``resources`` that are VMs, and
    those that run ``here``. ``keys`` is a digest, ``missing`` are fence agents
    that are not installed, ``unfit`` those that are no proof that a host is off, and why.
    """

    release: str
    cell: str | None
    foreign: str | None
    numbers: dict[str, int]
    running: bool
    online: list[str]
    unclean: list[str]
    quorate: bool
    resources: list[str]
    here: list[str]
    keys: str | None
    missing: list[str]
    unfit: dict[str, str]


class CellPlan(t.TypedDict):
    """What the controller has decided for a cell: in each round all its members, with the number
    of each; whether the cell runs already."""

    rounds: list[list[str]]
    numbers: dict[str, int]
    running: bool


class CellDecision(t.TypedDict, total=False):
    """The plan of each cell of the play, the members of all, and the numbers of rounds."""

    changed: bool
    plans: dict[str, CellPlan]
    members: list[str]
    rounds: list[int]


class CellDone(t.TypedDict):
    """What was done on a hypervisor, or would be in check mode."""

    changed: bool
    steps: list[str]


@dataclass(frozen=True)
class FenceResource:
    """A device that switches one power supply of ``host``; ``secrets`` are parameters too."""

    id: str
    host: str
    agent: str
    parameters: dict[str, str]
    secrets: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CellVm:
    """What Pacemaker says of a VM, a resource ``fleet-UUID``.

    ``nodes`` run it. It is ``managed`` unless a run holds it, or was killed while it did: ``by`` is
    the hypervisor of that run. It has ``failed`` if it should run and does not, or does not stop;
    ``reason`` is what the agent said of it. ``target_role`` is None if it was never set: the VM
    should run then. ``pending`` is what is being done and may fail yet, such as ``Starting``.
    """

    uuid: str
    cards: str
    nodes: tuple[str, ...]
    managed: bool
    failed: bool
    reason: str | None
    target_role: t.Literal["Started", "Stopped"] | None
    by: str | None
    pending: str | None = None


@dataclass(frozen=True)
class CellView:
    """What a member says of its cell; ``members`` is in its corosync.conf, the rest of Pacemaker,
    if it is ``running``. ``vms`` are by UUID. ``device``: whether its quorum device votes here,
    None without one."""

    cell: str
    members: tuple[str, ...]
    running: bool = False
    quorate: bool = False
    online: t.AbstractSet[str] = frozenset()
    unclean: t.AbstractSet[str] = frozenset()
    vms: t.Mapping[str, CellVm] = field(default_factory=dict)
    device: bool | None = None


class UnmanagedVm(t.TypedDict):
    """A VM that its cell does not manage, or does not know: a run on ``held_by`` holds it, or did.
    ``at_work``: that run lives. ``problem`` says why it cannot be managed yet."""

    name: answers.VmName
    uuid: str
    held_by: str | None
    problem: str | None
    at_work: bool
