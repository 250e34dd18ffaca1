#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_maintenance
short_description: Mark a hypervisor as in maintenance, so that no VM is placed on it
version_added: 0.1.0
description:
  - Sets or removes the maintenance mark of a hypervisor, an empty volume C(fleet-virt.maintenance)
    in its pool C(fleet-notes), which it never shares with another hypervisor. It is stored in
    libvirt itself, so that anyone who reads the hypervisor sees it. A mark in the pool of base
    images, where earlier versions set it, still counts, and is removed with V(absent).
  - No VM is placed on a hypervisor that has the mark, or on one whose mark cannot be read. VMs that
    run there keep running. A VM that specifies this hypervisor is refused too.
  - The playbook C(fleet.virt.maintenance) also notes the mark on the other hypervisors, which show
    since when the hypervisor is in maintenance while it does not answer. This module reaches only
    the hypervisor it runs on, so it notes nothing, and such a hypervisor is shown as one that does
    not answer. Nothing is decided by that note.
  - Where the hypervisor is a member of a cell, that is told as well, and starts none of its VMs
    here. Those that run here stay.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - Whether the hypervisor has the mark.
    type: str
    choices: [present, absent]
    default: present
  base_pool:
    description:
      - Name of the storage pool of base images, where an earlier version may have set the mark.
    type: str
    default: base
  base_path:
    description:
      - Folder of that pool. A pool that has this folder is used whatever its name.
    type: path
    default: /var/lib/libvirt/base
seealso:
  - module: fleet.virt.virt_host_info
    description: Shows whether a hypervisor is in maintenance.
"""

EXAMPLES = r"""
- name: Stop placing VMs here
  fleet.virt.virt_maintenance:

- name: Place VMs here again
  fleet.virt.virt_maintenance:
    state: absent
"""

RETURN = r"""
maintenance:
  description: Whether the hypervisor has the mark, or would in check mode.
  returned: success
  type: bool
cell:
  description:
    - What the cell of this hypervisor was not told, why, and what to do. The mark itself was set or
      removed nevertheless.
  returned: if it is a member of a cell without quorum, or Pacemaker does not run
  type: str
machine:
  description: The UUID of its machine, by which others note that.
  returned: in playbooks of this collection
  type: str
at:
  description: The time of its clock, in milliseconds since 1970.
  returned: in playbooks of this collection
  type: int
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import (
    effects_maintenance as of_cell,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    effects_maintenance as maintenance,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.marks import MaintenanceWork


def main() -> None:
    module = create_module(
        {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "base_pool": {"type": "str", "default": "base"},
            "base_path": {"type": "path", "default": "/var/lib/libvirt/base"},
        },
        envelope.SPEC,
    )
    params = module.options
    work = envelope.read(MaintenanceWork, params)

    def mark() -> dict[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            if work.stage == "note":
                return maintenance.note(connection, work.marks, check=module.check_mode)
            marked = maintenance.mark(
                connection,
                params["state"] == "present",
                params["base_pool"],
                params["base_path"],
                check=module.check_mode,
                noted=work.stage == "act",
            )
            if not connection.local:
                return marked
            return of_cell.mark(marked, params["state"] == "present", check=module.check_mode)

    run(module, mark)


if __name__ == "__main__":
    main()
