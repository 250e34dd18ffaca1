#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_backup_prune
short_description: Delete the backups of VMs that a policy does not keep
version_added: 0.1.0
description:
  - Keeps of each VM the backups that the rules of C(borg prune) keep, and the last one that was
    proven to boot; deletes the others by name, with their proofs, and frees their space.
  - In check mode it shows exactly what is kept, why, and what would be deleted.
  - Refuses to delete anything of a VM of which a backup is missing that this controller knew, has
    another id under its name, or has appeared in the past. Whoever took over a hypervisor could
    have done that.
  - Of a VM that this controller does not know, it only remembers what is there, and prunes the next
    time.
  - What is more than ten minutes later than the controller's clock counts as no backup, and is not
    deleted. Refuses where that is all there is.
  - Runs on the controller and contacts no hypervisor. Needs Debian's package C(borgbackup) there.
  - C(fleet.virt.prune_backups) does this for the places of the fleet.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - The output names what is kept and what is deleted.
  idempotent:
    support: full
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
  keep:
    description:
      - How many backups each rule keeps, the newest of each hour, day, week, month or year in UTC,
        and C(last) so many whatever their time. What an earlier rule of this order keeps, a later
        one does not count. As long as there are fewer than a rule keeps, it keeps the oldest of
        all, too.
      - The keys are C(last), C(hourly), C(daily), C(weekly), C(monthly) and C(yearly). Something
        must be kept.
    type: dict
    required: true
  keep_proven:
    description:
      - Whether the last backup that was proven to boot always stays.
    type: bool
    default: true
  known:
    description:
      - File with the names and ids of the backups that were there when this controller last pruned.
        It has to last, so not in memory, nor in a container alone. Defaults to
        C(~/.local/state/fleet.virt/backups.json).
    type: path
  accept:
    description:
      - What is right although it is missing or new, as C(UUID::ARCHIVE), or C(UUID) for the whole
        repository of a VM. C(UUID::ARCHIVE::ID) for an archive that has another id by now, and the
        place for all ids of all VMs there.
    type: list
    elements: str
    default: []
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
  - module: fleet.virt.virt_backup_info
    description: Lists the backups.
"""

EXAMPLES = r"""
- name: Keep a week of days, a month of weeks and half a year of months
  fleet.virt.virt_backup_prune:
    places: [/srv/backup]
    keep: {daily: 7, weekly: 4, monthly: 6}
  run_once: true
"""

RETURN = r"""
vms:
  description: One entry for each repository.
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
      description: Name of the VM when it was last backed up.
      type: str
    kept:
      description: The backups that are kept, with the rule.
      type: dict
      sample: {"2026-11-28T06:51:18Z": "daily 1"}
    deleted:
      description: The archives that were or would be deleted, proofs included.
      type: list
      elements: str
    refused:
      description: Why nothing is deleted.
      type: list
      elements: str
    remembered:
      description: Whether nothing is deleted as this controller did not know the VM until now.
      type: bool
    notes:
      description: What is no fault of pruning and has to be known, such as backups that are later
        than the clock.
      type: list
      elements: str
    changed:
      description: Whether something was or would be deleted.
      type: bool
    failed:
      description: Whether it was refused or failed.
      type: bool
    msg:
      description: Why; else null.
      type: str
output:
  description: The text that was printed, or written to O(output_file).
  returned: always
  type: str
"""
