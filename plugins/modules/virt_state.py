#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_state
short_description: Start, pause, save, reboot and shut down domains, and wait for the result
version_added: 0.1.0
description:
  - Brings domains of a hypervisor to a state, whatever state they are in, and returns when they are
    in it or cannot reach it. The reported state was read from libvirt afterwards.
  - For V(running), a domain that is shut off is started (restored if it has saved memory), a paused
    one is resumed, a suspended one is woken up, one that has crashed is destroyed and started, and
    one that is shutting down is started once it is off.
  - For V(shutoff), a guest is asked to shut down, through its guest agent if one is connected and
    by its power button, again every few seconds, because a guest that is booting ignores it. A
    paused guest is resumed and a suspended one is woken up first, so that it can react.
  - For V(paused), a running domain is paused and stays in memory. For V(saved), its memory is
    written to the hypervisor's disk and it stops (libvirt's managed save); V(running) restores it,
    and it continues where it was. A domain that does not run is refused for both, because it has no
    memory to keep.
  - A domain that another run is creating, moving or removing is left unchanged, with an error that
    says so.
  - A domain that libvirt certainly would not start is refused before anything is changed, also in
    check mode. It lacks a file or backing file of a disk, a bridge, or an active network.
  - If one of several domains cannot be brought to the state, none is touched.
  - Several domains are started in the order of their C(start_order), equal numbers at the same time
    and those without a number last, and shut down, paused and saved in reverse order. After
    starting one, its C(start_delay) is waited for. If one fails, those after it are left unchanged.
  - With O(reset) it also presses the reset button, as a last resort for a guest that hangs. With
    O(reboot) a guest is shut down and started again, so that its stored definition takes effect.
  - If a running VM presents the host key it was seeded with, it no longer needs its seed medium,
    which is removed.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Whether a guest will react is not known in advance.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - With O(reset) each call resets, and with O(reboot) each reboots.
options:
  names:
    description:
      - Names of the domains. One that is not defined on the hypervisor is an error.
    type: list
    elements: str
    required: true
    aliases: [name]
  state:
    description:
      - State to bring the domains to; unchanged if omitted.
    type: str
    choices: [running, shutoff, paused, saved]
  shutdown_timeout:
    description:
      - Time that a guest may take to shut down, in seconds.
    type: float
    default: 120.0
  force:
    description:
      - Destroy a domain that has not shut down within O(shutdown_timeout), which is like pulling
        the plug. Without this it is left running and reported as failed.
      - Also start domains on a hypervisor that the playbook C(fleet.virt.rolling) is emptying or
        has emptied, and may reboot. Without this nothing is started there until it is done.
    type: bool
    default: false
  autostart:
    description:
      - Whether the domains start with their hypervisor; unchanged if omitted.
    type: bool
  reset:
    description:
      - Reset the domains, as with the reset button. Data that the guests have not written to their
        disks is lost.
      - Only a running domain can be reset. With O(state=running), one that does not run is started,
        or resumed and reset.
      - Excludes every O(state) but V(running).
    type: bool
    default: false
  reboot:
    description:
      - Shut the domains down, as with O(state=shutoff), and start them. One that is off is started,
        one with saved memory is restored first.
      - Excludes O(reset) and every O(state) but V(running).
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_query
    description: Reads the state of domains and much more.
"""

EXAMPLES = r"""
- name: Start a VM, or wake it up, and let it start with its hypervisor
  fleet.virt.virt_state:
    name: web1
    state: running
    autostart: true

- name: Reset a VM whose guest hangs
  fleet.virt.virt_state:
    name: web1
    reset: true

- name: Save the memory of a VM to disk until it is started again
  fleet.virt.virt_state:
    name: web1
    state: saved

- name: Shut down two VMs, and destroy them if that takes more than five minutes
  fleet.virt.virt_state:
    names: [web1, db1]
    state: shutoff
    shutdown_timeout: 300
    force: true
"""

RETURN = r"""
vms:
  description: One entry for each domain, in the order of O(names).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    uuid:
      description: UUID of the domain.
      type: str
    state:
      description:
        - The state that it is in afterwards, in libvirt's own terms; V(saved) for one that is off
          with its memory saved. In check mode, the one it would be in.
      type: str
      sample: running
    before:
      description: The state that libvirt reported before anything was done, in the same terms.
      type: str
      sample: paused
    autostart:
      description: Whether it starts with its hypervisor.
      type: bool
    changed:
      description:
        - Whether its state or autostart has changed, its seed medium was removed, or it was reset
          or rebooted.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
      sample: [resume]
    failed:
      description: Whether it is not as requested.
      type: bool
    not_tried:
      description:
        - Whether nothing was done for it because another one of the same call failed.
      type: bool
    msg:
      description: Why not, or a remark; else null.
      type: str
shares:
  description: Names of the domains to bring to the state on each hypervisor.
  returned: in playbooks of this collection
  type: dict
rounds:
  description: The same in start order, one entry for each round.
  returned: in playbooks of this collection
  type: list
  elements: dict
groups:
  description: The groups of each domain to restart.
  returned: in playbooks of this collection
  type: dict
unread:
  description: Why the groups of domains are not known, by domain name.
  returned: in playbooks of this collection
  type: dict
restarted:
  description: Names of the domains that were restarted.
  returned: in playbooks of this collection
  type: list
  elements: str
left:
  description: Names of those that were not restarted because another one of their group failed.
  returned: in playbooks of this collection
  type: list
  elements: str
rows:
  description: Outcome for each domain of this round and previous ones.
  returned: in playbooks of this collection
  type: list
  elements: list
failures:
  description: Failures in these rounds, by domain name.
  returned: in playbooks of this collection
  type: dict
silent:
  description: Hypervisors that may have more domains of the requested groups, and why.
  returned: in playbooks of this collection
  type: str
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import effects as state
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.options import (
    ARGUMENTS,
    StateWork,
    require_sound,
    wanted_of,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options
    wanted = wanted_of(params)

    def bring() -> Mapping[str, object]:
        stage = envelope.read(StateWork, params)
        looking = stage.stage == "look"
        if not looking:
            require_sound(wanted)
        with connect(params["uri"], params["timeout"]) as connection:
            if looking:
                return state.look(connection, params["names"], stage.groups)
            check, more = module.check_mode, stage.more
            return state.run(connection, params["names"], wanted, check=check, more=more)

    run(module, bring)


if __name__ == "__main__":
    main()
