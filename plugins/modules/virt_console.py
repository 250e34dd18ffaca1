#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_console
short_description: List the consoles of domains
version_added: 0.1.0
description:
  - Returns for each domain whether it has a screen and a serial console, and whether it runs, so
    that a console could be opened. The playbook C(fleet.virt.console) opens them.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  names:
    description:
      - Names of the domains.
      - A name that is not defined on the hypervisor is an error, unless O(ignore_missing) is set.
    type: list
    elements: str
    required: true
    aliases: [name]
  ignore_missing:
    description:
      - Skip names that are not defined on this hypervisor, for searching a fleet.
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_screenshot
    description: Captures a guest's screen.
  - module: fleet.virt.virt_console_log
    description: Reads the output of a guest's serial console.
"""

EXAMPLES = r"""
- name: List the consoles of a guest
  fleet.virt.virt_console:
    name: web1
"""

RETURN = r"""
consoles:
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
      description: Its state, as V(running) or V(shutoff).
      type: str
    phase:
      description: Phase of a run of this collection that is working on it; else null.
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
    screens:
      description: The types of its screens.
      type: list
      elements: str
      sample: [vnc]
    serial:
      description: Whether it has a serial console.
      type: bool
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.decide import (
    ARGUMENTS,
    wanted_names,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.read import look


def main() -> None:
    module = create_module(ARGUMENTS)
    params = module.options

    def found() -> dict[str, object]:
        names = wanted_names(params)
        with connect(params["uri"], params["timeout"]) as connection:
            entries = look(connection, names, ignore_missing=params["ignore_missing"])
        return {"changed": False, "consoles": entries}

    run(module, found)


if __name__ == "__main__":
    main()
