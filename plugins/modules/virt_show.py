#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_show
short_description: Show what was read from the hypervisors of a fleet
version_added: 0.1.0
description:
  - Combines what an earlier task registered on every hypervisor of the play, and prints it as a
    table, JSON, YAML or CSV, or writes it to a file.
  - Runs on the controller; use it with C(run_once). It contacts no hypervisor.
  - A hypervisor that did not respond is named. The task fails if none responded, or if a module was
    killed or ended with an error of its own.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - In check mode O(output_file) is not written, and whether it would change is predicted.
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
  view:
    description:
      - What to show. V(host_info) expects results of M(fleet.virt.virt_host_info), V(images) those
        of M(fleet.virt.virt_image_info), V(list) and V(query) those of M(fleet.virt.virt_query),
        V(maintenance) those of M(fleet.virt.virt_maintenance), V(vms) those of
        M(fleet.virt.virt_init). With V(maintenance) and V(vms) the task fails if any hypervisor
        returned no result.
    type: str
    required: true
    choices: [host_info, images, list, maintenance, query, vms]
  results:
    description:
      - Name of the variable that the earlier task registered.
    type: str
    required: true
  acted:
    description:
      - Earlier steps that all hypervisors of the play had to carry out. For each that returned no
        result, the task fails, after it has shown what there is.
    type: list
    elements: dict
    default: []
    suboptions:
      results:
        description:
          - Name of the variable that the step registered.
        type: str
        required: true
      returns:
        description:
          - A key that a result has if the step was carried out.
        type: str
        required: true
      undone:
        description:
          - Description of what did not happen if it was not.
        type: str
        required: true
  lost:
    description:
      - Hypervisors that are known to be permanently gone, for which no step in O(acted) is
        expected. Defaults to the variable C(virt_hypervisors_lost).
    type: list
    elements: str
  addresses:
    description:
      - With O(view=vms), name of the variable with results of M(fleet.virt.virt_wait).
    type: str
  problems:
    description:
      - Earlier problems; the task fails with them after it has shown what there is.
    type: list
    elements: str
    default: []
  names:
    description:
      - Names of domains that must exist on some hypervisor; the task fails for each that was not
        found.
    type: list
    elements: str
    default: []
  states:
    description:
      - Show only domains in one of these states. V(saved) are those that are off with their memory
        saved on disk; V(shutoff) are all that are off. V(unknown) are those of hypervisors that do
        not answer, as others noted them.
      - This and O(groups), O(patterns), O(managed) and O(sort) are for O(view=list) and
        O(view=query). A domain of which only the name could be read is always shown. If any are
        left out, the table ends with the number of domains shown.
      - The hosts of the play decide which hypervisors are shown.
    type: list
    elements: str
    default: []
    choices: [running, blocked, paused, shutdown, shutoff, crashed, pmsuspended, saved, unknown]
  groups:
    description:
      - Show only domains that are in one of these groups (C(groups) of M(fleet.virt.virt_init)).
    type: list
    elements: str
    default: []
  patterns:
    description:
      - Show only domains whose name matches one of these shell patterns (V(web*), V(db[12])).
    type: list
    elements: str
    default: []
  managed:
    description:
      - Show only domains that this collection created or adopted, or with V(false) only the others.
    type: bool
  noted:
    description:
      - In the playbooks C(list), C(query) and C(host_info), show the VMs of hypervisors that do not
        answer as others noted them, in state V(unknown). Nothing more is read where all answer.
    type: bool
    default: true
  sort:
    description:
      - Keys to sort the domains by, the most important first. V(vcpus) and V(memory) sort the
        largest first. By default they are in the order of the play and of their names.
      - O(view=query), JSON and YAML keep domains with their hypervisor and sort them there.
    type: list
    elements: str
    default: []
    choices: [hypervisor, name, state, vcpus, memory]
  columns:
    description:
      - Keys that the table shows of each domain beside the usual ones, in this order. Each key of
        RV(fleet.virt.virt_query#module:domains) and of its C(metadata) with a single value or a
        list can be one, for example V(autostart), V(groups) and V(snapshots). Of a list of
        dictionaries the number is shown, of other lists what is in them.
      - For O(view=list) and O(view=query). CSV has these columns too, unless it always has them.
        JSON and YAML always have everything.
    type: list
    elements: str
    default: []
  backup_hours:
    description:
      - Name the VMs that have no backup of the last so many hours, with O(view=list). For that the
        repository of each VM that is shown is read. Without this, no place of backups is asked.
    type: float
  backup_places:
    description:
      - Places of backups, as for M(fleet.virt.virt_backup_info). A backup in any of them counts.
        The passphrase is the variable C(virt_backup_passphrase).
    type: list
    elements: str
    default: []
  output:
    description:
      - Output format, a table for people, JSON, YAML or CSV.
      - CSV has a header line and one line for each record. Later versions only add columns. Unknown
        values are empty. Several values in a cell are separated by semicolons. A hypervisor that
        did not respond has a record with an C(error).
      - In CSV, control characters are escaped, and text that a spreadsheet would take for a
        formula, because it begins with C(=), C(+), C(-) or C(@), is prefixed with an apostrophe.
    type: str
    choices: [table, json, yaml, csv]
    default: table
  output_file:
    description:
      - File on the controller that the output is written to instead of being printed.
      - It is written beside its final name and renamed. A new file has mode 0600, an existing one
        keeps its owner, group and mode.
      - A device, a pipe, a socket or a symbolic link is refused.
    type: path
"""

EXAMPLES = r"""
- name: Read all domains
  fleet.virt.virt_query:
  register: fleet

- name: Show them in one table
  fleet.virt.virt_show:
    view: list
    results: fleet
  run_once: true

- name: Show active domains of a group, the largest first
  fleet.virt.virt_show:
    view: list
    results: fleet
    states: [running, paused]
    groups: [shop]
    sort: [memory, name]
  run_once: true

- name: Show which domains start with their hypervisor, and how many snapshots they have
  fleet.virt.virt_show:
    view: list
    results: fleet
    columns: [autostart, snapshots]
  run_once: true
"""

RETURN = r"""
hypervisors:
  description: One entry for each hypervisor of the play, in the order of the play.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name in the inventory.
      type: str
    answered:
      description: Whether it responded.
      type: bool
    error:
      description: Why it did not respond; else null.
      type: str
    host:
      description: As RV(fleet.virt.virt_host_info#module:host); null if it did not respond.
      returned: with O(view=host_info)
      type: dict
    vms:
      description: As RV(fleet.virt.virt_init#module:vms), each with its C(address) and with
        C(answered), which is null if it was not waited for, or C(waited) if no result was received;
        C(first_boot) is that of RV(fleet.virt.virt_wait#module:vms).
      returned: with O(view=vms)
      type: list
      elements: dict
    maintenance:
      description: As RV(fleet.virt.virt_maintenance#module:maintenance); null if it returned no
        result.
      returned: with O(view=maintenance)
      type: bool
    domains:
      description: As RV(fleet.virt.virt_query#module:domains); empty if it did not respond.
      returned: with O(view=list) and O(view=query)
      type: list
      elements: dict
    cell:
      description: As RV(fleet.virt.virt_query#module:cell); null too if it did not respond.
      returned: with O(view=list) and O(view=query)
      type: dict
overdue:
  description: The VMs that have no backup of the last O(backup_hours) hours.
  returned: with O(backup_hours) and O(view=list)
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    uuid:
      description: Its UUID.
      type: str
    at:
      description: The moment of its newest backup, in UTC; null without any.
      type: str
output:
  description: The text that was printed or written.
  returned: always
  type: str
"""
