#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_wait
short_description: Wait until virtual machines answer
version_added: 0.1.0
description:
  - Waits for virtual machines of a hypervisor, for all at once, until each has an address and an
    SSH server answers there with its banner. The hypervisor connects, so the VMs need not be
    reachable from the controller.
  - An address is taken, in this order, from the domain's metadata, the leases of libvirt's
    networks, the guest agent, the hypervisor's neighbour table, and the lines cloud-init writes to
    the serial console. For a VM that is in none of them, the hypervisor asks the VM's own network,
    once in 5 seconds, and only where that is no larger than a /24 and the hypervisor has an IPv4
    address on the bridge.
  - An address that answers with the MAC address of another machine does not count. Of a VM that was
    seeded with a host key, only a server that holds this key does (where the hypervisor has
    C(ssh)).
  - A VM that has shown the host key it was seeded with needs its seed medium no more. It is taken
    out of the VM and deleted.
  - A VM whose seed has packages, commands or user-data is waited for until its first boot has
    ended, which it tells on its serial console. Where one of them failed, the VM is left, and the
    task fails and names what failed, this time and each time, until M(fleet.virt.virt_seed) with
    C(state=absent) acknowledges it. Where the end cannot be known (the commands restart the guest,
    or the console says nothing) that is said in RV(vms[].msg).
  - Waiting ends at once for a VM that is seen not to run, such as one that crashed or was shut off.
    It ends after seconds for one that did not take its seed, whose SSH server shows another host
    key, or whose console comes to a login prompt without a word of cloud-init's.
  - Prints what it waits for and how far it is. It asks the hypervisor again and again in short
    calls, so that a connection that breaks meanwhile does no harm. For each VM that did not answer,
    the end of its serial console is shown.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: partial
    details:
      - In check mode nothing is asked and nothing waited for; RV(vms[].answered) is null.
  diff_mode:
    support: none
    details:
      - All that is changed is that a seed medium goes; see RV(vms[].changed).
  idempotent:
    support: full
options:
  names:
    description:
      - Names of the virtual machines. One that is not defined on the hypervisor is an error.
    type: list
    elements: str
    required: true
  wait_timeout:
    description:
      - Seconds to wait at most.
    type: float
    default: 300
  port:
    description:
      - Port of the SSH server in the virtual machines.
    type: int
    default: 22
  slice:
    description:
      - Seconds that a single call to the hypervisor takes at most; progress shows that often.
    type: float
    default: 10
  until:
    description:
      - What is waited for.
      - V(ssh) means that an SSH server answers, and shows the host key that the VM was seeded with.
      - V(address) means that an address is known, whether or not anybody answers there yet. That
        is enough to read the inventory again while the VM still boots. No console is printed then,
        and no seed medium removed.
    type: str
    choices: [ssh, address]
    default: ssh
seealso:
  - module: fleet.virt.virt_query
    description: Addresses of virtual machines as they are now.
"""

EXAMPLES = r"""
- name: Wait until two virtual machines answer
  fleet.virt.virt_wait:
    names: [web1, web2]
    wait_timeout: 120
  register: waited

- name: Wait until they have addresses
  fleet.virt.virt_wait:
    names: [web1, web2]
    until: address

- name: Show where they are
  ansible.builtin.debug:
    msg: "{{ waited.vms | items2dict(key_name='name', value_name='address') }}"
"""

RETURN = r"""
vms:
  description: The virtual machines, in the order of O(names), whether they answered or not.
  returned: always, unless the hypervisor cannot be asked
  type: list
  elements: dict
  contains:
    name:
      description: Name of the virtual machine.
      type: str
    address:
      description: The address that answered; if none did, the one that is believed most, or null.
      type: str
      sample: 192.0.2.17
    addresses:
      description: All addresses that were found, those believed most first.
      type: list
      elements: str
    source:
      description: Where RV(vms[].address) is from, V(static), V(lease), V(agent), V(neighbour) or
        V(console).
      type: str
    seconds:
      description: After how many seconds it answered, or had an address with O(until=address), else
        null.
      type: float
    state:
      description: State in libvirt's own terms.
      type: str
      sample: running
    reason:
      description: libvirt's reason for the state.
      type: str
      sample: booted
    answered:
      description:
        - Whether it answered and nothing failed in its first boot, or has an address with
          O(until=address); null in check mode.
      type: bool
    first_boot:
      description: Why one whose SSH server answers counts as one that does not, V(failed) if
        something failed in its first boot, V(running) if that goes on; else null.
      type: str
    msg:
      description: What is missing, what failed in the first boot or that its end is not known, or
        why the seed medium could not be removed; empty when all is well.
      type: str
    changed:
      description: Whether its seed medium was removed.
      type: bool
    console:
      description: The last lines of its serial console, when it did not answer.
      type: list
      elements: str
elapsed:
  description: Seconds that it took.
  returned: when it was waited for
  type: float
waiting:
  description: Names of those that were still to be waited for; empty in the end.
  returned: always, unless the hypervisor cannot be asked
  type: list
  elements: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.seed import wait


def main() -> None:
    module = create_module(
        {
            "names": {"type": "list", "elements": "str", "required": True},
            "wait_timeout": {"type": "float", "default": 300},
            "port": {"type": "int", "default": 22},
            "slice": {"type": "float", "default": 10},
            "until": {"type": "str", "choices": list(wait.UNTIL), "default": "ssh"},
        }
    )
    params = module.params
    settings = wait.Settings(
        params["wait_timeout"], params["port"], params["slice"], params["until"]
    )

    def work() -> wait.Result:
        if module.check_mode:
            return wait.predict(params["names"])
        uri, timeout = params["uri"], params["timeout"]
        with connect(uri, timeout) as connection, connect(uri, timeout) as agents:
            return wait.wait(connection, agents, params["names"], settings)

    run(module, work)


if __name__ == "__main__":
    main()
