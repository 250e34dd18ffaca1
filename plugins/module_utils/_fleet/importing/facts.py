# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers that has made base images of the disks of a VM."""

from __future__ import annotations

from ..base import answers
from ..images.entries import BaseEntry


class ConvertedImage(BaseEntry):
    """A base image with the content of a disk; ``disk`` is its name in the specification."""

    disk: str


class Converted(answers.Result, total=False):
    """The base images."""

    images: list[ConvertedImage] | None
