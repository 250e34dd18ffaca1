#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_restore_file
short_description: Restore a file of a guest from the backup of its VM
version_added: 0.1.0
description:
  - Reads one file of a guest's file systems from an archive of its VM, and writes it on the
    controller, readable by its user only. No VM and no hypervisor is changed.
  - libguestfs reads it, in a small VM of its own; what is a guest's is mounted by no kernel of a
    hypervisor. It has to recognise the guest's operating system.
  - B(A file that exists on the controller is never overwritten.) A link within the guest is
    followed there; a folder and a device are refused. The content is in no output and no log.
  - Needs libguestfs (C(guestfish)) and borg on the hypervisor, and its Python bindings of FUSE
    (package python3-pyfuse3).
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - In check mode the file is read, and not written.
  diff_mode:
    support: none
    details:
      - A file of a guest may hold a secret.
  idempotent:
    support: full
options:
  name:
    description:
      - Name of the VM when it was saved, or its UUID.
    type: str
    required: true
  path:
    description:
      - The file, as the guest knows it, such as V(/etc/fstab).
    type: str
    required: true
  dest:
    description:
      - The file on the controller.
    type: path
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
  max_mib:
    description:
      - Size from which on a file is refused, in MiB, at most 64.
    type: int
    default: 16
seealso:
  - module: fleet.virt.virt_restore_disk
    description: Restores a disk beside its VM, for more than a file.
"""

EXAMPLES = r"""
- name: Read a file as it was then
  fleet.virt.virt_restore_file:
    name: web1
    path: /etc/fstab
    dest: web1-fstab
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
      description: The name that the VM had.
      type: str
    changed:
      description: Whether the file was written.
      type: bool
    archive:
      description: Where it is from, the UUID of the VM that was saved and the archive's name.
      type: str
    size:
      description: Its size in bytes.
      type: int
    failed:
      description: Always false; a failure is that of the task.
      type: bool
    msg:
      description: Always null.
      type: str
lacks:
  description: The programs that this hypervisor lacks.
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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import effects_file
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options_file import (
    ARGUMENTS,
    RestoreFileWork,
    file_options,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def answer() -> Mapping[str, object]:
        work = envelope.read(RestoreFileWork, params)
        if work.stage == "look":
            return effects_file.look()
        return effects_file.run(file_options(params), work)

    run(module, answer)


if __name__ == "__main__":
    main()
