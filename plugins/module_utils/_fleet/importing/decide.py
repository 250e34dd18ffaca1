# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is requested of an imported VM: that of any VM, with the images that its disks became."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..._units import MIB
from ..clone.decide import is_base
from ..engine import outcomes
from ..images.facts import KnownImage
from ..storage.base_name import BaseName
from . import specification
from .facts import Converted
from .specification import Specification


@dataclass(frozen=True)
class ImportRequest:
    """``vms`` is one VM, ``images`` describe its images for all hypervisors, ``intermediate`` ones
    are removed from ``hypervisor`` once the VM exists."""

    vms: list[Specification]
    images: dict[str, KnownImage] = field(default_factory=dict)
    hypervisor: str = ""
    intermediate: list[str] = field(default_factory=list)


def image_name(vm: str, disk: str) -> str:
    """The name of the base image that a disk becomes, until the VM has its copy."""
    return f"{vm}-import-{disk}"


def request(
    spec: Specification,
    overrides: Mapping[str, object],
    content: t.Collection[str],
    converted: Mapping[str, Converted],
) -> ImportRequest:
    """The VM, where ``converted`` has made base images of the disks ``content``.

    Before that, and if no hypervisor was to make any, its disks have their sizes alone: an existing
    VM is compared with that, and check mode places it by that. Raises PlanRefused if an image is
    missing.
    """
    acted = {host: answer for host, answer in converted.items() if not _skipped(answer)}
    if not acted:
        return ImportRequest([{**spec, **overrides}])
    ((host, answer),) = acted.items() if len(acted) == 1 else (("", Converted()),)
    if not host:
        raise PlanRefused(f"{', '.join(sorted(acted))} converted the disks; run this again")
    entries = answer.get("images")
    if answer.get("failed") or answer.get("unreachable") or entries is None:
        raise PlanRefused(f"{host}: {outcomes.error_message(answer)}; the VM was not created")
    volumes: dict[str, str] = {}
    images: dict[str, KnownImage] = {}
    intermediate = []
    name = str({**spec, **overrides}["name"])
    for entry in entries:
        base = BaseName.parse(entry["volume"])
        if base is None or not is_base(entry["pool"], entry["volume"], entry["digest"]):
            raise PlanRefused(
                f"{host}: {entry['volume']!r} is no base image; check what responds there"
            )
        value = f"{entry['pool']}/{entry['volume']}"
        volumes[entry["disk"]] = value
        images[value] = {
            "name": entry["name"],
            "digest": entry["digest"],
            "format": entry["format"],
            "virtual_bytes": (entry["size_mib"] or 0) * MIB,
        }
        # one of another name and the same content is somebody else's
        if base.name == image_name(name, entry["disk"]):
            intermediate.append(entry["volume"])
    missing = sorted(set(content) - set(volumes))
    if missing:
        raise PlanRefused(f"{host} made no image of {', '.join(missing)}; run this again")
    whole = {**specification.with_images(spec, volumes), **overrides}
    if "host" not in overrides and "placement" not in overrides:
        whole["host"] = host  # where the images are
    return ImportRequest([whole], images, host, intermediate)


def _skipped(answer: Converted) -> bool:
    return bool(answer.get("skipped")) or not answer
