#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_wait
short_description: Wait until virtual machines respond
version_added: 0.1.0
description:
  - Waits for virtual machines of a hypervisor, all at the same time, until each has an address at
    which an SSH server responds with its banner. The hypervisor connects to them, so the VMs need
    not be reachable from the controller.
  - An address is taken, in this order, from the domain's metadata, the DHCP leases of libvirt's
    networks, the guest agent, the hypervisor's neighbour table, and the lines that cloud-init
    writes to the serial console. For a VM that is in none of these, the hypervisor probes the VM's
    own network, once every 5 seconds, and only if that is no larger than a /24 and the hypervisor
    has an IPv4 address on the bridge.
  - An address that responds with the MAC address of another machine does not count. For a VM that
    was seeded with a host key, only a server with this key counts (if the hypervisor has C(ssh)).
  - A VM that has presented the host key it was seeded with no longer needs its seed medium, which
    is detached and deleted.
  - For a VM whose seed has packages, commands or user-data, the module waits until its first boot
    has ended, which the VM reports on its serial console. If one of them failed, the VM is left as
    it is, and the task fails and names what failed, now and each time, until
    M(fleet.virt.virt_seed) with C(state=absent) acknowledges it. If the end cannot be determined
    (the commands restart the guest, or the console shows nothing), RV(vms[].msg) says so.
  - Waiting ends at once for a VM that is not running, for example because it crashed or was shut
    off. It ends within seconds for one that did not apply its seed, because its SSH server presents
    another host key, or because its console reaches a login prompt without any output of
    cloud-init.
  - Prints what it is waiting for and the progress. It polls the hypervisor in short calls, so that
    a broken connection does no harm. For each VM that did not respond, the end of its serial
    console output is shown.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: partial
    details:
      - In check mode nothing is queried or waited for; RV(vms[].answered) is null.
  diff_mode:
    support: none
    details:
      - The only change is the removal of a seed medium; see RV(vms[].changed).
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
      - Maximum time to wait, in seconds.
    type: float
    default: 300
  port:
    description:
      - Port of the SSH server in the virtual machines.
    type: int
    default: 22
  slice:
    description:
      - Maximum time of a single call to the hypervisor, in seconds; progress is shown at this
        interval. A call goes on for up to half a minute more where the console of a VM is at a
        login prompt and has shown nothing of cloud-init.
    type: float
    default: 10
  until:
    description:
      - What to wait for.
      - V(ssh) means that an SSH server responds and presents the host key that the VM was seeded
        with.
      - V(address) means that an address is known, whether or not the VM responds there yet. That is
        enough to refresh the inventory while the VM is still booting. In this case no console
        output is printed, and no seed medium is removed.
    type: str
    choices: [ssh, address]
    default: ssh
seealso:
  - module: fleet.virt.virt_query
    description: Reads the present addresses of virtual machines.
"""

EXAMPLES = r"""
- name: Wait until two virtual machines respond
  fleet.virt.virt_wait:
    names: [web1, web2]
    wait_timeout: 120
  register: waited

- name: Wait until they have addresses
  fleet.virt.virt_wait:
    names: [web1, web2]
    until: address

- name: Show their addresses
  ansible.builtin.debug:
    msg: "{{ waited.vms | items2dict(key_name='name', value_name='address') }}"
"""

RETURN = r"""
vms:
  description: The virtual machines, in the order of O(names), whether or not they responded.
  returned: always, unless the hypervisor cannot be reached
  type: list
  elements: dict
  contains:
    name:
      description: Name of the virtual machine.
      type: str
    address:
      description: The address that responded; if none did, the most reliable one, or null.
      type: str
      sample: 192.0.2.17
    addresses:
      description: All addresses that were found, the most reliable first.
      type: list
      elements: str
    source:
      description: Source of RV(vms[].address), V(static), V(lease), V(agent), V(neighbour) or
        V(console).
      type: str
    seconds:
      description: Seconds after which it responded, or had an address with O(until=address); else
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
        - Whether it responded and nothing failed in its first boot, or has an address with
          O(until=address); null in check mode.
      type: bool
    first_boot:
      description: Why a VM whose SSH server responds counts as not responding, V(failed) if
        something failed in its first boot, V(running) if that has not ended; else null.
      type: str
    msg:
      description: What is missing, what failed in the first boot or that its end is not known, or
        why the seed medium could not be removed; empty if there is no problem.
      type: str
    changed:
      description: Whether its seed medium was removed.
      type: bool
    console:
      description: The last lines of its serial console, if it did not respond.
      type: list
      elements: str
elapsed:
  description: Duration in seconds.
  returned: when there was something to wait for
  type: float
waiting:
  description: Names of those still waited for; empty at the end.
  returned: always, unless the hypervisor cannot be reached
  type: list
  elements: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import effects_wait as wait


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
    settings = wait.WaitSettings(
        params["wait_timeout"], params["port"], params["slice"], params["until"]
    )

    def work() -> wait.WaitResult:
        if module.check_mode:
            return wait.predict(params["names"])
        uri, timeout = params["uri"], params["timeout"]
        with connect(uri, timeout) as connection, connect(uri, timeout) as agents:
            return wait.wait(connection, agents, params["names"], settings)

    run(module, work)


if __name__ == "__main__":
    main()
