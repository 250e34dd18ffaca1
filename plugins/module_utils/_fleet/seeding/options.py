# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stages of ``virt_wait``, for its action plugin."""

from __future__ import annotations

from ..._records import dataclass
from ..engine.envelope import Work


@dataclass(frozen=True)
class WaitWork(Work):
    """A stage of waiting for VMs: for addresses, for SSH, or a check of which respond now."""

    STAGES = ("all", "check", "address", "ssh")
