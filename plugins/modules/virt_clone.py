#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_clone
short_description: Read what is needed to clone a VM
version_added: 0.2.0
description:
  - Reads from a hypervisor the specification for a copy of one of its VMs, as options of
    M(fleet.virt.virt_init), and which VMs exist. It changes nothing.
  - The playbook C(fleet.virt.clone) uses it to copy VMs. It creates base images from the disks with
    M(fleet.virt.virt_template), and the copy like any other VM, which it places, seeds and waits
    for. What is specific to the VM is left out, that is its UUID, MAC addresses, disk serial
    numbers, the port and password of its console, and whether it starts with its host.
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
      - Pool of disks whose pool is not known.
    type: str
    default: default
seealso:
  - module: fleet.virt.virt_template
    description: Creates the base images.
"""

EXAMPLES = r"""
- name: Read what is needed to clone web1
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
  description: The VM to copy and its copy, as far as they exist.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    phase:
      description: Phase of a run that is working on it; null if there is none.
      type: str
    specification:
      description: The VM as options of M(fleet.virt.virt_init); null with RV(sources[].problems).
      type: dict
    problems:
      description: Why it cannot be described that way.
      type: list
      elements: str
    carried:
      description: What a copy gets of its definition beside these options; null for nothing.
      type: str
    refused:
      description: Parts of its definition that a copy would lack, by their paths.
      type: list
      elements: str
    left_out:
      description:
        - What identifies it alone in its definition, which no copy gets, by its path. Data files
          of disks, each of which is one file in a copy.
      type: list
      elements: str
    request:
      description: The request it was created from, if this collection created it.
      type: dict
    clone_of:
      description: Name of the VM that it is a copy of; null if it is not a copy.
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
      description: Phase of a run that is working on it.
      type: str
    leftover:
      description: Which hypervisor has the VM by its card, where the definition here is only left
        from before it was restarted there.
      returned: where there is such a definition
      type: str
    nowhere:
      description: The cell of a VM that no hypervisor defines and its members know by its card.
      returned: for such a VM
      type: str
alone:
  description: Why the hypervisor cannot exchange images with others; empty if it can.
  returned: always
  type: str
state:
  description: Whether the copy is V(new), was V(begun) by a run that died, or already exists
    (V(there)).
  returned: in playbooks of this collection
  type: str
hypervisor:
  description: Hypervisor of the VM to copy, or of the copy if it exists.
  returned: in playbooks of this collection
  type: str
mode:
  description: V(linked) or V(full).
  returned: in playbooks of this collection
  type: str
image:
  description: Name for the base images; empty if none have to be created.
  returned: in playbooks of this collection
  type: str
volumes:
  description: The base images that a copy was created from, by target of the disk.
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
leftovers:
  description: What the copy gets of its source beside these options, as libvirt's XML (C(carried)),
    and which options were requested for the copy itself (C(requested)).
  returned: in playbooks of this collection
  type: dict
intermediate:
  description: Volumes that a full copy no longer needs once it exists.
  returned: in playbooks of this collection
  type: list
  elements: str
"""

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.clone.options import (
    ARGUMENTS,
    INTERNAL,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import read as look


def main() -> None:
    module = create_module(ARGUMENTS, {**INTERNAL, **envelope.SPEC})
    params = module.options

    def work() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            return look.sources(connection, [params["clone_of"], params["name"]], params["pool"])

    run(module, work)


if __name__ == "__main__":
    main()
