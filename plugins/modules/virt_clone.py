#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_clone
short_description: Read what a copy of a VM is made of
version_added: 0.2.0
description:
  - Reads of a hypervisor all that a copy of one of its VMs is asked for with, as options of
    M(fleet.virt.virt_init), and which VMs are there. It changes nothing.
  - The playbook C(fleet.virt.clone) copies VMs with it. It has base images made of the
    disks by M(fleet.virt.virt_template), and the copy as any other VM, placed, seeded and waited
    for. What makes the VM itself is left out; that is its UUID, its MAC addresses, its disks'
    serial numbers, the port and the password of its console, and whether it starts with its host.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  name:
    description:
      - Name of the copy.
    type: str
    required: true
  clone_of:
    description:
      - Name of the VM that is copied.
    type: str
    required: true
  pool:
    description:
      - Pool of disks that are in none that is known.
    type: str
    default: default
seealso:
  - module: fleet.virt.virt_template
    description: Makes the base images.
"""

EXAMPLES = r"""
- name: Read what a copy of web1 would be made of
  fleet.virt.virt_clone:
    name: web2
    clone_of: web1
  register: look

- name: Show it
  ansible.builtin.debug:
    var: look.sources[0].specification
"""

RETURN = r"""
sources:
  description: The VM that is copied and its copy, those of them that are there.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    phase:
      description: What a run is doing to it; null for nothing.
      type: str
    specification:
      description: It as options of M(fleet.virt.virt_init); null with RV(sources[].problems).
      type: dict
    problems:
      description: Why it cannot be described so.
      type: list
      elements: str
    request:
      description: What it was made of, if this collection made it.
      type: dict
    clone_of:
      description: Name of the VM that it is a copy of; null if it is none.
      type: str
defined:
  description: The VMs of the hypervisor.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    uuid:
      description: UUID of the VM.
      type: str
    phase:
      description: What a run is doing to it.
      type: str
alone:
  description: Why the hypervisor gets no images from others, nor gives any; empty if it does.
  returned: always
  type: str
state:
  description: Whether the copy is V(new), was V(begun) by a run that died, or is V(there).
  returned: in playbooks of this collection
  type: str
hypervisor:
  description: Where the VM that is copied is; of a copy that is there, where that is.
  returned: in playbooks of this collection
  type: str
mode:
  description: V(linked) or V(full).
  returned: in playbooks of this collection
  type: str
image:
  description: Name for the base images; empty if none have to be made.
  returned: in playbooks of this collection
  type: str
volumes:
  description: The base images that a copy was made of, by target of the disk.
  returned: in playbooks of this collection
  type: dict
vms:
  description: The copy, as options of M(fleet.virt.virt_init).
  returned: in playbooks of this collection
  type: list
  elements: dict
images:
  description: What is known of the base images.
  returned: in playbooks of this collection
  type: dict
intermediate:
  description: Volumes that a full copy does not need any more once it is there.
  returned: in playbooks of this collection
  type: list
  elements: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.copies import look
from ansible_collections.fleet.virt.plugins.module_utils._pure.copies.clone_options import (
    ARGUMENTS,
    INTERNAL,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    params = module.options

    def work() -> dict[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            return look.sources(connection, [params["clone_of"], params["name"]], params["pool"])

    run(module, work)


if __name__ == "__main__":
    main()
