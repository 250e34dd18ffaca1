#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_move_disk
short_description: Move a disk of domains to another pool of their hypervisor
version_added: 0.2.0
description:
  - Moves a disk of each domain to another pool of the same hypervisor, while the domain runs or
    while it is off. The volume keeps its name, format, size and backing file (its base image, which
    is not copied).
  - A running domain is switched to the new file once both are the same (libvirt's block copy). One
    that is off cannot be started by QEMU while its disk is copied.
  - The file that it left is removed if it is the domain's own, nothing else uses it, and no other
    hypervisor can reach its pool; otherwise it stays, and is named in RV(vms[].kept).
  - Until the switch a failure leaves the domain as it was. A run that was killed is finished by the
    next with the same options.
  - Refused are disks of domains with snapshots, whose documents name the files; disks that are
    encrypted, shareable, read-only or no files; drives; and disks that were not made for the
    domain.
  - If one of several domains is refused, none is touched.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  names:
    description:
      - Names of the domains. One that is not defined on the hypervisor is an error.
    type: list
    elements: str
    required: true
    aliases: [name]
  disk:
    description:
      - The disk that each of them has, by the name in its specification or by its target, such as
        C(vda).
      - Always required.
    type: str
  pool:
    description:
      - The pool, active and of files, that the disk is to be in.
      - Always required.
    type: str
  base_pool:
    description:
      - Pool of the base images, to which no disk is moved.
    type: str
    default: base
seealso:
  - module: fleet.virt.virt_migrate
    description: Moves domains to other hypervisors.
"""

EXAMPLES = r"""
- name: Move its system disk to the fast pool
  fleet.virt.virt_move_disk:
    name: web1
    disk: system
    pool: fast
"""

RETURN = r"""
vms:
  description: One entry for each domain; in playbooks of this collection it may have its groups.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    uuid:
      description: UUID of the domain.
      type: str
    changed:
      description: Whether anything was done.
      type: bool
    steps:
      description: What was done, in order.
      type: list
      elements: str
    path:
      description: File that the disk is; null if it is unknown.
      type: str
      sample: /srv/fast/web1_system.qcow2
    kept:
      description: The file that the disk left, with C(path) and C(reason), if it stays; else null.
      type: dict
    failed:
      description: Whether it failed.
      type: bool
    not_tried:
      description:
        - Whether nothing was done for it because another one of the same call failed.
      type: bool
    msg:
      description: Why not; else null.
      type: str
shares:
  description: The names of the domains that each hypervisor works on.
  returned: in playbooks of this collection
  type: dict
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from collections.abc import Mapping, Sequence

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move import (
    effects as disk_move,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move.options import (
    ARGUMENTS,
    wanted_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_verb as verb,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import SelectingWork


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def act(connection: Connection, names: Sequence[str]) -> Mapping[str, object]:
        return disk_move.run(connection, names, wanted_of(params), check=module.check_mode)

    run(module, lambda: verb.stage(params, SelectingWork, verb.look, act))


if __name__ == "__main__":
    main()
