# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base images of VMs' disks and drives that are missing on the VMs' destinations."""

from __future__ import annotations

import posixpath
import typing as t

from ..images.facts import ImageFacts
from ..storage.base_name import BaseName, Digest


def lacking(
    shares: t.Mapping[str, t.Sequence[tuple[str, str]]],
    answers: t.Mapping[str, t.Mapping[str, t.Any]],
    *,
    media: bool = True,
) -> dict[str, dict[str, list[str]]]:
    """By destination: the volumes of base images that it lacks, each with the hypervisors that have
    its content under any name, the source of the VM first.

    The overlay's header names the volume, so the destination lacks it even if it has the same
    content under another name: it is copied there from that.

    ``shares`` are those of a decision, ``answers`` the results of reading each hypervisor. Without
    ``media``, drives are emptied before.
    """
    images = {host: set(answer["host"].get("images") or ()) for host, answer in answers.items()}
    volumes: dict[str, dict[str, list[str]]] = {}
    for source, moves in shares.items():
        vms = {str(vm["name"]): vm for vm in answers.get(source, {}).get("vms") or ()}
        for name, to in moves:
            if name not in vms or to not in images:
                continue  # it has arrived, or the other end is unknown
            paths = [disk["backing"] or "" for disk in vms[name]["disks"]]
            paths += vms[name]["media"] if media else []
            for volume in map(posixpath.basename, paths):
                # an image elsewhere, such as on shared storage, is not among those of the source
                if volume not in images[source] or volume in images[to]:
                    continue
                base = BaseName.parse(volume)
                if base is not None and volume not in volumes.get(to, ()):
                    rest = [
                        host
                        for host in sorted(images)
                        if host not in (source, to) and _has(images[host], base.digest)
                    ]
                    volumes.setdefault(to, {})[volume] = [source, *rest]
    return volumes


def _has(volumes: t.Collection[str], digest: Digest) -> bool:
    bases = map(BaseName.parse, volumes)
    return any(base is not None and base.digest == digest for base in bases)


def as_source(volume: str) -> dict[str, object]:
    """What ``virt_image`` needs to get a base image from another hypervisor, or to copy it from
    the same content there, as exactly this volume."""
    base = BaseName.parse(volume)
    if base is None:
        raise ValueError(f"{volume!r} is no base image")
    facts = ImageFacts(base.file_name, base.digest, base.format, 0)
    return {**facts.as_dict(), "volume": volume}


def outcome(volume: str, steps: t.Sequence[str], *, check: bool) -> str:
    """The line that says where the base image ``volume`` came from, or would come from; ``steps``
    are what was tried, the last one with success."""
    *tried, last = steps or ["already present"]
    if steps and check:
        last = f"would be {last}" if last.startswith("copied ") else f"would be transferred: {last}"
    return f"base image {volume}: {'; '.join([*tried, last])}"
