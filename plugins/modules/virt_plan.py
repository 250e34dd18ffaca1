#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_plan
short_description: Compare VMs that are asked for with those of the fleet
version_added: 0.2.0
description:
  - Says of each VM of a batch whether it is there as asked for, differs, was changed by somebody
    else since it was made, or would be made, and where; and which other VMs there are.
  - Runs on the controller, on what M(fleet.virt.virt_init) registered on all hypervisors of the
    play; C(fleet.virt.plan) does both. It contacts no hypervisor and changes nothing.
  - A VM that no hypervisor has is V(unknown) while one of them is silent.
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
  vms:
    description:
      - The VMs, each with the options of M(fleet.virt.virt_init) as keys. Left out, the variable
        C(virt_vms), else one VM of the variables C(vm_name), C(vm_vcpus) and so on.
    type: list
    elements: dict
  results:
    description:
      - Name of the variable with the results of M(fleet.virt.virt_init), or of
        M(fleet.virt.virt_host_info), read with
        O(fleet.virt.virt_host_info#module:placement=true); by those, VMs that are there are not
        compared.
    type: str
    required: true
  expected:
    description:
      - Names of all hypervisors of the fleet. One that is not in the play (C(--limit)) may have a
        VM that is found nowhere.
    type: list
    elements: str
  lost:
    description:
      - Hypervisors that are permanently gone, so that nobody waits for their answer.
    type: list
    elements: str
    default: []
  strict:
    description:
      - Fail if the fleet is not as asked for, so that a program sees it by the exit status.
    type: bool
    default: false
  output:
    description:
      - Form of what is shown.
    type: str
    choices: [table, json, yaml, csv]
    default: table
  output_file:
    description:
      - File of the controller to write it to, in place of the screen.
    type: path
seealso:
  - module: fleet.virt.virt_init
    description: Creates the VMs.
"""

EXAMPLES = r"""
- name: Read every hypervisor
  fleet.virt.virt_host_info:
    placement: true
  register: facts

- name: Is there a VM of that name, and where would it be made if not
  fleet.virt.virt_plan:
    results: facts
    vms:
      - name: web1
        vcpus: 2
        memory: 1GiB
  run_once: true
"""

RETURN = r"""
empty:
  description: Whether all VMs are as asked for and run so, none is unfinished and none is left
    over, and every hypervisor answered. VMs that were not made by this collection, and are not
    asked for, do not count.
  returned: always
  type: bool
silent:
  description: Hypervisors that gave no answer, with the reason.
  returned: always
  type: dict
vms:
  description: One entry for each VM that is asked for, and each other VM of the fleet.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    hypervisor:
      description: Where it is, or would be made; null if nowhere, several in a conflict.
      type: str
    action:
      description:
        - V(create), it is to be made; V(nowhere), no hypervisor can take it; V(unknown), a silent
          hypervisor may have it, or it is there and was not compared; V(conflict), several have it,
          or somebody else's is in its place.
        - V(finish), a run is at work on it or died at it; V(change), it differs from what is asked
          for; V(drift), it was made as asked for and somebody has changed it since;
          V(restart), it is defined as asked for, and what runs is to be restarted for it.
        - V(surplus), this collection made it and nobody asks for it; V(unmanaged), others made it;
          V(unchanged), it is as asked for.
      type: str
    details:
      description: What differs and how it would be changed, or why.
      type: list
      elements: str
      sample: ["vcpus 2 -> 4, live", "memory_max 2.0GiB -> 4.0GiB, at the next start"]
    restart_required:
      description: Whether a setting that was changed before, by anybody, waits for its next start.
      type: bool
output:
  description: What was printed, or written to O(output_file).
  returned: always
  type: str
"""
