#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_place
short_description: Choose hypervisors for VMs
version_added: 0.1.0
description:
  - Chooses a hypervisor for each VM of a batch from what M(fleet.virt.virt_host_info) registered on
    all hypervisors of the play, and says for every other hypervisor why not, or how much worse.
  - What is promised to defined domains counts, not what happens to be free. The same facts give
    the same answer. A VM that exists already is placed where it is.
  - Runs on the controller; use it with C(run_once). It contacts no hypervisor and changes nothing.
  - The hypervisors' C(virt_zone), C(virt_tags), C(virt_memory_reserve), C(virt_memory_ratio),
    C(virt_vcpu_ratio) and C(virt_disk_ratio) are read from their variables.
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
      - Name of the variable with the results of M(fleet.virt.virt_host_info), read with
        O(fleet.virt.virt_host_info#module:placement=true).
    type: str
    required: true
  expected:
    description:
      - Names of all hypervisors of the fleet. One that is not in the play (C(--limit)) may have a
        VM of that name, so nothing is placed.
    type: list
    elements: str
  lost:
    description:
      - Hypervisors that are permanently gone, so that nobody waits for their answer. Whoever names
        one that is not has two of each of its VMs when it returns.
    type: list
    elements: str
    default: []
seealso:
  - module: fleet.virt.virt_init
    description: Creates the VMs.
"""

EXAMPLES = r"""
- name: Read every hypervisor
  fleet.virt.virt_host_info:
    placement: true
  register: facts

- name: Where would a VM of 2 GiB go
  fleet.virt.virt_place:
    results: facts
    vms:
      - name: web1
        vcpus: 2
        memory: 2GiB
  run_once: true
"""

RETURN = r"""
placements:
  description: One entry for each VM, in the order of the batch.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    host:
      description: The chosen hypervisor; null for a VM that exists.
      type: str
    existing:
      description: Hypervisors that have a VM of that name already.
      type: list
      elements: str
    ranking:
      description: Hypervisors that could take it, best first, with C(score) (lower is better), its
        C(parts) and C(notes).
      type: list
      elements: dict
    rejected:
      description: Those that cannot, with C(filter) and C(reason).
      type: list
      elements: dict
shares:
  description: Hypervisor to the names of the VMs it is to have. Those that are as they are asked
    for are left out where reading the hypervisors has told that.
  returned: success
  type: dict
settled:
  description: What became of those, as hypervisor to a list like
    RV(fleet.virt.virt_init#module:vms).
  returned: in playbooks of this collection
  type: dict
creates:
  description: Whether one of the VMs is yet to be made.
  returned: in playbooks of this collection
  type: bool
limits:
  description: Hypervisor to the seconds that making its VMs may take before it is given up.
  returned: success
  type: dict
transfers:
  description: Image of the controller to the seconds that bringing it to a hypervisor may take.
  returned: success
  type: dict
images:
  description: Hypervisor to the controller's images it lacks.
  returned: success
  type: dict
peers:
  description: Each of these images to the addresses of the hypervisors that have it.
  returned: success
  type: dict
waits:
  description: Hypervisor to the names of the VMs that are to answer.
  returned: success
  type: dict
seen:
  description: The fleet as it was when the VMs were placed; empty in check mode, and if the VMs go
    to several hypervisors.
  returned: success
  type: list
  elements: dict
machine:
  description: The newest versioned machine type that all hypervisors have.
  returned: success
  type: str
refresh_inventory:
  description: Whether the inventory is to be read again for new VMs.
  returned: success
  type: bool
run:
  description: Identity of this run.
  returned: success
  type: str
confirmed:
  description: Hypervisor to the names of the VMs whose claims stay.
  returned: in playbooks of this collection
  type: dict
refused:
  description: Hypervisor to the names of the VMs whose claims must be withdrawn.
  returned: in playbooks of this collection
  type: dict
pending:
  description: VMs to be tried again.
  returned: in playbooks of this collection
  type: list
  elements: str
attempt:
  description: How often it was tried by now.
  returned: in playbooks of this collection
  type: int
done:
  description: What the rounds before have created, and what is settled, as hypervisor to a list
    like RV(fleet.virt.virt_init#module:vms).
  returned: in playbooks of this collection
  type: dict
problems:
  description: Why VMs cannot be made, empty if all is well.
  returned: in playbooks of this collection
  type: list
  elements: str
requested:
  description: What was to be there after this round and those before it, as hypervisor to names of
    VMs.
  returned: in playbooks of this collection
  type: dict
"""
