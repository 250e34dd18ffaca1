#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_backup_key
short_description: Export the keys of the repositories of backups
version_added: 0.1.0
description:
  - Writes the key of each repository to a file. A key is in its repository as well; the file is for
    the case that this part of it is damaged, and is of use with the passphrase only.
  - Runs on the controller and contacts no hypervisor. Needs Debian's package C(borgbackup) there.
  - C(fleet.virt.export_backup_keys) does this for the places of the fleet.
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
      - A key is never shown.
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
  dest:
    description:
      - Folder on the controller for the files, C(UUID.key) with mode 0600. Created with mode 0700
        if it is missing.
    type: path
    required: true
seealso:
  - module: fleet.virt.virt_backup_info
    description: Lists the backups.
"""

EXAMPLES = r"""
- name: Export the key of each repository
  fleet.virt.virt_backup_key:
    places: [/srv/backup]
    dest: /root/backup-keys
  run_once: true
"""

RETURN = r"""
keys:
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
    path:
      description: The file.
      type: str
    changed:
      description: Whether it was or would be written.
      type: bool
    failed:
      description: Whether the key could not be exported.
      type: bool
    msg:
      description: Why; else null.
      type: str
output:
  description: The text that was printed.
  returned: always
  type: str
"""
