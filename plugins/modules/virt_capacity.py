#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_capacity
short_description: Tell how many more VMs fit, and what would be without a hypervisor
version_added: 0.1.0
description:
  - With O(view=capacity) tells how many more VMs of one shape fit, by hypervisor, and what keeps
    the next one away, and whether existing VMs have a place after the loss of hypervisors.
  - With O(view=what_if) tells where VMs would go if hypervisors were lost, others added, and VMs
    created, and what the fleet would be afterwards.
  - By the filters and planners that creating and evacuating use. What is promised to VMs counts,
    not what happens to be free. Only whether there is room is looked at, not whether a lost
    hypervisor takes disks with it, nor the machine types and CPUs that a move compares.
  - Runs on the controller, on what was registered on all hypervisors of the play; the playbooks
    C(fleet.virt.capacity) and C(fleet.virt.what_if) do both. It contacts no hypervisor and changes
    nothing.
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
  view:
    description:
      - What to tell.
    type: str
    choices: [capacity, what_if]
    default: capacity
  vms:
    description:
      - VMs with the options of M(fleet.virt.virt_init) as keys. With O(view=capacity) one, whose
        shape counts; it needs no name in variables. With O(view=what_if) those to be created.
      - Defaults to the variables C(vm_vcpus), C(vm_memory) and so on, and with O(view=what_if) to
        C(virt_vms).
    type: list
    elements: dict
  results:
    description:
      - Name of the variable with the results of M(fleet.virt.virt_host_info), read with
        O(fleet.virt.virt_host_info#module:placement=true). They do not say what each VM needs, so
        O(loss) must be 0 then, and O(lose) empty; the playbooks read that as well.
    type: str
    required: true
  loss:
    description:
      - How many hypervisors may be lost at once. Each such loss is tried; V(0) tries none.
    type: int
    default: 1
  require:
    description:
      - Fail unless that many more VMs fit, and the fleet survives the losses once they are there,
        and all hypervisors answered. V(0) is the fleet as it is.
    type: int
  lose:
    description:
      - Hypervisors that would be lost, with O(view=what_if).
    type: list
    elements: str
  add_hosts:
    description:
      - Hypervisors that would be added, with O(view=what_if). Each is the name of one that it is
        like, or a dict with C(like), and C(name), C(memory), C(cpus) where it differs.
    type: list
    elements: raw
  expected:
    description:
      - Names of all hypervisors of the fleet. Defaults to what the variable C(virt_hosts) matches,
        else to the group C(hypervisors).
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
      - Fail unless all VMs have a place, the fleet then survives the losses, and all hypervisors
        answered, with O(view=what_if).
    type: bool
    default: false
  output:
    description:
      - Format of the output; CSV has the hypervisors only.
    type: str
    choices: [table, json, yaml, csv]
    default: table
  output_file:
    description:
      - File on the controller to write the output to, instead of printing it.
    type: path
seealso:
  - module: fleet.virt.virt_place
    description: Chooses hypervisors for VMs.
"""

EXAMPLES = r"""
- name: Read every hypervisor
  fleet.virt.virt_host_info:
    placement: true
  register: facts

- name: Tell how many VMs of 2 GiB fit
  fleet.virt.virt_capacity:
    results: facts
    loss: 0
    vms:
      - name: web
        vcpus: 2
        memory: 2GiB
  run_once: true
"""

RETURN = r"""
shape:
  description: The shape of the VMs, in words.
  returned: with O(view=capacity)
  type: str
more:
  description: How many more fit.
  returned: with O(view=capacity)
  type: int
hypervisors:
  description: One entry for each hypervisor, with O(view=what_if) as it would be. Of one that did
    not respond, all but its name and the C(problem) are null there.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    more:
      description: How many more VMs fit there.
      returned: with O(view=capacity)
      type: int
    filter:
      description: What keeps the next one away, as in RV(fleet.virt.virt_place#module:placements).
      returned: with O(view=capacity)
      type: str
    reason:
      description: The same with its figures.
      returned: with O(view=capacity)
      type: str
    vms:
      description: The number of its VMs.
      returned: with O(view=what_if)
      type: int
    memory_mib:
      description: Memory that is promised to VMs, without what is in huge pages.
      returned: with O(view=what_if)
      type: int
    memory_limit_mib:
      description: How much may be, without what is set aside for huge pages.
      returned: with O(view=what_if)
      type: int
    vcpus:
      description: vCPUs that are promised to VMs.
      returned: with O(view=what_if)
      type: int
    vcpus_limit:
      description: How many may be.
      returned: with O(view=what_if)
      type: int
    maintenance:
      description: Whether it is in maintenance; null if that is not known.
      returned: with O(view=what_if)
      type: bool
    problem:
      description: Why it takes no VM at all, if so.
      returned: with O(view=what_if)
      type: str
steps:
  description: The VMs that would move or be created, with C(name), C(source) (null for a new one),
    C(destination) and C(reason).
  returned: with O(view=what_if)
  type: list
  elements: dict
problems:
  description: VMs that would have no place, and why.
  returned: with O(view=what_if)
  type: list
  elements: str
loss:
  description: How many hypervisors may be lost at once, as given.
  returned: always
  type: int
survives:
  description: Whether all VMs have a place after each such loss, with O(view=what_if) as the fleet
    would be, with O(require) once that many VMs are there; null if none was tried.
  returned: always
  type: bool
losses:
  description: The losses after which VMs have none, with C(lost) and C(problems).
  returned: always
  type: list
  elements: dict
silent:
  description: Hypervisors that did not respond, with the reason. Their VMs are not counted.
  returned: always
  type: dict
output:
  description: The text that was printed, or written to O(output_file).
  returned: always
  type: str
"""
