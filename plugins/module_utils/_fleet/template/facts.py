# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when a VM is to be copied, or its disks become base images."""

from __future__ import annotations

from ..base import answers
from ..images.entries import BaseEntry


class TemplateLook(answers.Result, total=False):
    """The VMs and the base images of a hypervisor."""

    defined: list[answers.VmIdentity] | None
    volumes: list[str] | None


class CopiedImage(BaseEntry):
    """A base image with the content of a disk; ``(generated)`` is known only afterwards."""

    target: str


class TemplatedVm(answers.VmResult):
    """What came of it, and how consistent the copy is."""

    uuid: str | None
    steps: list[str]
    consistency: str | None


class Templated(answers.Result, total=False):
    """The result for a VM; ``image`` is the first of the images."""

    vms: list[TemplatedVm] | None
    image: CopiedImage | None
    images: list[CopiedImage] | None


class CloneSource(answers.Unreadable):
    """The VM to copy, or its copy: how it is described, and what it was created from."""

    name: answers.VmName
    phase: str | None
    specification: dict[str, object] | None
    problems: list[str]
    carried: str | None
    refused: list[str]
    left_out: list[str]
    request: dict[str, object] | None
    clone_of: str | None


class CloneLook(answers.Result, total=False):
    """The VMs of a hypervisor; ``alone``: why it exchanges no images with others."""

    defined: list[answers.VmIdentity] | None
    alone: str | None
    sources: list[CloneSource] | None
