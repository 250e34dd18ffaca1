#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_adopt
short_description: Adopt domains that were not created by this collection
version_added: 0.2.0
description:
  - For each domain that was created by other means, writes the specification that describes its
    present state, and marks it as managed, so that it can be moved, changed, renamed and removed
    like any other. The domain itself is not touched and keeps running.
  - What no option of M(fleet.virt.virt_init) describes stays as it is, and is listed in
    RV(vms[].undescribed).
  - The disks of an adopted VM do not become its own; removing the VM leaves them in place. With
    O(disks), disks become its own if they are files in a pool of this hypervisor alone and nothing
    else uses them. A base image, the backing file of another disk, a disk of two domains and one on
    shared storage never do.
  - Whether another hypervisor has a VM of the same name is not checked here; the playbook
    C(fleet.virt.adopt) does that, and writes the file for C(fleet.virt.plan).
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
  names:
    description:
      - Names of the domains. Defaults to all that this collection did not create.
    type: list
    elements: str
    default: []
    aliases: [name]
  disks:
    description:
      - Whether their disks become their own. Disks that already are stay so without it.
    type: bool
    default: false
  pool:
    description:
      - Pool of disks for which none is specified.
    type: str
    default: default
  base_pool:
    description:
      - Pool of the base images, which no VM owns.
    type: str
    default: base
seealso:
  - module: fleet.virt.virt_init
    description: The options of a specification.
  - module: fleet.virt.virt_plan
    description: Shows how VMs differ from it.
"""

EXAMPLES = r"""
- name: Show what would be adopted
  fleet.virt.virt_adopt:
  check_mode: true

- name: Adopt one domain with its disks
  fleet.virt.virt_adopt:
    name: legacy1
    disks: true
"""

RETURN = r"""
vms:
  description: One entry for each domain.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    uuid:
      description: UUID of the domain.
      type: str
    specification:
      description: The minimal options of M(fleet.virt.virt_init) that describe it.
      type: dict
      sample: {name: legacy1, vcpus: 2, memory: 2048, disk_profile: none, nic_profile: none}
    undescribed:
      description: Parts of its definition, by their paths, that the specification does not
        describe, and that C(fleet.virt.clone) refuses to copy.
      type: list
      elements: str
      sample: [devices/shmem]
    owned:
      description: Paths of the disks that are its own.
      type: list
      elements: str
    kept:
      description: With O(disks), the disks that are not its own.
      type: list
      elements: dict
      contains:
        path:
          description: Path of the disk.
          type: str
        reason:
          description: Why it is not the domain's own.
          type: str
    changed:
      description: Whether it was adopted, or more disks became its own.
      type: bool
    failed:
      description: Whether it could not be adopted.
      type: bool
    msg:
      description: Why not, or a remark; else null.
      type: str
shares:
  description: For each hypervisor the names of the VMs to adopt there.
  returned: in playbooks of this collection
  type: dict
refused:
  description: The VMs that are not adopted, and why.
  returned: in playbooks of this collection
  type: list
  elements: str
shared_ids:
  description: Ids of pools that several hypervisors share.
  returned: in playbooks of this collection
  type: list
  elements: str
virt_vms:
  description: The specifications of all VMs, as they are written to the file.
  returned: in playbooks of this collection
  type: list
  elements: dict
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import effects as adopt
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption.options import (
    ARGUMENTS,
    AdoptWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption.plan import AdoptionOptions
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def work() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            stage = envelope.read(AdoptWork, params)
            if stage.stage == "look":
                return adopt.look(connection, params["names"], params["pool"])
            options = AdoptionOptions(params["disks"], params["base_pool"], tuple(stage.shared_ids))
            return adopt.run(
                connection, params["names"], params["pool"], options, check=module.check_mode
            )

    run(module, work)


if __name__ == "__main__":
    main()
