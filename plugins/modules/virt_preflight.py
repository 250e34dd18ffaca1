#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_preflight
short_description: Check whether a hypervisor is ready to join the fleet
version_added: 0.1.0
description:
  - Checks a hypervisor for problems that would surface later, and prints them. KVM is tested by
    booting a guest of 512 bytes, TLS by connecting to every other hypervisor with names verified,
    the clock by querying the time. In the playbook, a pool that several hypervisors have is tested
    by one of them locking a small image in it, which is removed again, and another looking for the
    lock; not in check mode.
  - Each finding has a stable id, a severity, the affected hosts, a message with the value that was
    found, and a remedy. Only errors fail the task.
  - A hypervisor whose libvirt is down is checked as far as possible.
  - Needs root on the hypervisor. The playbook C(fleet.virt.preflight) checks all hypervisors of the
    fleet together, so that it also finds differences between them.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
  - fleet.virt._attributes.reading
options:
  expected:
    description:
      - Names of all hypervisors of the fleet, whatever C(--limit) says. Defaults to the hosts of
        the group C(hypervisors).
    type: list
    elements: str
  peers:
    description:
      - Hypervisors to test TLS connections to. Defaults to all others of O(expected).
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name in the inventory.
        type: str
        required: true
      address:
        description:
          - Address or name to connect to, which the certificate there has to contain.
        type: str
        required: true
  bridges:
    description:
      - Bridges that have to exist. Defaults to those of C(virt_nic_profiles), without these to
        C(br0); one of these that no VM here is on is then reported as a warning only.
    type: list
    elements: str
  pools:
    description:
      - Names of the pools that have to be active.
    type: list
    elements: str
    default: [default, base]
  min_free:
    description:
      - Space that should be free in each pool, such as C(10GiB); a plain number is in MiB.
    type: str
    default: 10GiB
  expiry_days:
    description:
      - Number of days before its expiry from which a certificate is reported. A revocation list is
        reported in the last tenth of its lifetime.
    type: int
    default: 30
  clock_seconds:
    description:
      - Seconds by which clocks may differ. A difference within the duration of the query is not
        reported.
    type: float
    default: 1.0
  output:
    description:
      - Output format, a table for people, JSON, YAML or CSV.
    type: str
    choices: [table, json, yaml, csv]
    default: table
  output_file:
    description:
      - File on the controller that the output is written to instead of being printed.
      - It is written beside its final name and renamed. A new file has mode 0600, an existing one
        keeps its owner, group and mode.
      - A device, a pipe, a socket or a symbolic link is refused.
    type: path
"""

EXAMPLES = r"""
- name: Check every hypervisor
  fleet.virt.virt_preflight:
"""

RETURN = r"""
facts:
  description: Facts found on the hypervisor, without judgement; what could not be determined is in
    C(errors).
  returned: success
  type: dict
baseline:
  description: The baseline CPU that all hypervisors support.
  returned: in playbooks of this collection
  type: dict
  contains:
    model:
      description: Its name, with the number of features it has more and less; null if there is
        none.
      type: str
    xml:
      description: The same as libvirt writes it.
      type: str
    runs:
      description: Whether this hypervisor supports it.
      type: bool
    error:
      description: Why there is none, else null.
      type: str
locks:
  description: Whether another hypervisor saw the lock that this one held in each pool that both
    have. An image was made in it for that, and removed.
  returned: in playbooks of this collection
  type: list
  elements: dict
  contains:
    pool:
      description: Name of the pool.
      type: str
    peer:
      description: The other hypervisor.
      type: str
    outcome:
      description: V(held), V(unseen), V(invisible) if the other's file did not appear here, or
        V(untried).
      type: str
    error:
      description: Why it was not tried, else null.
      type: str
findings:
  description: The findings, errors first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Kind of the finding, the same in all versions.
      type: str
    severity:
      description: V(error), V(warning) or V(info).
      type: str
    hosts:
      description: Affected hypervisors.
      type: list
      elements: str
    message:
      description: What was found, with the value.
      type: str
    remedy:
      description: What to do.
      type: str
cpus:
  description: The CPU that all hypervisors of an architecture support, if they were compared.
  returned: success
  type: list
  elements: dict
  contains:
    hosts:
      description: The hypervisors.
      type: list
      elements: str
    line:
      description: The line for C(group_vars) that gives new VMs this CPU, C(virt_cpu) with its
        value.
      type: str
summary:
  description: How many findings there are of each severity.
  returned: success
  type: dict
  contains:
    error:
      description: Errors.
      type: int
    warning:
      description: Warnings.
      type: int
    info:
      description: Informational findings.
      type: int
output:
  description: The text that was printed or written.
  returned: success
  type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import (
    effects_lock_trial as lock_trial,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import read as preflight
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.options import (
    ARGUMENTS,
    PreflightWork,
)


def main() -> None:
    module = create_module(ARGUMENTS, envelope.SPEC)
    params = module.options

    def work() -> dict[str, object]:
        stage = envelope.read(PreflightWork, params)
        if stage.stage == "compare":
            baseline = preflight.compare(params["uri"], params["timeout"], stage.cpus)
            locks = lock_trial.attempt(stage.own, stage.locks, params["timeout"])
            return {"changed": False, "baseline": baseline, "locks": locks}
        settings = preflight.PreflightRequest(
            uri=params["uri"],
            timeout=params["timeout"],
            bridges=params["bridges"] or [],
            profile_bridges=stage.bridges,
            pools=params["pools"],
            peers=params["peers"] or [],
        )
        return {"changed": False, "facts": preflight.read(settings)}

    run(module, work)


if __name__ == "__main__":
    main()
