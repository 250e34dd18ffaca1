#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_seed
short_description: Seed a virtual machine for its first boot
version_added: 0.1.0
description:
  - Gives a VM that is shut off and has never been booted a medium that cloud-init reads at the
    first boot (its NoCloud data source), in a virtual CD drive. M(fleet.virt.virt_init) does the
    same for the VMs it creates, with the same options in its O(fleet.virt.virt_init#module:seed).
  - The guest's SSH host key is generated on the hypervisor, with the medium, so that the key is
    known before the VM boots. The private key is only on the medium and in the guest; the public
    key is stored in the VM's metadata.
  - A VM whose image contains a machine id gets its UUID as its own machine id. Its random number
    generator is seeded, and its DHCP client identifies itself by its MAC address.
  - The medium has mode 0600 and is removed by M(fleet.virt.virt_wait) once the VM presents its host
    key. cloud-init is disabled in the guest when it is shut down after the first boot, so that the
    guest keeps its configuration; until then, C(cloud-init status) shows the result of the first
    boot.
  - O(state=absent) also acknowledges a first boot that failed, which M(fleet.virt.virt_wait)
    reports until then.
  - All problems of the specification are reported at once. A call that is killed is finished by
    running it again; if the VM is started meanwhile, it has the old medium or the new one, never an
    incomplete one.
  - A guest reads a seed only once. A different seed for a VM that has been started with one is
    refused.
  - Needs C(xorriso), C(genisoimage) or C(mkisofs), and C(ssh-keygen), on the hypervisor, and
    cloud-init in the image. YAML is read on the controller only.
  - For images without cloud-init, use O(method=offline).
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
      - A host key exists only afterwards and is shown as V((generated\)).
  diff_mode:
    support: full
    details:
      - Secrets are shown as a digest.
  idempotent:
    support: full
options:
  uri:
    description:
      - Has to be a hypervisor on the machine that the module runs on, where the medium is created.
  name:
    description:
      - Name of the VM.
    type: str
    required: true
  state:
    description:
      - V(present) attaches the medium to the VM, V(absent) detaches and deletes it, whether or not
        the VM runs and has read it.
    type: str
    choices: [present, absent]
    default: present
  pool:
    description:
      - Pool to create the medium in. Defaults to that of the VM's first own volume, else to
        V(default), else to the pool whose folder contains the first disk.
    type: str
seealso:
  - module: fleet.virt.virt_init
    description: Creates VMs and seeds them.
  - module: fleet.virt.virt_wait
    description: Waits for the first boot and removes the medium.
"""

EXAMPLES = r"""
- name: Seed an existing VM with the defaults
  fleet.virt.virt_seed:
    name: web1

- name: Seed a VM with static addresses, a second user, a file and a command
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

- name: Seed a VM whose image may not have cloud-init
  fleet.virt.virt_seed:
    name: old1
    method: auto

- name: Remove the medium, whether or not the guest has read it
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
  description: Public SSH host key of the guest; V((generated\)) in check mode for one that would be
    created, null with O(state=absent).
  returned: success
  type: str
  sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3h0Zq0example web1
steps:
  description: Steps that were carried out, or would be, in order.
  returned: success
  type: list
  elements: str
  sample: [create default/web1_seed.iso, insert it into web1]
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
      description: Contents of the image, if it was inspected; else null.
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
          description: Its network manager, V(networkd), V(networkmanager) or V(ifupdown).
          type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.settings import names
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    effects_nocloud as seed_nocloud,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.settings import SEED
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import effects as seeding


def main() -> None:
    module = create_module(seeding.ARGUMENTS, seeding.INTERNAL)
    for name in names(SEED):  # written ones come in _seed; the defaults would only be shown
        del module.params[name]
    params = module.options

    def work() -> dict[str, object]:
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
