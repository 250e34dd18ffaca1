#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_restart
short_description: Take over the VMs of a hypervisor that is off, from storage that is shared
version_added: 0.1.0
description:
  - Runs on the hypervisor that takes them over. A VM whose disks are all in pools that several
    hypervisors share has a card beside them, which describes it. The card is taken, which only one
    hypervisor can, the disks get other names, and the VM is defined here. It is not started.
  - The new names are such that no definition on the old hypervisor fits them, so that it starts
    nothing when it comes back. Only the files that the definition names are renamed; their backing
    files, base images and media are not.
  - B(This does not prove that the old hypervisor is off.) Renaming stops a start, not a process
    that runs. The playbook C(fleet.virt.restart_elsewhere) proves it before, by
    M(fleet.virt.virt_fence). One that shows a sign of life, and a disk that a process has locked,
    are refused.
  - If the module is killed, running the same task again continues.
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
  host:
    description:
      - Inventory name of the hypervisor that is off. If the card of a VM names two, the ends of a
        move or one that died while it took the VM over, both have to be off, and are named.
    type: list
    elements: str
    required: true
  names:
    description:
      - Names of the VMs.
    type: list
    elements: str
    default: []
  addresses:
    description:
      - Addresses of the hypervisors that are off, at which they must be silent. Without any their
        names are resolved.
    type: list
    elements: str
    default: []
  ports:
    description:
      - Ports on which it would accept connections if it were up, besides 22 and 16514.
    type: list
    elements: int
    default: []
  base_pool:
    description:
      - Name of the storage pool of base images.
    type: str
    default: base
  base_path:
    description:
      - Folder of that pool.
    type: path
    default: /var/lib/libvirt/base
seealso:
  - module: fleet.virt.virt_fence
    description: Proves that the hypervisor is off.
"""

EXAMPLES = r"""
- name: Define a VM here whose hypervisor is proven off
  fleet.virt.virt_restart:
    host: hv3
    names: [web1]
    addresses: [192.0.2.13]
"""

RETURN = r"""
vms:
  description: One entry for each of O(names).
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    uuid:
      description: Its UUID.
      type: str
    changed:
      description: Whether something was done for it.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
      sample: [take the card of web1 from hv3, define web1 on hv1]
    running:
      description: Whether it ran, by its card.
      type: bool
    waits:
      description: Whether it is expected to respond once it runs, since this collection seeded it.
      type: bool
    failed:
      description: Whether it was not taken over.
      type: bool
    msg:
      description: Why not; else null.
      type: str
host:
  description: This hypervisor, as placement sees it.
  returned: in playbooks of this collection
  type: dict
cards:
  description: The VMs whose cards name the hypervisor that is off.
  returned: in playbooks of this collection
  type: list
  elements: dict
unread:
  description: Cards that cannot be read.
  returned: in playbooks of this collection
  type: list
  elements: str
noted:
  description: What this hypervisor has noted of the one that is off.
  returned: in playbooks of this collection
  type: dict
in_cells:
  description: VMs that a cell restarts, whose cards name no hypervisor.
  returned: in playbooks of this collection
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    cell:
      description: The cell that runs it; null if this hypervisor is no member of it.
      type: str
    quorate:
      description: Whether this member has quorum.
      type: bool
    unclean:
      description: Members of it that are gone and not proven off.
      type: list
      elements: str
sign:
  description: How the hypervisor answers that should be off; else null.
  returned: in playbooks of this collection
  type: str
signs:
  description: The same by its addresses.
  returned: in playbooks of this collection
  type: dict
audible:
  description: Those of its addresses of which silence means something here.
  returned: in playbooks of this collection
  type: list
  elements: str
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import effects as notes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import effects, read
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.options import (
    ARGUMENTS,
    RestartWork,
    restart_options,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def answer() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            work = envelope.read(RestartWork, params)
            options = restart_options(params)
            if work.stage == "look":
                return read.look(connection, options)
            if work.stage == "note":
                notes.write(connection, work.claims, {})
                return {"changed": False}
            return effects.run(connection, options, work, check=module.check_mode)

    run(module, answer)


if __name__ == "__main__":
    main()
