#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_backup_timer
short_description: Back up the VMs of a fleet regularly, by a systemd timer
version_added: 0.1.0
description:
  - Installs a timer on a controller that takes the turn (M(fleet.virt.virt_backup_turn)), and runs
    playbooks if it got it, by default those that back up and prune. So several controllers can have
    the timer, and one of them backs up.
  - The unit C(fleet-virt-backup.service) has failed if a playbook did; its journal has the output.
  - No secret is written. The passphrase of the repositories is a variable in a vault of the
    inventory, whose password is in O(vault_password_file).
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
  uri:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  timeout:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  project:
    description:
      - Folder in which the playbooks are run, which may have an C(ansible.cfg).
    type: path
    required: true
  inventory:
    description:
      - The inventory, relative to O(project).
    type: str
    default: inventory
  command:
    description:
      - Path of C(ansible-playbook).
    type: path
    default: /usr/bin/ansible-playbook
  arguments:
    description:
      - More arguments of each run, such as V(-e) and V(@backup.yml).
    type: list
    elements: str
    default: []
  playbooks:
    description:
      - What is run in this order, playbooks with their own arguments; one that fails does not keep
        the next from running.
    type: list
    elements: str
    default: ["fleet.virt.backup -e virt_names=*", fleet.virt.prune_backups]
  vault_password_file:
    description:
      - File with the password of the vault, on the controller, which only O(user) should be able to
        read.
    type: path
  user:
    description:
      - Who runs the playbooks.
    type: str
    default: root
  on_calendar:
    description:
      - When, as in C(systemd.time(7\)).
    type: str
    default: "*-*-* 02:00:00"
  randomized_delay:
    description:
      - A random time up to this is waited before each run.
    type: str
    default: 1h
  turn_hours:
    description:
      - How long after a turn no controller takes another one; somewhat less than the time between
        two backups.
    type: float
    default: 12
  on_failure:
    description:
      - Unit that is started when the service fails.
    type: str
  enabled:
    description:
      - Whether the timer runs, now and after the next boot.
    type: bool
    default: true
seealso:
  - module: fleet.virt.virt_backup_turn
    description: Takes the turn.
"""

EXAMPLES = r"""
- name: Back up every night between one and three
  fleet.virt.virt_backup_timer:
    project: /srv/fleet
    on_calendar: "*-*-* 01:00:00"
    randomized_delay: 2h
"""

RETURN = r"""
steps:
  description: What was done, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [write /etc/systemd/system/fleet-virt-backup.timer]
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import effects_timer
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options import TIMER
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.units import TimerSettings


def main() -> None:
    module = create_module(TIMER)
    params = module.params
    settings = TimerSettings(
        params["project"],
        params["inventory"],
        params["command"],
        tuple(params["arguments"]),
        tuple(params["playbooks"]),
        params["vault_password_file"],
        params["user"],
        params["on_calendar"],
        params["randomized_delay"],
        params["turn_hours"],
        params["on_failure"],
    )

    def work() -> effects_timer.Returned:
        return effects_timer.configure(settings, enabled=params["enabled"], check=module.check_mode)

    run(module, work, needs_libvirt=False)


if __name__ == "__main__":
    main()
