#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_restore
short_description: Restore VMs from their backups
version_added: 0.1.0
description:
  - Runs on the hypervisor that is to have the VMs. Each is defined from its archive, as that
    hypervisor can have it, and each of its disks is written from there into a new volume, thin, in
    the format it had. What it had below its disks (base images, snapshots) is not needed. It is not
    started.
  - B(A VM that exists is never touched), nor is a file. A VM is restored beside it under
    O(new_name).
  - Every disk is compared with the digest in the archive's manifest.
  - If the module is killed, running the same task again removes what was incomplete, and restores
    again.
  - The playbook C(fleet.virt.restore) asks the whole fleet whether name, UUID and MAC addresses are
    free, and chooses the hypervisor. This module asks its own.
  - Needs borg (package borgbackup) and qemu-nbd (package qemu-utils) on the hypervisor.
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
      - Names of the VMs when they were saved, or their UUIDs.
    type: list
    elements: str
    required: true
  new_name:
    description:
      - Name that the VM gets, if not the one that it had.
    type: str
  archive:
    description:
      - The archive, for example V(2026-11-28T06:51:18Z); the newest by default.
    type: str
  restore_as:
    description:
      - V(restore) keeps UUID and MAC addresses, which no other VM may have. V(copy) makes another
        VM, with new ones.
      - By default V(copy) with O(new_name), else V(restore).
    type: str
    choices: [restore, copy]
  without:
    description:
      - What the archive lacks of the VM, which is restored without it. Targets of disks (V(vdb))
        that only one of definition and archive has, or V(hostdev) for the devices that its former
        hypervisor passed to it. The error without it names these.
      - A disk that only the archive has stays there. M(fleet.virt.virt_restore_disk) restores it.
    type: list
    elements: str
    default: []
  place:
    description:
      - Where the backups are, a folder or C(ssh://user@host/folder), in which each VM has a
        repository by its UUID.
    type: str
    required: true
  passphrase:
    description:
      - The passphrase of the repositories. It is given to borg through a pipe.
    type: str
    required: true
  ssh_key:
    description:
      - Private key with which root on the hypervisor reaches a server of backups, if not its own.
    type: path
  pool:
    description:
      - Pool for disks whose former folder is no pool here.
    type: str
    default: default
  pool_path:
    description:
      - Folder of that pool, which is made where neither exists.
    type: path
    default: /var/lib/libvirt/images
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
  - module: fleet.virt.virt_state
    description: Starts what was restored.
"""

EXAMPLES = r"""
- name: Restore a VM here that is gone
  fleet.virt.virt_restore:
    names: [web1]
    place: /srv/backup
    passphrase: "{{ virt_backup_passphrase }}"

- name: Restore an earlier state of it beside it
  fleet.virt.virt_restore:
    names: [web1]
    new_name: web1-before
    archive: "2026-11-28T06:51:18Z"
    place: /srv/backup
    passphrase: "{{ virt_backup_passphrase }}"
"""

RETURN = r"""
vms:
  description: One entry for each VM.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: The name that it has now.
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
      sample: [restore default/web1_system.qcow2, define web1 on hv1]
    archive:
      description: Where it is from, the UUID of the VM that was saved and the archive's name.
      type: str
    failed:
      description: Whether it was not restored.
      type: bool
    msg:
      description: Why not; else null.
      type: str
host:
  description: This hypervisor, as placement sees it.
  returned: in playbooks of this collection
  type: dict
entries:
  description: What it would have of the VMs.
  returned: in playbooks of this collection
  type: list
  elements: dict
noted:
  description: What it noted of hypervisors that do not answer.
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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import effects, read
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import (
    ARGUMENTS,
    RestoreWork,
    restore_options,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def answer() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            work = envelope.read(RestoreWork, params)
            options = restore_options(params)
            if work.stage == "look":
                return read.look(connection, options, work)
            if work.stage == "withdraw":
                return effects.withdraw(connection, work.vms)
            return effects.run(connection, options, work, check=module.check_mode)

    run(module, answer)


if __name__ == "__main__":
    main()
