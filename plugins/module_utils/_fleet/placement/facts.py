# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers before VMs are placed, as far as it is checked at once.

Placement reads the rest itself, and says of each hypervisor what it did not report (``hosts``).
"""

from __future__ import annotations

import typing as t

from ..base import answers

if t.TYPE_CHECKING:
    from ..base.snapshot import PlacementEntry


class _DefinedMore(answers.LeftBehind, total=False):
    uuid: str | None
    managed: bool | None
    seeded: bool | None
    run: str | None
    groups: list[str] | None
    anti_affinity: list[str] | None
    disks: list[str] | None
    targets: list[str] | None
    addresses: list[str] | None
    segments: list[str] | None


class DefinedVm(_DefinedMore):
    """A VM of a hypervisor. One that is not as declared keeps its hypervisor silent: how much is
    promised there, and to which groups, is then not known."""

    name: answers.VmName
    macs: list[str]
    active: bool | None
    phase: str | None


class SeenNetwork(t.TypedDict, total=False):
    """A virtual network."""

    name: str | None
    active: bool | None
    bridge: str | None
    forward: str | None


class _PoolMore(t.TypedDict, total=False):
    path: str | None


class SeenPool(_PoolMore):
    """A pool."""

    name: str


class _HostMore(t.TypedDict, total=False):
    uuid: str | None
    at: int | None
    notes: list[str] | None
    addresses: list[str] | None
    machines: list[str] | None
    images: list[str] | None
    bridges: list[str] | None
    cell_vms: list[str] | None
    networks: list[SeenNetwork] | None
    pools: list[SeenPool] | None


class SeenHost(_HostMore):
    """A hypervisor."""

    vms: list[DefinedVm]


class Placing(answers.Result, total=False):
    """What placement needs of a hypervisor."""

    host: SeenHost | None


def seen_host(entry: PlacementEntry) -> SeenHost:
    """What placement knows of a hypervisor, which is more than is checked."""
    return t.cast("SeenHost", entry)


def vms_of(answer: Placing) -> list[DefinedVm]:
    """The VMs of a hypervisor; none if it did not respond."""
    host = answer.get("host")
    return [] if host is None else host["vms"]
