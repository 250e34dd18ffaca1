#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_backup_info
short_description: List the backups of VMs
version_added: 0.1.0
description:
  - Asks the repositories of a place which backups they have, and what is proven of each.
  - Runs on the controller and contacts no hypervisor, so it lists the backups of VMs that are gone
    and of hypervisors that are down as well. Needs Debian's package C(borgbackup) there.
  - C(fleet.virt.backups) does this for the places of the fleet.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  uri:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  timeout:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  places:
    description:
      - Places of backups, each the path of a folder, or C(ssh://user@server/folder). Playbooks of
        the collection take the variable C(virt_backup_read_from), else C(virt_backup_to) of all
        hypervisors of the play.
    type: list
    elements: str
    required: true
  names:
    description:
      - VMs, by the name that any of their backups has, a pattern, or their UUID. By default, all of
        which there are backups.
    type: list
    elements: str
    default: []
  ssh_key:
    description:
      - File with the private SSH key for places on a server, by default those of the user's ssh.
        The account needs a shell there.
    type: path
  passphrase_variable:
    description:
      - Name of the variable with the passphrase of the repositories, which should be in a vault. It
        is handed to borg through a pipe.
    type: str
    default: virt_backup_passphrase
  sizes:
    description:
      - Whether to find out how much each backup added, for which borg reads what it does not know
        yet of every archive.
    type: bool
    default: true
  hours:
    description:
      - Say of each VM whether it has no backup of the last so many hours.
    type: float
  output:
    description:
      - Format of the output.
    type: str
    choices: [table, json, yaml, csv]
    default: table
  output_file:
    description:
      - File on the controller to write the output to, instead of printing it.
    type: path
seealso:
  - module: fleet.virt.virt_backup_prune
    description: Deletes the backups that a policy does not keep.
"""

EXAMPLES = r"""
- name: List the backups of a VM
  fleet.virt.virt_backup_info:
    places: [/srv/backup]
    names: [web1]
  run_once: true
"""

RETURN = r"""
vms:
  description: One entry for each repository, that is for each VM and place.
  returned: always
  type: list
  elements: dict
  contains:
    place:
      description: Where the repository is.
      type: str
    uuid:
      description: UUID of the VM.
      type: str
    name:
      description: Name of the VM when it was last backed up; null if nothing could be read.
      type: str
    error:
      description: Why the repository could not be read; else null.
      type: str
    unreadable:
      description: Archives that have the name of a backup or a proof and are none, with the reason.
      type: dict
    notes:
      description: What has to be known besides, such as backups that are later than the clock, and
        proofs of other archives.
      type: list
      elements: str
    overdue:
      description: Whether there is no backup of the last O(hours) hours; null without it, and where
        that is not known.
      type: bool
    backups:
      description: The backups, oldest first.
      type: list
      elements: dict
      contains:
        archive:
          description: Name of the archive.
          type: str
          sample: "2026-11-28T06:51:18Z"
        vm:
          description: Name of the VM at that time.
          type: str
        hypervisor:
          description: Where the VM was.
          type: str
        at:
          description: The moment that was saved, in UTC.
          type: str
        consistency:
          description: V(frozen), the guest agent had frozen the file systems; V(crash-consistent),
            as after a loss of power; V(shut off), the VM did not run.
          type: str
        size:
          description: Size of its disks as the guest sees them, in bytes.
          type: int
        added:
          description: Bytes in the repository that no other backup needs; of the newest backup,
            what it added. Null without O(sizes).
          type: int
        state:
          description: V(listed and complete) once it was saved; V(read back) after all of it was
            read and its digests were right; V(proven) after it booted; V(failed) if its last
            verification failed.
          type: str
        ahead:
          description: Whether it is more than ten minutes later than the controller's clock, and
            so counts as no backup.
          type: bool
        proof:
          description: The last verification, null if there was none.
          type: dict
          contains:
            result:
              description: V(booted), V(read back) or V(failed).
              type: str
            at:
              description: When, in UTC.
              type: str
            how:
              description: By what.
              type: str
output:
  description: The text that was printed, or written to O(output_file).
  returned: always
  type: str
"""
