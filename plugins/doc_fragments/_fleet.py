# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  expected:
    description:
      - Names of all hypervisors of the fleet, for O(stage=decide). One that is not in the play
        (C(--limit)) counts as silent.
    type: list
    elements: str
  lost:
    description:
      - Hypervisors that are permanently gone, so that nobody waits for their answer.
    type: list
    elements: str
    default: []
"""
