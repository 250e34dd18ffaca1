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
    all hypervisors of the play, and reports the next best, or why none can take the VM; with
    O(every) it reports for every other hypervisor why it was not chosen, or how much worse it is.
  - Resources committed to defined domains count, not what happens to be free. The same facts give
    the same result. A VM that already exists is placed where it is.
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
      - The VMs, each with the options of M(fleet.virt.virt_init) as keys. Defaults to the variable
        C(virt_vms), else to one VM from the variables C(vm_name), C(vm_vcpus) and so on.
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
        VM of that name, so nothing is placed. Defaults to what the variable
        C(virt_hosts) matches, else to the group C(hypervisors).
    type: list
    elements: str
  lost:
    description:
      - Hypervisors that are permanently gone, and whose response is not required. If one of them
        returns after all, each of its VMs may exist twice. Defaults to the variable
        C(virt_hypervisors_lost).
    type: list
    elements: str
  every:
    description:
      - Report every hypervisor, with its score or the reason against it. Otherwise the chosen one
        and the next best, or ten of those that cannot take the VM where none can. The choice is the
        same. C(-v) does so too.
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_init
    description: Creates the VMs.
"""

EXAMPLES = r"""
- name: Read every hypervisor
  fleet.virt.virt_host_info:
    placement: true
  register: facts

- name: Choose a hypervisor for a VM with 2 GiB
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
      description: Hypervisors that already have a VM of that name.
      type: list
      elements: str
    ranking:
      description: The best hypervisor and the next best, or with O(every) all that could take it,
        best first, with C(score) (lower is better), its C(parts) and C(notes).
      type: list
      elements: dict
    rejected:
      description: Hypervisors that cannot, with C(filter) and C(reason); all of them with O(every),
        else up to ten if none can.
      type: list
      elements: dict
    hidden:
      description: How many more cannot.
      type: int
shares:
  description: Hypervisor to the names of the VMs it has to create or change. VMs known to be as
    requested are left out.
  returned: success
  type: dict
settled:
  description: The results for those VMs, as hypervisor to a list like
    RV(fleet.virt.virt_init#module:vms).
  returned: in playbooks of this collection
  type: dict
creates:
  description: Whether one of the VMs still has to be created.
  returned: in playbooks of this collection
  type: bool
limits:
  description: Hypervisor to the timeout for creating its VMs, in seconds.
  returned: success
  type: dict
transfers:
  description: Image of the controller to the timeout for transferring it to a hypervisor, in
    seconds.
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
  description: Hypervisor to the names of the VMs to wait for.
  returned: success
  type: dict
seen:
  description: State of the fleet when the VMs were placed; empty in check mode, and if the VMs go
    to several hypervisors.
  returned: success
  type: list
  elements: dict
machine:
  description: The newest versioned machine type that all hypervisors have.
  returned: success
  type: str
refresh_inventory:
  description: Whether the inventory has to be refreshed for new VMs.
  returned: success
  type: bool
run:
  description: Id of this run.
  returned: success
  type: str
confirmed:
  description: Hypervisor to the names of the VMs whose claims are kept.
  returned: in playbooks of this collection
  type: dict
refused:
  description: Hypervisor to the names of the VMs whose claims must be withdrawn.
  returned: in playbooks of this collection
  type: dict
pending:
  description: VMs to retry.
  returned: in playbooks of this collection
  type: list
  elements: str
attempt:
  description: Number of attempts so far.
  returned: in playbooks of this collection
  type: int
done:
  description: Results of previous rounds and of VMs that were already as requested, as hypervisor
    to a list like RV(fleet.virt.virt_init#module:vms).
  returned: in playbooks of this collection
  type: dict
problems:
  description: Why VMs cannot be created; empty if there are no problems.
  returned: in playbooks of this collection
  type: list
  elements: str
requested:
  description: VMs requested in this round and previous ones, as hypervisor to names of VMs.
  returned: in playbooks of this collection
  type: dict
"""
