# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The input and output of placement: requests, policy, rankings, rejections.

Memory and disk are MiB throughout. Everything here is immutable.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from .offers import NOTHING_WANTED, Wants

# Ends a group in ``affinity`` or ``anti_affinity`` that is heeded only where that is possible
SOFT = ":soft"


class DiskNeed(t.NamedTuple):
    """The space for one disk: its virtual size, and whether all of it is allocated at once.

    ``pool`` is the name of a pool, or the folder in which a disk has to be.
    ``full`` is for full copies and preallocated disks; an overlay or a sparse disk is thin.
    """

    pool: str
    size_mib: int
    full: bool = False


@dataclass(frozen=True)
class Request:
    """One VM to be placed. ``host``, ``zone``, ``domain_type`` and ``arch``: None means any.

    ``tagged_networks`` and ``tagged_bridges`` are those on which a NIC needs a VLAN tag.
    ``firmware`` None means the architecture's default; ``tpm`` is the model, empty for any.
    ``affinity`` names groups of which there must be a VM on the same hypervisor, if there is one
    on any in service. ``anti_affinity`` names groups whose members must not be on the same
    hypervisor. With the ending :data:`SOFT`, they should or should not be. ``relaxed``: what they
    must not, they may all the same.
    ``image`` is the base image's digest (or the name of its file, a weaker hint); with
    ``image_mib`` is the space that a copy takes where the image is absent.
    """

    name: str
    vcpus: int
    memory_mib: int
    disks: tuple[DiskNeed, ...] = ()
    networks: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    tagged_networks: tuple[str, ...] = ()
    tagged_bridges: tuple[str, ...] = ()
    firmware: str | None = None
    tpm: str | None = None
    domain_type: str | None = None
    arch: str | None = None
    host: str | None = None
    zone: str | None = None
    tags: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    affinity: tuple[str, ...] = ()
    anti_affinity: tuple[str, ...] = ()
    image: str | None = None
    image_mib: int = 0
    wants: Wants = NOTHING_WANTED
    relaxed: bool = False

    @property
    def ordinary_mib(self) -> int:
        """What it takes of the memory beside the huge pages."""
        in_pages = self.wants.hugepages
        if not in_pages:
            return self.memory_mib
        return max(0, self.memory_mib - sum(memory for _size, memory in in_pages))


@dataclass(frozen=True)
class Weights:
    """How much each part counts in the score (placement.py explains the parts)."""

    memory: float = 1.0
    cpu: float = 1.0
    disk: float = 1.0
    peak: float = 1.0
    image: float = 0.1
    spread: float = 1.0
    emulation: float = 4.0


@dataclass(frozen=True)
class Policy:
    """The settings for all hypervisors of one placement.

    ``pool_paths`` are the directory pools that are created where they are absent: name to
    target. A pool of another name with that target is used as well. ``pool_floor_mib`` of real
    space are kept free in every pool.
    """

    pool_paths: t.Mapping[str, str] = field(
        default_factory=lambda: {
            "default": "/var/lib/libvirt/images",
            "base": "/var/lib/libvirt/base",
        }
    )
    base_pool: str = "base"
    pool_floor_mib: int = 512
    weights: Weights = Weights()


# how the reason begins of a hypervisor that is not the one which the request names
NAMES_ANOTHER = "the request names "


class Rejection(t.NamedTuple):
    """Why one hypervisor cannot take one VM: the first filter it fails, with the figures."""

    host: str
    filter: str
    reason: str

    @property
    def is_other(self) -> bool:
        """Whether it is only that the request names another hypervisor."""
        return self.filter == "host" and self.reason.startswith(NAMES_ANOTHER)


PARTS = ("memory", "cpu", "disk", "peak", "image", "spread", "emulation")
# decimals of scores: smaller differences between hypervisors are floating-point noise
DIGITS = 6


class Ranked(t.NamedTuple):
    """One hypervisor that can take the VM. Fewer ``broken`` rules are better, then lower scores.

    ``values`` are the parts of the score in the order of PARTS. There may be millions of these
    in a large batch: the dictionary is built only for those that are used.
    """

    host: str
    score: float
    values: tuple[float, ...]
    notes: tuple[str, ...] = ()
    broken: int = 0

    @property
    def parts(self) -> dict[str, float]:
        """The parts by name."""
        return {name: round(value, DIGITS) for name, value in zip(PARTS, self.values)}


@dataclass(frozen=True)
class Placement:
    """Where one VM goes: ``host`` is the best of ``ranking``, or None if that is empty.

    ``existing`` are the hypervisors that have a VM of this name already; then nothing is ranked,
    because creating it anywhere would make a second one. ``why`` it is the best, for people.
    ``hidden`` hypervisors that cannot take it are not among ``rejected``, which names some.
    """

    name: str
    host: str | None
    ranking: tuple[Ranked, ...]
    rejected: tuple[Rejection, ...]
    existing: tuple[str, ...] = ()
    why: str = field(default="", compare=False)
    hidden: int = 0

    def as_dict(self) -> dict[str, object]:
        """Plain data, as ``virt_place`` returns it."""
        return {
            "name": self.name,
            "host": self.host,
            "existing": list(self.existing),
            "ranking": [
                {
                    "host": ranked.host,
                    "score": ranked.score,
                    "parts": ranked.parts,
                    "notes": list(ranked.notes),
                }
                for ranked in self.ranking
            ],
            "rejected": [rejection._asdict() for rejection in self.rejected],
            "hidden": self.hidden,
        }
