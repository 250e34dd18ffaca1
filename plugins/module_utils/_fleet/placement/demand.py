# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a VM's specification demands of its hypervisor, for placement."""

from __future__ import annotations

import typing as t

from ..._errors import Problem
from ..._units import MIB
from .offers import wants_of
from .types import DiskNeed, Request

if t.TYPE_CHECKING:
    from ..images.facts import ImageFacts
    from ..spec.devices import Nic
    from ..spec.domain import Domain


def disk_sizes(
    domain: Domain, images: t.Mapping[str, ImageFacts], path: str = ""
) -> tuple[dict[str, int], list[Problem]]:
    """Bytes of each disk by name, and a problem for each that is smaller than its image.

    ``images`` maps the image as the user wrote it. A disk without a size gets its image's, and so
    does a smaller one whose size nobody wrote for this VM.
    """
    sizes: dict[str, int] = {}
    problems = []
    for index, disk in enumerate(domain.disks):
        image = images.get(disk.image.value) if disk.image else None
        if disk.exists:
            continue
        if disk.device != "disk":
            if image is not None and image.format != "raw":
                what = "a CD is an ISO image, which" if disk.device == "cdrom" else "a floppy"
                problems.append(
                    Problem(
                        f"{path}.disks[{index}].image" if path else f"disks[{index}].image",
                        f"{image.name!r} is {image.format}, and {what} is raw; give the image"
                        " itself",
                    )
                )
            continue
        wanted = None if disk.size is None else disk.size * MIB
        small = image is not None and wanted is not None and wanted < image.virtual_bytes
        if small and f"disks.{disk.name}.size" not in domain.written:
            wanted = None
        elif image is not None and small:
            where = f"{path}.disks[{index}].size" if path else f"disks[{index}].size"
            problems.append(
                Problem(
                    where,
                    f"disk {disk.name!r} has {disk.size} MiB, the image {image.name!r} needs"
                    f" {image.virtual_mib} MiB; make the disk at least that large",
                )
            )
        size = wanted if wanted is not None else image.virtual_bytes if image else 0
        sizes[disk.name] = size
    return sizes, problems


def _on_bridges(domain: Domain) -> list[Nic]:
    """Its NICs on Linux bridges."""
    return [nic for nic in domain.nics if nic.type == "bridge" and nic.virtualport is None]


def request_of(
    domain: Domain, images: t.Mapping[str, ImageFacts], leftovers: str | None = None
) -> Request:
    """The VM's placement request; ``leftovers`` are what a copy gets beside its settings."""
    sizes, _dummy = disk_sizes(domain, images)
    image = domain.image
    facts = images.get(image.value) if image else None
    return Request(
        name=domain.name,
        vcpus=domain.vcpus,
        memory_mib=domain.memory_max or domain.memory,
        disks=tuple(
            DiskNeed(
                disk.pool,
                max(1, -(-sizes[disk.name] // MIB)),
                full=disk.image is not None and not disk.overlay,
            )
            for disk in domain.disks
            if disk.device == "disk" and not disk.exists
        ),
        networks=tuple(nic.source for nic in domain.nics if nic.type == "network"),
        bridges=tuple(nic.source for nic in _on_bridges(domain)),
        tagged_networks=tuple(
            nic.source for nic in domain.nics if nic.type == "network" and nic.vlan is not None
        ),
        tagged_bridges=tuple(nic.source for nic in _on_bridges(domain) if nic.vlan is not None),
        firmware=domain.firmware,
        tpm=(domain.tpm.model or "") if domain.tpm else None,
        domain_type=domain.domain_type,
        arch=domain.arch,
        host=domain.placement.host,
        zone=domain.placement.zone,
        tags=domain.placement.tags,
        groups=domain.groups,
        affinity=domain.placement.affinity,
        anti_affinity=domain.placement.anti_affinity,
        image=facts.identity if facts else None,
        image_mib=facts.virtual_mib if facts else 0,
        wants=wants_of(domain, images, leftovers),
    )
