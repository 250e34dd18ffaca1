# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when backups are proven."""

from __future__ import annotations

from ..._records import dataclass
from ..base import answers
from ..engine.steps import Action
from ..placement.facts import Placing


@dataclass(frozen=True)
class ProofFacts:
    """A backup, and what proofs that were killed have left on this hypervisor, by the UUIDs of
    their VMs. ``proven``: this run has proven it; only in predictions."""

    name: str
    left: tuple[str, ...] = ()
    proven: bool = False


@dataclass(frozen=True)
class ClearProof(Action):
    """Remove what a proof that was killed has left."""

    uuid: str


@dataclass(frozen=True)
class Prove(Action):
    """Run the VM from its backup and ask it, or read the backup."""


class ProofEntry(answers.Unreadable):
    """What a hypervisor says of a backup: what its VM needs, and why it cannot run there."""

    name: answers.VmName
    problems: list[str]
    vcpus: int
    memory_mib: int
    domain_type: str | None
    arch: str | None


class ProofLook(Placing, total=False):
    """What a hypervisor could prove."""

    entries: list[ProofEntry] | None


class ProvenVm(answers.TriedVm):
    """What was found of a backup: ``proof`` is none where nothing can be said of it. ``screen`` is
    a picture (PNG, base64)."""

    steps: list[str]
    proof: str | None
    how: str | None
    seconds: int | None
    screen: str | None


class Proven(answers.Result, total=False):
    """The result for the backups that a hypervisor was to prove."""

    vms: list[ProvenVm] | None


class Cleared(answers.Result, total=False):
    """What was removed of proofs that were killed."""

    removed: list[str] | None
