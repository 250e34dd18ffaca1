#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_rename
short_description: Rename a domain
version_added: 0.2.0
description:
  - Renames a domain that is shut off. The metadata of this collection is kept.
  - The log of its console gets the new name. Its UEFI variables are moved to a file named after its
    UUID, because libvirt would give the file with the old name to a new VM.
  - Its volumes keep their names unless O(volumes) is set. The guest's own host name is not changed.
  - A domain that this collection neither created nor adopted, one with saved memory, and one with
    snapshots or checkpoints (which libvirt cannot rename) are refused.
  - If the module is killed, the domain is left in phase V(renaming); running the same task again
    finishes it.
  - Whether another hypervisor has a VM of the new name is not checked here; the playbook
    C(fleet.virt.rename) does that, before and after it claims the name.
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
    details:
      - A domain of the new name that was renamed from the old one is left unchanged.
options:
  name:
    description:
      - Name of the domain.
    type: str
    required: true
  new_name:
    description:
      - New name, of letters, digits and C(-_.).
    type: str
    required: true
  volumes:
    description:
      - Also rename its own volumes that are named after it, such as C(web1_system.qcow2),
        C(web1.qcow2) and C(web1-1.qcow2). Volumes that do not belong to it, and those with other
        names, keep theirs; RV(vms[].kept) lists them.
      - This is refused if another VM uses one of them, an image such as that of a linked copy is
        backed by one, or one is on storage that other hypervisors can reach.
      - A domain that already has its new name gets its volumes renamed.
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_adopt
    description: Adopts a domain that was created by other means.
"""

EXAMPLES = r"""
- name: Rename a domain that is shut off
  fleet.virt.virt_rename:
    name: web1
    new_name: web9

- name: Rename another one with its volumes
  fleet.virt.virt_rename:
    name: db1
    new_name: db9
    volumes: true
"""

RETURN = r"""
vms:
  description: One entry.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: The new name.
      type: str
    uuid:
      description: UUID of the domain.
      type: str
    changed:
      description: Whether it was renamed.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
      sample: [mark web1, rename web1 to web9, web9 is complete]
    kept:
      description: Files of its disks that keep their names, with O(volumes=true).
      type: list
      elements: dict
      contains:
        path:
          description: Path of the file.
          type: str
        reason:
          description: Why it is not renamed.
          type: str
    failed:
      description: Whether it could not be renamed.
      type: bool
    msg:
      description: Why not; else null.
      type: str
defined:
  description: The VMs of the hypervisor.
  returned: in playbooks of this collection
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    uuid:
      description: UUID of the VM.
      type: str
    phase:
      description: Phase of a run that is working on it.
      type: str
    leftover:
      description: Which hypervisor has the VM by its card, where the definition here is only left
        from before it was restarted there.
      returned: where there is such a definition
      type: str
    nowhere:
      description: The cell of a VM that no hypervisor defines and its members know by its card.
      returned: for such a VM
      type: str
    managed:
      description: Whether this collection created or adopted it.
      type: bool
    renamed_from:
      description: Its previous name.
      type: str
hypervisor:
  description: Hypervisor of the VM.
  returned: in playbooks of this collection
  type: str
taken:
  description: Whether the new name was claimed.
  returned: in playbooks of this collection
  type: bool
problem:
  description: Reason against the renaming; may be empty.
  returned: in playbooks of this collection
  type: str
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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import effects as rename
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename.options import (
    ARGUMENTS,
    RenameWork,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def work() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            given = envelope.read(RenameWork, params)
            stage = given.stage
            if stage == "look":
                return rename.look(connection, given.claims)
            if stage == "noted":
                return rename.noted(connection, given.answering)
            old, new = params["name"], params["new_name"]
            volumes = params["volumes"]
            return rename.run(connection, old, new, stage, check=module.check_mode, volumes=volumes)

    run(module, work)


if __name__ == "__main__":
    main()
