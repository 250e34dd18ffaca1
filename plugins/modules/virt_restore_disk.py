#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_restore_disk
short_description: Restore a disk of a VM from its backup beside the VM
version_added: 0.1.0
description:
  - Writes a disk from an archive of the VM into a new volume, thin, in the format it had, with the
    VM, the disk and the moment in its name. The VM is not touched, whether it runs or not, and the
    volume is not attached to it.
  - B(A file that exists is never touched.) Until all of the disk is there, and has the digest of
    the archive's manifest, its file has another name, which ends in C(.restoring); what a run that
    was killed left of that, the next one removes. A volume of the final name is complete, and stays
    as it is.
  - The playbook C(fleet.virt.restore_disk) looks for the hypervisor that has the VM. This module
    looks at its own.
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
  name:
    description:
      - Name of the VM when it was saved, or its UUID.
    type: str
    required: true
  disk:
    description:
      - The disk, by its name in the definition of the VM by this collection (V(data)), or by its
        device (V(vdb)).
    type: str
    required: true
  archive:
    description:
      - The archive, for example V(2026-11-28T06:51:18Z); the newest by default.
    type: str
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
      - Pool for the volume, by default the one in whose folder the disk was, or V(default).
    type: str
seealso:
  - module: fleet.virt.virt_restore
    description: Restores whole VMs.
"""

EXAMPLES = r"""
- name: Restore an earlier state of a disk beside the VM
  fleet.virt.virt_restore_disk:
    name: web1
    disk: data
    archive: "2026-11-28T06:51:18Z"
    place: /srv/backup
    passphrase: "{{ virt_backup_passphrase }}"
"""

RETURN = r"""
vms:
  description: One entry for the VM.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: The name that the VM has now.
      type: str
    uuid:
      description: Its UUID.
      type: str
    changed:
      description: Whether something was done.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
      sample:
        - create default/web1_data-2026-11-28T065118Z.qcow2
        - restore default/web1_data-2026-11-28T065118Z.qcow2
        - name it /var/lib/libvirt/images/web1_data-2026-11-28T065118Z.qcow2
    archive:
      description: Where it is from, the UUID of the VM that was saved and the archive's name.
      type: str
    pool:
      description: The pool that has the volume.
      type: str
    path:
      description: The file of the volume.
      type: str
    failed:
      description: Whether it was not restored.
      type: bool
    msg:
      description: Why not; else null.
      type: str
disks:
  description: Whether the VM is on this hypervisor.
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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import effects_disk
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options_disk import (
    ARGUMENTS,
    RestoreDiskWork,
    disk_options,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def answer() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            work = envelope.read(RestoreDiskWork, params)
            if work.stage == "look":
                return effects_disk.look(connection, work)
            options = disk_options(params)
            return effects_disk.run(connection, options, work, check=module.check_mode)

    run(module, answer)


if __name__ == "__main__":
    main()
