# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  uri:
    description:
      - Connection URI of libvirt, opened on the host the module runs on.
      - V(qemu:///system) is the system's hypervisor, V(qemu:///session) that of an unprivileged
        user, V(test:///default) libvirt's own test driver.
    type: str
    default: qemu:///system
  timeout:
    description:
      - Limit for a single call to libvirt, in seconds.
      - A call that exceeds it (a dead guest agent, a hanging mount) is reported with the object it
        concerns, and the rest continues.
    type: float
    default: 10.0
requirements:
  - libvirt's Python binding (package python3-libvirt, on SUSE python3-libvirt-python)
  - lxml (package python3-lxml)
"""
