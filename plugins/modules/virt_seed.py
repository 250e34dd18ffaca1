#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_seed
short_description: Tell a virtual machine who it is before its first boot
version_added: 0.1.0
description:
  - Gives a VM that is shut off and has not been booted yet a medium that cloud-init reads at the
    first boot (its NoCloud data source), on a virtual CD drive. M(fleet.virt.virt_init) does the
    same for the VMs it makes, with the same options in its O(fleet.virt.virt_init#module:seed).
  - The guest's SSH host key is made on the hypervisor, with the medium, so that the key is known
    before the VM boots. Its private half is on the medium and in the guest only; the public half is
    in the VM's metadata.
  - A VM whose image brings a machine id is given its UUID as one of its own. Its random numbers are
    seeded, and its DHCP client identifies itself by its MAC address.
  - The medium has mode 0600 and is removed by M(fleet.virt.virt_wait) once the VM shows its host
    key. cloud-init is disabled in the guest when it is shut down after the first boot, so that the
    guest stays what it is; C(cloud-init status) tells the result of the first boot until then.
  - O(state=absent) also acknowledges a first boot that failed, which M(fleet.virt.virt_wait) tells
    until then.
  - Every problem of the specification is reported at once. A call that is killed is finished by
    running it again; whoever starts the VM meanwhile starts it with the old medium or the new one,
    never with half of one.
  - A guest reads a seed once. Another seed for a VM that has been started with one is refused.
  - Needs C(xorriso), C(genisoimage) or C(mkisofs), and C(ssh-keygen), on the hypervisor, and
    cloud-init in the image. YAML is read on the controller only.
  - For images without cloud-init there is O(method=offline).
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._seed
attributes:
  check_mode:
    support: full
    details:
      - A host key exists only afterwards and reads V((generated\)).
  diff_mode:
    support: full
    details:
      - What is secret is shown as one digest.
  idempotent:
    support: full
options:
  uri:
    description:
      - Has to be a hypervisor of the machine that the module runs on, where the medium is made.
  name:
    description:
      - Name of the VM.
    type: str
    required: true
  state:
    description:
      - V(present) gives the VM the medium, V(absent) takes it away and deletes it, whether the VM
        runs or not and has read it or not.
    type: str
    choices: [present, absent]
    default: present
  pool:
    description:
      - Pool the medium is made in. Left out, that of the VM's first own volume, else V(default),
        else the pool whose folder the first disk is in.
    type: str
seealso:
  - module: fleet.virt.virt_init
    description: Makes VMs and seeds them.
  - module: fleet.virt.virt_wait
    description: Waits for the first boot and removes the medium.
"""

EXAMPLES = r"""
- name: A VM that is defined already, with the defaults
  fleet.virt.virt_seed:
    name: web1

- name: Static addresses, a second user, a file and a command
  fleet.virt.virt_seed:
    name: db1
    fqdn: db1.example.org
    timezone: Europe/Berlin
    network:
      - name: eth0
        addresses: [192.0.2.10/24, "2001:db8::10/64"]
        gateway: [192.0.2.1, "2001:db8::1"]
        dns_servers: [192.0.2.53]
      - name: eth1
        addresses: [198.51.100.10/24]
    users:
      - name: alice
        ssh_public_keys:
          - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJS+DaRE+LDKqpmqarrPTm6iHLtFn8H9AizJvMshknW2 alice
        sudo: true
    files:
      - path: /etc/motd
        content: "The database of the shop\n"
    commands:
      - [touch, /run/first-boot-done]

- name: A VM from an image that may have no cloud-init
  fleet.virt.virt_seed:
    name: old1
    method: auto

- name: Take the medium away, whatever the guest did with it
  fleet.virt.virt_seed:
    name: web1
    state: absent
"""

RETURN = r"""
name:
  description: Name of the VM.
  returned: success
  type: str
host_key:
  description: Public half of the guest's SSH host key; V((generated\)) in check mode for one that
    would be made, null with O(state=absent).
  returned: success
  type: str
  sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3h0Zq0example web1
steps:
  description: What was done, or would be, in order.
  returned: success
  type: list
  elements: str
  sample: [create default/web1_seed.iso, put it into web1]
seed:
  description: How the VM was seeded, or would be; null if nothing was done.
  returned: success
  type: dict
  contains:
    method:
      description: V(nocloud) or V(offline).
      type: str
    reason:
      description: Why this method.
      type: str
      sample: the image has no cloud-init
    found:
      description: What the image has, if it was looked into; else null.
      type: dict
      contains:
        os:
          description: Distribution and version.
          type: str
          sample: debian 12
        cloud_init:
          description: Whether cloud-init is installed.
          type: bool
        agent:
          description: Whether the QEMU guest agent is installed.
          type: bool
        python:
          description: Whether Python 3 is installed.
          type: bool
        sshd:
          description: Whether an SSH server is installed.
          type: bool
        network:
          description: What configures its network, V(networkd), V(networkmanager) or V(ifupdown).
          type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.seed import (
    nocloud as seed_nocloud,
)
from ansible_collections.fleet.virt.plugins.module_utils._effects.seed import seeding
from ansible_collections.fleet.virt.plugins.module_utils._pure.base.settings import names
from ansible_collections.fleet.virt.plugins.module_utils._pure.seed.settings import SEED


def main() -> None:
    module = create_module(seeding.ARGUMENTS, seeding.INTERNAL)
    for name in names(SEED):  # written ones come in _seed; the defaults would only be shown
        del module.params[name]
    params = module.options

    def work() -> seeding.Result:
        with connect(params["uri"], params["timeout"]) as connection:
            return seeding.run(
                connection,
                params["name"],
                params["state"],
                seed_nocloud.unpacked(params["_seed"]),
                params["pool"],
                check=module.check_mode,
            )

    run(module, work)


if __name__ == "__main__":
    main()
