# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Can run in check mode and return what would change without changing it.
  diff_mode:
    description: Returns details of what changed or would change, in diff mode.
  idempotent:
    description: When run again with the same options, it changes nothing.
  platform:
    description: Operating systems the module runs on.
    support: full
    platforms: linux
  action_group:
    description: Use C(group/fleet.virt.virt) in C(module_defaults) to set defaults for all.
    support: full
    membership:
      - fleet.virt.virt
"""

    READING = r"""
attributes:
  check_mode:
    support: full
    details:
      - Reads only; check mode makes no difference.
  diff_mode:
    support: N/A
    details:
      - Changes nothing.
  idempotent:
    support: full
"""
