#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_backup
short_description: Back up domains to a place apart from their hypervisor
version_added: 0.2.0
description:
  - Saves each domain as an archive of borg in a repository of its own, which is named after its
    UUID, below O(to). The repository is created if it is missing, and encrypted.
  - An archive has all disks as the guest sees them, flattened, from one moment, with holes as
    holes, also those that are read-only, plugged in until the domain is shut off, or added for its
    next start; the definition, the UEFI variables, the state of an emulated TPM, the record of the
    seed, and a manifest with digests. Internal snapshots are not in it.
  - A disk that is read-only, or only waits for the next start, is left out if it cannot be saved.
    Manifest and result name it (RV(vms[].left_out)).
  - A running domain keeps running. Its disks are read by a backup job of libvirt, which needs a
    folder (O(scratch)) for what the guest overwrites meanwhile. Before that is full, the backup is
    abandoned, so that the guest never has to wait for space.
  - The guest agent freezes the guest's file systems for the moment at which the job begins. What
    consistency a backup has is recorded and returned. The UEFI variables and the TPM's state are
    copied right after that moment.
  - A domain that is off is read without any lock. If it is started meanwhile, the start wins and
    the backup is abandoned. So it is by a shutdown, a move or a snapshot of a running one.
  - An abandoned backup leaves neither an archive nor anything on the hypervisor. One that fails
    stops no other.
  - Domains are refused if they have saved memory, disks that are encrypted by QEMU or shareable,
    disks other than files and block devices in qcow2 or raw, or if another run is working on them.
  - A folder on a disk of the hypervisor itself is refused, because such a copy is lost with it.
  - Hypervisors need the packages C(borgbackup) and C(fuse3), and C(qemu-storage-daemon), which
    comes with QEMU. The role P(fleet.virt.libvirtd#role) installs them with
    C(libvirtd_backup=true).
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
    support: none
    details:
      - Each call makes one more backup.
options:
  names:
    description:
      - Names of the domains. One that is not defined on the hypervisor is an error.
    type: list
    elements: str
    required: true
    aliases: [name]
  to:
    description:
      - The place of backups. Either a folder on a network file system that is mounted on the
        hypervisor, or V(ssh://user@host[:port]/folder) of a server that has borg.
      - Always required.
    type: str
  passphrase:
    description:
      - The passphrase of the repositories. It is handed to borg by a pipe, and is in no command
        line, environment or file of the hypervisor.
      - Required unless in check mode.
    type: str
  ssh_key:
    description:
      - The private key on the hypervisor with which it reaches the server. Defaults to those of
        root's ssh.
    type: path
  quiesce:
    description:
      - Whether the guest agent freezes the guest's file systems at the moment of the backup.
        Otherwise a backup of a running domain is crash-consistent, as after a power failure. The
        guest thaws after 90 seconds, whatever happens to the run.
      - V(auto) freezes them if an agent responds, V(always) refuses the domain if none does, and
        V(never) does not try.
    type: str
    choices: [auto, always, never]
    default: auto
  scratch:
    description:
      - Folder on the hypervisor for what running guests overwrite while they are saved. It is
        created if it is missing, and empty afterwards.
    type: path
    default: /var/lib/fleet-virt/scratch
  scratch_mib:
    description:
      - How much of that folder a backup may use, in MiB, at least 16. At 80 percent of it, the
        backup is abandoned. Defaults to the free space of its file system.
    type: int
seealso:
  - module: fleet.virt.virt_snapshot
    description: Snapshots are on the disk that they would save, and no backup.
"""

EXAMPLES = r"""
- name: Back up a domain to a server
  fleet.virt.virt_backup:
    name: web1
    to: ssh://backup@backup.example.com/srv/backup
    passphrase: "{{ vault_backup_passphrase }}"

- name: Back up two domains to a mounted folder, only with their file systems frozen
  fleet.virt.virt_backup:
    names: [web1, db1]
    to: /mnt/backup
    passphrase: "{{ vault_backup_passphrase }}"
    quiesce: always
"""

RETURN = r"""
vms:
  description: One entry for each domain; in playbooks of this collection it may have its groups.
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
    changed:
      description: Whether a backup was made.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
      sample: [save 1 disk of one moment to /mnt/backup]
    archive:
      description: Name of the archive, its moment in UTC; null if none was made.
      type: str
      sample: "2026-11-28T06:51:18Z"
    consistency:
      description:
        - V(frozen), V(crash-consistent), or V(shut off) for a domain that did not run.
      type: str
    size:
      description: Size of its disks in bytes.
      type: int
    added:
      description: By how many bytes the repository grew.
      type: int
    left_out:
      description:
        - The disks that are not in the backup, each with the reason, for example one that waits for
          the next start and that another domain writes to.
      type: list
      elements: str
    one_file:
      description:
        - The disks that have their data in another file, each with that file. In the backup they
          are one file.
      type: list
      elements: str
    gave_way:
      description:
        - Whether it failed since something else was done to the domain, which wins, such as a
          move, a snapshot, a start or a shutdown. It can be tried again, where the domain is then.
      type: bool
    failed:
      description: Whether it failed.
      type: bool
    not_tried:
      description: Always false.
      type: bool
    msg:
      description: Why not; else null.
      type: str
shares:
  description: The names of the domains that each hypervisor works on.
  returned: in playbooks of this collection
  type: dict
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import effects as backup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options_saving import (
    ARGUMENTS,
    BackupWork,
    wanted_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def work() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            stage = envelope.read(BackupWork, params)
            if stage.stage == "look":
                again = stage.round > 0
                return backup.look(connection, params["names"], stage.groups, again=again)
            wanted = wanted_of(params, secret=not module.check_mode)
            again, check = stage.round > 0, module.check_mode
            return backup.run(connection, params["names"], wanted, check=check, again=again)

    run(module, work)


if __name__ == "__main__":
    main()
