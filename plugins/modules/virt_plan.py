#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_plan
short_description: Compare requested VMs with those of the fleet
version_added: 0.2.0
description:
  - Reports for each VM of a batch whether it exists as requested, differs, was changed by someone
    else since it was created, or would be created, and where; and which other VMs exist.
  - Runs on the controller, on what M(fleet.virt.virt_init) registered on all hypervisors of the
    play; C(fleet.virt.plan) does both. It contacts no hypervisor and changes nothing.
  - A VM that no hypervisor has is V(unknown) while one of them does not respond.
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
      - The VMs, each with the options of M(fleet.virt.virt_init) as keys. Defaults to the variable
        C(virt_vms), else to one VM from the variables C(vm_name), C(vm_vcpus) and so on.
    type: list
    elements: dict
  results:
    description:
      - Name of the variable with the results of M(fleet.virt.virt_init), or of
        M(fleet.virt.virt_host_info), read with O(fleet.virt.virt_host_info#module:placement=true);
        with the latter, existing VMs are not compared.
    type: str
    required: true
  expected:
    description:
      - Names of all hypervisors of the fleet. One that is not in the play (C(--limit)) may have a
        VM that is not found elsewhere. Defaults to what the variable C(virt_hosts) matches, else to
        the group C(hypervisors).
    type: list
    elements: str
  lost:
    description:
      - Hypervisors that are permanently gone, and whose response is not required. Defaults to the
        variable C(virt_hypervisors_lost).
    type: list
    elements: str
  strict:
    description:
      - Fail if the fleet is not as requested, so that a program can tell by the exit status.
    type: bool
    default: false
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
  - module: fleet.virt.virt_init
    description: Creates the VMs.
"""

EXAMPLES = r"""
- name: Read every hypervisor
  fleet.virt.virt_host_info:
    placement: true
  register: facts

- name: Check whether the VM exists, and where it would be created if not
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
  description: Whether all VMs are as requested and running as defined, none is unfinished and none
    is surplus, and every hypervisor responded. VMs that were not created by this collection, and
    are not requested, do not count.
  returned: always
  type: bool
silent:
  description: Hypervisors that did not respond, with the reason.
  returned: always
  type: dict
vms:
  description: One entry for each requested VM, and each other VM of the fleet.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    hypervisor:
      description: Where it is, or would be created; null if nowhere, several in a conflict.
      type: str
    action:
      description:
        - V(create), it has to be created; V(nowhere), no hypervisor can take it; V(unknown), a
          hypervisor that did not respond may have it, or it exists and was not compared;
          V(conflict), several have it, or a VM that this collection did not create has its name.
        - V(finish), a run is working on it or died while doing so; V(change), it differs from the
          request; V(drift), it was created as requested and has been changed since by someone else;
          V(start), it is defined as requested, and does not run although its request says
          C(start=true); V(restart), it is defined as requested, and the running VM has to be
          restarted.
        - V(surplus), this collection created it and it is not requested; V(unmanaged), it was
          created by other means; V(unchanged), it is as requested.
      type: str
    details:
      description: The differences and how they would be changed, or the reason.
      type: list
      elements: str
      sample: ["vcpus 2 -> 4, live", "memory_max 2.0GiB -> 4.0GiB, at the next start"]
    restart_required:
      description: Whether a setting that was changed earlier, by anyone, takes effect at its next
        start.
      type: bool
output:
  description: The text that was printed, or written to O(output_file).
  returned: always
  type: str
"""
