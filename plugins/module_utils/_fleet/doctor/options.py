# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of virt_doctor, which module and action plugin share."""

from __future__ import annotations

from ..._records import dataclass
from ..base.arguments import Spec
from ..engine.envelope import Work

ARGUMENTS: Spec = {
    "base_pool": {"type": "str", "default": "base"},
    "min_free": {"type": "str", "default": "10GiB"},
    "expiry_days": {"type": "int", "default": 30},
    "clock_seconds": {"type": "float", "default": 1.0},
    "strict": {"type": "bool", "default": False},
    "output": {"type": "str", "choices": ["table", "json", "yaml", "csv"], "default": "table"},
    "output_file": {"type": "path"},
}


@dataclass(frozen=True)
class DoctorWork(Work):
    """A stage of looking at a fleet; ``base_path`` is where base images are made."""

    STAGES = ("all", "look", "report")

    base_path: str = "/var/lib/libvirt/base"
