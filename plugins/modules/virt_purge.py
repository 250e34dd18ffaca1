#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_purge
short_description: Remove domains with exactly the volumes that they own
version_added: 0.1.0
description:
  - Removes domains that this collection created, with the volumes created for them, seed medium,
    saved memory, snapshots, firmware variables and the log of the serial console.
  - A VM that this collection did not create is refused, even if M(fleet.virt.virt_seed) has seeded
    it.
  - A volume is removed only if the domain's metadata lists it, it is in the pool it was created in,
    and no process holds a lock on it. Base images, disks of others, media and folders are kept;
    what is kept, and why, is returned.
  - A domain is refused if another domain, snapshot or image of this hypervisor, attached or not,
    uses one of its disks, also as a backing file. The error names them.
  - Everything is checked before anything is touched. If one of several domains cannot be removed,
    none is.
  - A call that is killed leaves a domain that cannot be started; the next call finishes the
    removal. The same applies to a VM whose creation was killed.
  - The module knows only one hypervisor. The playbook C(fleet.virt.purge_vm) also queries the
    others, which is required for volumes on shared storage.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Returns exactly what would be removed and what would be kept.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  uri:
    description:
      - Has to be a hypervisor on the machine that the module runs on, where its files are located.
  names:
    description:
      - Names of the domains. A name that does not exist is not an error.
    type: list
    elements: str
    required: true
    aliases: [name]
  force:
    description:
      - Destroy a running domain, which is like pulling the plug. Without this a running domain is
        an error.
    type: bool
    default: false
  base_pool:
    description:
      - Name of the pool of base images; nothing in it is removed.
    type: str
    default: base
  asked:
    description:
      - Paths of volumes on storage that other hypervisors can reach, for which all of those have
        confirmed that they are not in use. Such a volume that is not listed here is an error.
    type: list
    elements: str
    default: []
seealso:
  - module: fleet.virt.virt_state
    description: Shuts a domain down before it is removed.
"""

EXAMPLES = r"""
- name: Remove a VM that is shut off
  fleet.virt.virt_purge:
    name: web1

- name: Remove two VMs, running or not
  fleet.virt.virt_purge:
    names: [web2, db1]
    force: true
"""

RETURN = r"""
vms:
  description: One entry for each domain, in the order of O(names).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    uuid:
      description: UUID of the domain; null if it did not exist.
      type: str
    changed:
      description: Whether anything was removed.
      type: bool
    removed:
      description: What was removed, in order.
      type: list
      elements: dict
      contains:
        kind:
          description: Kind of object, V(managed_save), V(volume), V(seed), V(log), V(snapshot),
            V(nvram) or V(domain).
          type: str
        name:
          description: Its name; for a volume, with its pool.
          type: str
        path:
          description: Its file.
          type: str
        size_mib:
          description: Virtual size of a volume.
          type: int
    kept:
      description: Files of the domain that are kept.
      type: list
      elements: dict
      contains:
        path:
          description: The file.
          type: str
        reason:
          description: Why it is kept.
          type: str
    failed:
      description: Whether it could not be removed.
      type: bool
    not_tried:
      description:
        - Whether nothing was done for it because another one of the same call failed.
      type: bool
    msg:
      description: Why not, or that it did not exist; else null.
      type: str
pool_ids:
  description: Ids of the pools of this hypervisor that have one.
  returned: in playbooks of this collection
  type: list
  elements: str
users:
  description: Requested files that are in use here, with V(file) and V(users).
  returned: in playbooks of this collection
  type: list
  elements: dict
shares:
  description: For each hypervisor the names of the domains to remove there.
  returned: in playbooks of this collection
  type: dict
absent:
  description: Names that are proven not to exist anywhere.
  returned: in playbooks of this collection
  type: list
  elements: str
files:
  description: Names of files on shared storage that all hypervisors have to be queried for.
  returned: in playbooks of this collection
  type: list
  elements: str
asked:
  description: Paths of these files.
  returned: in playbooks of this collection
  type: list
  elements: str
homes:
  description: For each of these files, the hypervisor of its domain.
  returned: in playbooks of this collection
  type: dict
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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import effects as purge
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.options import (
    ARGUMENTS,
    PurgeWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.plan import PurgeOptions


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options
    settings = purge.PurgeSettings(
        PurgeOptions(force=params["force"], base_pool=params["base_pool"]), tuple(params["asked"])
    )

    def work() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            stage = envelope.read(PurgeWork, params)
            if stage.stage == "look":
                return purge.look(connection, params["names"], [], stage.groups)
            if stage.stage == "users":
                return purge.look(connection, [], stage.files)
            return purge.run(connection, params["names"], settings, check=module.check_mode)

    run(module, work)


if __name__ == "__main__":
    main()
