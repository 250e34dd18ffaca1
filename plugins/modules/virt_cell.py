#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_cell
short_description: Read what a hypervisor has of a cell
version_added: 0.1.0
description:
  - A cell is a group of hypervisors that share storage and start each other's VMs when one of them
    has failed, by Pacemaker and Corosync.
  - Says which cell a hypervisor is a member of, and what Pacemaker says of its members. The role
    P(fleet.virt.ha#role), which makes cells and changes them, uses it on all of them together.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
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
  keys_dir:
    description:
      - Folder on the controller that has the keys of cells, as in P(fleet.virt.ha#role).
    type: path
  token:
    description:
      - Milliseconds after which a member that says nothing counts as failed.
    type: int
    default: 3000
  system:
    description:
      - Section C(system) of C(corosync.conf).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Look which cell a hypervisor is a member of
  fleet.virt.virt_cell:
"""

RETURN = r"""
release:
  description: The release of its distribution, which all members have in common.
  returned: success
  type: str
  sample: debian 13
cell:
  description: The cell that it is a member of; none if it is in none.
  returned: success
  type: str
foreign:
  description: A cluster of others that it is a node of.
  returned: success
  type: str
numbers:
  description: The members by its C(corosync.conf), and the number of each.
  returned: success
  type: dict
running:
  description: Whether Pacemaker runs.
  returned: success
  type: bool
online:
  description: The members that are online.
  returned: success
  type: list
  elements: str
unclean:
  description: The members that have failed and are not proven off.
  returned: success
  type: list
  elements: str
quorate:
  description: Whether those that are online have quorum.
  returned: success
  type: bool
resources:
  description: Resources that are VMs of the cell.
  returned: success
  type: list
  elements: str
here:
  description: Those of them that run here.
  returned: success
  type: list
  elements: str
keys:
  description: A digest that is the same where the keys are.
  returned: success
  type: str
missing:
  description: Fence agents of the cell that are not installed here.
  returned: success
  type: list
  elements: str
unfit:
  description: Fence agents of the cell that are no proof that a hypervisor is off, and why.
  returned: success
  type: dict
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha import effects_stages
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha.options import (
    ARGUMENTS,
    INTERNAL,
)


def main() -> None:
    module = create_module(ARGUMENTS, {**INTERNAL, **envelope.SPEC})
    run(
        module,
        lambda: effects_stages.run(module.options, check=module.check_mode),
        needs_libvirt=False,
    )


if __name__ == "__main__":
    main()
