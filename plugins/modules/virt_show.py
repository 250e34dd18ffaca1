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
  - Brings together what an earlier task registered on every hypervisor of the play, prints it as a
    table or as JSON and writes it to a file if asked.
  - Runs on the controller; use it with C(run_once). It contacts no hypervisor.
  - A hypervisor that did not answer is named. The task fails when none answered.
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
      - What to show. V(host_info) expects results of M(fleet.virt.virt_host_info), V(images)
        those of M(fleet.virt.virt_image_info), V(list) and V(query) those of
        M(fleet.virt.virt_query), V(vms) those of M(fleet.virt.virt_init).
    type: str
    required: true
    choices: [host_info, images, list, query, vms]
  results:
    description:
      - Name of the variable the earlier task registered.
    type: str
    required: true
  addresses:
    description:
      - With O(view=vms), name of the variable with results of M(fleet.virt.virt_wait).
    type: str
  earlier:
    description:
      - With O(view=vms), what was made before O(results), as hypervisor to a list like
        RV(fleet.virt.virt_init#module:vms).
    type: dict
    default: {}
  names:
    description:
      - Names of domains that must have been found on some hypervisor; the task fails for one that
        was found on none.
    type: list
    elements: str
    default: []
  output:
    description:
      - A table for people, JSON or YAML.
    type: str
    choices: [table, json, yaml]
    default: table
  output_file:
    description:
      - File on the controller that the output is written to instead of being printed.
      - It is written with mode 0600 beside its final name and renamed.
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
      description: Whether it answered.
      type: bool
    error:
      description: Why it did not answer, else null.
      type: str
    host:
      description: As RV(fleet.virt.virt_host_info#module:host); null if it did not answer.
      returned: with O(view=host_info)
      type: dict
    vms:
      description: As RV(fleet.virt.virt_init#module:vms), each with its C(address).
      returned: with O(view=vms)
      type: list
      elements: dict
    domains:
      description: As RV(fleet.virt.virt_query#module:domains); empty if it did not answer.
      returned: with O(view=list) and O(view=query)
      type: list
      elements: dict
output:
  description: The text that was printed or written.
  returned: always
  type: str
"""
