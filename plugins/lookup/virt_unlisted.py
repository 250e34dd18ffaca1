# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: virt_unlisted
short_description: Returns virtual machines that are missing or outdated in the inventory
version_added: 0.1.0
description:
  - Returns the names of virtual machines in results of this play that are not in the inventory, or
    whose C(ansible_host) differs from the address in the result.
  - Ansible reads its inventory when it starts. With this lookup a playbook refreshes the inventory
    only if that may help.
author:
  - Fleet Virt contributors (@fleet-virt)
options:
  _terms:
    description:
      - Names of variables in which hosts of this play have registered results with C(vms), such as
        those of M(fleet.virt.virt_init) and M(fleet.virt.virt_wait). A host without a result is
        skipped.
    type: list
    elements: str
    required: true
seealso:
  - plugin: fleet.virt.virt
    plugin_type: inventory
    description: The inventory plugin that lists virtual machines.
"""

EXAMPLES = r"""
- name: Check whether the inventory has a virtual machine at the address where it responds
  hosts: hypervisors
  gather_facts: false
  become: true
  tasks:
    - name: Wait until it responds
      fleet.virt.virt_wait:
        names: [web1]
      register: waited
      when: inventory_hostname == 'hv1'

    - name: Show what the inventory lacks
      ansible.builtin.debug:
        msg: "{{ query('fleet.virt.virt_unlisted', 'waited') }}"
"""

RETURN = r"""
_raw:
  description: Names of the virtual machines, in alphabetical order.
  type: list
  elements: str
"""

from ansible.plugins.lookup import LookupBase
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import (
    Named,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered


class LookupModule(LookupBase):
    def run(
        self, terms: list[str], variables: Values | None = None, **_options: object
    ) -> list[str]:
        values = variables or {}
        hostvars = as_mapping(values["hostvars"])
        listed = {str(name) for name in as_list(as_mapping(values["groups"])["all"])}
        unlisted = set()
        for term in terms:
            for result in registered(values, term, Named).values():
                for vm in result.get("vms") or ():
                    name, address = vm["name"], vm.get("address")
                    known = (
                        as_mapping(hostvars[name]).get("ansible_host") if name in listed else None
                    )
                    if name not in listed or (address and address != known):
                        unlisted.add(name)
        return sorted(unlisted)
