#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_rolling
short_description: Work on hypervisors one after the other
version_added: 0.1.0
description:
  - On its own it reads whether a hypervisor runs VMs, whether it has to be rebooted and why, and
    how far rolling work is there.
  - A reboot is needed if C(/run/reboot-required) exists, if a kernel was installed in C(/boot)
    after the hypervisor booted another one, or if C(needs-restarting -r) says so where that program
    is.
  - The playbook C(fleet.virt.rolling) uses it to decide the order, to require that no VM runs
    before your tasks do, and for the health gate, in which a trial VM is started and removed. What
    it has done it marks on each hypervisor, by empty volumes in the pool C(fleet-notes). The
    options are for that playbook.
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
  tasks:
    description:
      - File with the tasks for each hypervisor; a relative path is relative to the folder in which
        the playbook was called.
    type: path
  host:
    description:
      - Pattern for the hypervisors to work on; all of the play if it is not given.
    type: str
  reboot:
    description:
      - Whether a hypervisor is rebooted after the tasks, V(needed) if it has to be.
    type: str
    choices: [needed, always, never]
    default: needed
  reboot_timeout:
    description:
      - Seconds within which it must answer again after a reboot.
    type: int
    default: 900
  serial:
    description:
      - How many hypervisors to work on at the same time, at most; fewer if the others cannot take
        the VMs of so many.
    type: int
    default: 1
  skip_unmovable:
    description:
      - Whether hypervisors with a running VM that cannot leave are left out. If not, nothing is
        done on any.
    type: bool
    default: false
  resume:
    description:
      - Whether hypervisors on which an interrupted run finished the same file of tasks are passed.
    type: bool
    default: true
  relax:
    description:
      - Whether anti-affinity may be broken where it leaves a VM nowhere to go.
    type: bool
    default: false
seealso:
  - module: fleet.virt.virt_maintenance
    description: Marks a hypervisor as in maintenance.
"""

EXAMPLES = r"""
- name: Read whether this hypervisor has to be rebooted
  fleet.virt.virt_rolling:
  register: rolling

- name: Say why
  ansible.builtin.debug:
    msg: "{{ rolling.reboot | default('no reboot is needed', true) }}"
"""

RETURN = r"""
running:
  description: The names of the domains that run.
  returned: success
  type: list
  elements: str
reboot:
  description: Why it has to be rebooted; null if it has not, or if that is not known because
    libvirt is not on this machine.
  returned: success
  type: str
  sample: /run/reboot-required exists (linux-image-amd64)
versions:
  description: The versions that run now, of C(libvirt), C(hypervisor) and C(kernel).
  returned: success
  type: dict
marks:
  description: The marks of rolling work, as volumes of the pool C(fleet-notes).
  returned: success
  type: list
  elements: str
at:
  description: The time of its clock, in milliseconds since 1970.
  returned: success
  type: int
held:
  description: Whether it is still in maintenance for this run, directly before a reboot.
  returned: in playbooks of this collection
  type: bool
rebooted:
  description: Whether it was rebooted.
  returned: in playbooks of this collection
  type: bool
claimed:
  description: Whether it is marked as begun.
  returned: in playbooks of this collection
  type: bool
ready:
  description: Whether no VM runs there, and your tasks may.
  returned: in playbooks of this collection
  type: bool
well:
  description: Whether it passed the health gate.
  returned: in playbooks of this collection
  type: bool
finished:
  description: Whether nothing is left to do there.
  returned: in playbooks of this collection
  type: bool
why:
  description: Which task failed there, and why.
  returned: in playbooks of this collection
  type: str
turns:
  description: The order, with the C(hosts) of each turn and which of them to C(work) on.
  returned: in playbooks of this collection
  type: list
  elements: dict
passed:
  description: Hypervisors on which an interrupted run finished these tasks.
  returned: in playbooks of this collection
  type: list
  elements: str
left_out:
  description: Hypervisors that should be worked on and cannot be now, with the reason.
  returned: in playbooks of this collection
  type: dict
skipped:
  description: Hypervisors that cannot be emptied and are skipped, with the reason.
  returned: in playbooks of this collection
  type: dict
output:
  description: The text that was printed.
  returned: in playbooks of this collection
  type: str
"""

from collections.abc import Mapping

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling import effects
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling.options import (
    ARGUMENTS,
    RollingWork,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def work() -> Mapping[str, object]:
        with connect(params["uri"], params["timeout"]) as connection:
            stage = envelope.read(RollingWork, params)
            return effects.stage(connection, stage, check=module.check_mode)

    run(module, work)


if __name__ == "__main__":
    main()
