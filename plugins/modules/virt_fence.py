#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_fence
short_description: Prove that a hypervisor that does not answer is off
version_added: 0.1.0
description:
  - Runs on a hypervisor that answers, and switches another one off by the agents of the package
    C(fence-agents), or by commands of your own. The status is read before and after; one that is
    off already is left so, and nothing is switched.
  - A hypervisor that accepts or refuses connections on the ports of SSH or libvirt, or answers ARP
    on a network in common, is not down, and nothing is switched. If it still answers after its
    devices said that it is off, they belong to another machine, and this fails.
  - Its silence counts only for an address on a link of this machine, where neighbours are asked,
    or behind a router if it has answered this machine when that created VMs. Without any this
    fails, too.
  - The playbook C(fleet.virt.restart_elsewhere) uses it before it restarts the VMs of a hypervisor
    that failed, and reads the devices from the variable C(virt_fence) of that hypervisor.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - The status is read, and nothing is switched. Whether switching would succeed is not known
        before.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  uri:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  timeout:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  host:
    description:
      - Name of the hypervisor that is to be off.
    type: str
    required: true
  addresses:
    description:
      - Its addresses, at which it must be silent. Without any its name is resolved.
    type: list
    elements: str
    default: []
  ports:
    description:
      - Ports on which it would accept connections if it were up, besides 22 and 16514.
    type: list
    elements: int
    default: []
  devices:
    description:
      - What switches it, one entry for each power supply. It is off when all of them say so at the
        same time.
    type: list
    elements: dict
    default: []
    suboptions:
      agent:
        description:
          - Name of a fence agent, such as V(fence_ipmilan), V(fence_redfish) or V(fence_apc). One
            whose metadata lack the action C(reboot) or C(status) cuts a host off from a network or
            from its storage, or cannot say whether it is on, and is refused.
        type: str
      command:
        description:
          - Program with its arguments that switches the power off, instead of an agent. Its exit
            status is 0 if it did.
        type: list
        elements: str
      status_command:
        description:
          - Program with its arguments that prints the line C(on) and ends with exit status 0 if the
            power is on, C(off) and 2 if it is off. Anything else means that this is not known.
            Programs end with 2 for other reasons, too.
        type: list
        elements: str
      parameters:
        description:
          - Parameters of the agent by their names, such as C(ip), C(username) and C(plug). The
            agent, or the command, reads them from its standard input, one C(name=value) a line.
        type: dict
        default: {}
      secrets:
        description:
          - Parameters such as C(password) that no output shows. They are given in the same way, and
            never as arguments, which everybody on the machine could read.
        type: dict
        default: {}
  stated:
    description:
      - A person has seen that it is without power, and nothing is switched. If that is wrong, a VM
        may run twice; locks on its disks are then the last line of defence.
    type: bool
    default: false
  ignore_signs:
    description:
      - A person knows that something else gives the signs of life, such as a router that answers
        ARP requests for others, or a firewall that refuses connections. They are named then, and
        the O(devices) alone prove that it is off. Not with O(stated=true).
    type: bool
    default: false
  lease:
    description:
      - Seconds to wait with O(stated=true), so that locks of a client of the storage that vanished
        expire. NFSv4 keeps them for 90 seconds by default.
    type: float
    default: 100
  off_timeout:
    description:
      - Seconds within which its devices must say that it is off after they were told to switch it.
    type: float
    default: 60
"""

EXAMPLES = r"""
- name: Prove that hv3 is off
  fleet.virt.virt_fence:
    host: hv3
    addresses: [192.0.2.13]
    devices:
      - agent: fence_ipmilan
        parameters: {ip: 192.0.2.113, username: admin, lanplus: true, method: onoff}
        secrets: {password: "{{ vault_bmc_password }}"}

- name: Prove it by a command of our own
  fleet.virt.virt_fence:
    host: hv4
    addresses: [192.0.2.14]
    devices:
      - command: [/usr/local/sbin/rack-power, "off", hv4]
        status_command: [/usr/local/sbin/rack-power, status, hv4]  # prints on or off
"""

RETURN = r"""
outcome:
  description: How it is known that it is off.
  returned: success
  type: str
  sample: was off already
text:
  description: The same as a sentence.
  returned: success
  type: str
  sample: hv3 was off already
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import effects
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.options import (
    ARGUMENTS,
    INTERNAL,
    fence_options,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    options = fence_options(module.options)
    run(
        module,
        lambda: effects.fence(options, check=module.check_mode),
        needs_libvirt=False,
    )


if __name__ == "__main__":
    main()
