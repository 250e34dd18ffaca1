# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel setting for post-copy: unprivileged QEMU receives memory while the guest runs."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base import effects_config_files as config_files

_SYSCTL = "/etc/sysctl.d/60-fleet-virt-libvirtd.conf"
_USERFAULT = "/proc/sys/vm/unprivileged_userfaultfd"


@dataclass(frozen=True)
class KernelPlan:
    """What to do: as text, as files (None: removed), and in the running kernel."""

    steps: list[str] = field(default_factory=list)
    files: t.Mapping[str, str | None] = field(default_factory=dict)
    live: bool = False

    def apply(self) -> None:
        """Apply the setting to the running kernel; the caller writes the files."""
        if not self.live:
            return
        try:
            Path(_USERFAULT).write_text("1\n", encoding="ascii")
        except OSError as error:
            raise PlanRefused(
                f"postcopy: {_USERFAULT} cannot be set ({error.strerror}); in a container, set it"
                " on the container's host"
            ) from None


def read(postcopy: bool) -> KernelPlan:
    """The plan for what is missing; changes nothing."""
    text = "vm.unprivileged_userfaultfd = 1\n" if postcopy else None
    steps: list[str] = []
    files: dict[str, str | None] = {}
    if config_files.read(_SYSCTL) != text:
        steps.append(f"{'write' if text else 'remove'} {_SYSCTL}")
        files[_SYSCTL] = text
    live = postcopy and (config_files.read(_USERFAULT) or "1").strip() != "1"
    if live:
        steps.append(f"set {_USERFAULT} to 1")
    return KernelPlan(steps, files, live)
