#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_backup_turn
short_description: Take the turn to back up, which one of several controllers gets
version_added: 0.1.0
description:
  - Takes a turn at the first place, unless this or another controller took one not long ago. Of
    several controllers that try at once, one gets it.
  - What is taken is an archive in a repository of its own, C(turns), so that nothing is left locked
    by a controller that dies.
  - Runs on the controller and contacts no hypervisor. Needs Debian's package C(borgbackup) there.
  - C(fleet.virt.backup_turn) does this; the timer of the role P(fleet.virt.backup#role) runs it.
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
  idempotent:
    support: full
    details:
      - Within O(hours) a second run takes nothing, and reports RV(taken=false).
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
  hours:
    description:
      - How long nobody takes another turn; somewhat less than the time between two backups.
    type: float
    default: 12
  output_file:
    description:
      - File on the controller to write the output to, instead of printing it. Its first line is
        C(taken) if this controller is to back up.
    type: path
seealso:
  - module: fleet.virt.virt_backup_timer
    description: Backs up regularly.
"""

EXAMPLES = r"""
- name: Find out whether another controller backs up today
  fleet.virt.virt_backup_turn:
    places: [/srv/backup]
  run_once: true
  register: turn
"""

RETURN = r"""
taken:
  description: Whether this controller has the turn.
  returned: always
  type: bool
by:
  description: Who has it.
  returned: always
  type: str
at:
  description: Since when, in UTC.
  returned: always
  type: str
output:
  description: The text that was printed, or written to O(output_file).
  returned: always
  type: str
"""
