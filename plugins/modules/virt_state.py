#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_state
short_description: Start, resume and shut down domains, and wait until they are
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
  - A domain that another run is making, moving or removing is left alone, with an error that says
    so.
  - If one of several domains cannot be brought to the state, none is touched.
  - With O(reset) it also presses the reset button, as a last resort for a guest that hangs.
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
      - With O(reset) each call resets.
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
    choices: [running, shutoff]
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
      - Excludes O(state=shutoff).
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
      description: State it is in now, in libvirt's own terms.
      type: str
      sample: running
    autostart:
      description: Whether it starts with its hypervisor.
      type: bool
    changed:
      description:
        - Whether its state or autostart is another than before, its seed medium went, or it was
          reset.
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
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.lifecycle import state
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._pure.lifecycle.state_plan import Wanted


def main() -> None:
    module = create_module(
        {
            "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
            "state": {"type": "str", "choices": ["running", "shutoff"]},
            "shutdown_timeout": {"type": "float", "default": 120.0},
            "force": {"type": "bool", "default": False},
            "autostart": {"type": "bool"},
            "reset": {"type": "bool", "default": False},
        },
        required_one_of=[("state", "autostart", "reset")],
    )
    params = module.params
    wanted = Wanted(
        state=params["state"],
        autostart=params["autostart"],
        force=params["force"],
        shutdown_timeout=params["shutdown_timeout"],
        reset=params["reset"],
    )

    def bring() -> dict[str, object]:
        if not 0 <= wanted.shutdown_timeout <= 86400:
            raise FleetVirtError(
                f"shutdown_timeout: {wanted.shutdown_timeout:g} is no time to wait; it is a number"
                " of seconds from 0 to 86400"
            )
        if wanted.reset and wanted.state == "shutoff":
            raise FleetVirtError(
                "reset: this asks for a domain to begin again, and state shutoff for it to end;"
                " leave one of them out"
            )
        with connect(params["uri"], params["timeout"]) as connection:
            return state.run(connection, params["names"], wanted, check=module.check_mode)

    run(module, bring)


if __name__ == "__main__":
    main()
