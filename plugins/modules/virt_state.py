#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_state
short_description: Start, pause, save, reboot and shut down domains, and wait until they are
version_added: 0.1.0
description:
  - Brings domains of a hypervisor to a state, from whatever state they are in, and returns when
    they are in it or cannot be brought there. What it reports was read from libvirt afterwards.
  - To V(running), a domain that is shut off is started (from its saved memory, if it has any), a
    paused one is resumed, one in standby is woken, one that has crashed is destroyed and started,
    one that is shutting down is waited for and started.
  - To V(shutoff), a guest is asked to shut down, by its guest agent if one is connected and by its
    power button, again every few seconds, because a guest that boots hears nothing. A paused guest
    is resumed and one in standby is woken first, so that it can hear.
  - To V(paused), a domain that runs is paused; its memory stays where it is. To V(saved), its
    memory is written to the hypervisor's disk and it stops (libvirt's managed save); V(running)
    restores it and it goes on where it was. One that does not run is refused, for it has no memory
    to keep.
  - A domain that another run is making, moving or removing is left alone, with an error that says
    so.
  - If one of several domains cannot be brought to the state, none is touched.
  - Several are started in the order of their C(start_order), those of one number at the same time
    and those without any last, and shut down, paused and saved the other way round. After one that
    was started its C(start_delay) is waited for. Where one fails, those after it are left as they
    are.
  - With O(reset) it also presses the reset button, as a last resort for a guest that hangs. With
    O(reboot) a guest is shut down and started again, so that it runs by its stored definition.
  - A running VM that shows the host key it was seeded with needs its seed medium no more; it is
    removed.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Whether a guest will obey is not known beforehand.
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
      - State to bring them to; left as it is when left out.
    type: str
    choices: [running, shutoff, paused, saved]
  shutdown_timeout:
    description:
      - How long a guest may take to shut down, in seconds.
    type: float
    default: 120.0
  force:
    description:
      - Destroy a domain, which is like pulling its plug, that has not shut down within
        O(shutdown_timeout). Without this it is left running and reported as failed.
    type: bool
    default: false
  autostart:
    description:
      - Whether they start with their hypervisor; left as it is when left out.
    type: bool
  reset:
    description:
      - Reset the domains, as by the reset button. What the guests have not written to their disks
        is lost.
      - Only a domain that runs can be reset. With O(state=running), one that does not is started,
        or resumed and reset.
      - Excludes every O(state) but V(running).
    type: bool
    default: false
  reboot:
    description:
      - Shut the domains down, as O(state=shutoff) does it, and start them. One that is off is
        started, one with saved memory is restored first.
      - Excludes O(reset) and every O(state) but V(running).
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_query
    description: The state of domains and much more.
"""

EXAMPLES = r"""
- name: Start a VM, or wake it, and have it started with its hypervisor
  fleet.virt.virt_state:
    name: web1
    state: running
    autostart: true

- name: Reset a VM whose guest hangs
  fleet.virt.virt_state:
    name: web1
    reset: true

- name: Keep the memory of a VM on disk until it is started again
  fleet.virt.virt_state:
    name: web1
    state: saved

- name: Shut two VMs down, for up to five minutes, then pull their plugs
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
      description: State it is in now, in libvirt's own terms; one that was saved is V(shutoff).
      type: str
      sample: running
    autostart:
      description: Whether it starts with its hypervisor.
      type: bool
    changed:
      description:
        - Whether its state or autostart is another than before, its seed medium went, or it was
          reset or rebooted.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
      sample: [resume]
    failed:
      description: Whether it is not as asked for.
      type: bool
    msg:
      description: Why not, or what is remarkable; else null.
      type: str
shares:
  description: For each hypervisor the names of the domains to bring to the state there.
  returned: in playbooks of this collection
  type: dict
rounds:
  description: The same in the order of start, one entry for each round.
  returned: in playbooks of this collection
  type: list
  elements: dict
groups:
  description: The groups of each domain that is restarted.
  returned: in playbooks of this collection
  type: dict
unread:
  description: Why the groups of domains are not known, by their names.
  returned: in playbooks of this collection
  type: dict
restarted:
  description: Names of the domains that were restarted.
  returned: in playbooks of this collection
  type: list
  elements: str
left:
  description: Names of those that were not, because another of their group failed.
  returned: in playbooks of this collection
  type: list
  elements: str
rows:
  description: What became of each domain of this round and of those before it.
  returned: in playbooks of this collection
  type: list
  elements: list
failures:
  description: What failed in them, by the names of the domains.
  returned: in playbooks of this collection
  type: dict
silent:
  description: Which hypervisors may have more domains of the groups that were named, and why.
  returned: in playbooks of this collection
  type: str
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.lifecycle import state
from ansible_collections.fleet.virt.plugins.module_utils._pure.lifecycle.state_options import (
    ARGUMENTS,
    INTERNAL,
    require_sound,
    wanted_of,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    params = module.options
    wanted = wanted_of(params)

    def bring() -> dict[str, object]:
        looking = params["_stage"] == "look"
        if not looking:
            require_sound(wanted)
        with connect(params["uri"], params["timeout"]) as connection:
            if looking:
                return state.look(connection, params["names"], params["_groups"])
            check, more = module.check_mode, params["_more"]
            return state.run(connection, params["names"], wanted, check=check, more=more)

    run(module, bring)


if __name__ == "__main__":
    main()
